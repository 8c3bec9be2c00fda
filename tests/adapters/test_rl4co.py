"""RL4CO's models with Max@K: AM, SymNCO and MatNet, their step, their validation, a checkpoint."""

import pickle

import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from rl4co.envs import get_env
from rl4co.models.zoo.am import AttentionModel
from rl4co.models.zoo.matnet import MatNet
from rl4co.models.zoo.polynet import PolyNet
from rl4co.models.zoo.ptrnet import PointerNetwork
from rl4co.models.zoo.symnco import SymNCO
from rl4co.models.zoo.symnco.losses import invariance_loss
from rl4co.utils.ops import unbatchify
from rl4co.utils.trainer import RL4COTrainer

from maxk_lab import advantages
from maxk_lab.adapters.measuring import Measuring
from maxk_lab.adapters.rl4co import with_maxk
from maxk_lab.errors import LabError
from maxk_lab.training import MaxKPOMO

POLICY = {"embed_dim": 16, "num_encoder_layers": 1, "num_heads": 2}
SIZES = {"batch_size": 4, "train_data_size": 8, "val_data_size": 6, "test_data_size": 4}
SMALL = {"num_samples": 5, "k": 3, "val_samples": 8, **SIZES}
MODELS = {
    "am": (AttentionModel, "tsp", {"policy_kwargs": POLICY}),
    "symnco": (SymNCO, "tsp", {"policy_kwargs": POLICY, "num_augment": 3, "alpha": 0.5}),
    "matnet": (MatNet, "atsp", {"policy_params": POLICY}),
}
pytestmark = [
    pytest.mark.filterwarnings("ignore:Attribute '(env|policy|policy_params)' is an instance"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*`isinstance.treespec, LeafSpec.` is deprecated"),
]


def make(name, **options):
    model, env, some = MODELS[name]
    torch.manual_seed(0)
    env = get_env(env, generator_params={"num_loc": 6}, check_solution=False)
    return with_maxk(model)(env, **{**some, **SMALL, **options})


@pytest.mark.parametrize("name", MODELS)
def test_the_loss_weighs_samples_of_each_instance(name, monkeypatch):
    model, seen = make(name, baseline="subloo"), {}
    sample = type(model)._sample

    def kept(td, n, phase, **options):
        seen.update(sample(model, td, n, phase, **options))
        return seen

    monkeypatch.setattr(model, "_sample", kept)
    monkeypatch.setattr(model, "log_metrics", lambda out, phase, dataloader_idx=None: {})
    loss = model.shared_step(model.env.generator(4), 0, "train")["loss"]
    rewards, log_likelihood = (unbatchify(seen[one], 5) for one in ("reward", "log_likelihood"))
    assert rewards.shape == (12 if name == "symnco" else 4, 5)
    weights = advantages(rewards, k=3, baseline="subloo")
    exact = -(weights * log_likelihood).sum(1).mean()
    if name == "symnco":
        invariance = invariance_loss(seen["proj_embeddings"], 3)
        assert seen["loss_inv"].item() == pytest.approx(invariance.item())
        exact = exact + 0.5 * invariance
    torch.testing.assert_close(loss, exact)
    loss.backward()
    # The decoder reads it at the first decision only, which is not forced.
    assert model.policy.decoder.context_embedding.W_placeholder.grad.abs().max() > 0


def test_what_cannot_be_right_is_refused_by_name():
    for call, message in (
        (lambda: with_maxk(PolyNet), "PolyNet has its own shared_step"),
        (lambda: make("am", baseline="rollout"), "unknown baseline 'rollout'"),
        (lambda: make("matnet", start="multistart"), "start must be iid"),
        (
            lambda: with_maxk(PointerNetwork)(make("am").env, num_samples=5, k=3, val_samples=8),
            "PointerNetworkPolicy cannot sample",
        ),
        (
            lambda: make("am", num_samples=8, measuring=Measuring(parameters="nope")),
            "has a name that 'nope' matches",
        ),
        (
            lambda: make("am", num_samples=8, measuring=Measuring(parameters="decoder", n=8)),
            "two groups of n = 8 must fit",
        ),
    ):
        with pytest.raises(LabError, match=message):
            call()
    with pytest.raises(ValueError, match="K < n"):
        make("am", k=5, baseline="sample_loo")
    assert with_maxk(AttentionModel) is with_maxk(AttentionModel)
    assert not issubclass(with_maxk(AttentionModel), MaxKPOMO)
    assert type(pickle.loads(pickle.dumps(make("am")))) is with_maxk(AttentionModel)


def trainer_of(**options):
    return RL4COTrainer(
        accelerator="cpu",
        precision="32-true",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )


def parameters(model):
    return torch.cat([each.detach().flatten() for each in model.policy.parameters()])


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_lightning_trains_validates_and_loads(name, tmp_path):
    model = make(name)
    before = parameters(model)
    saver = ModelCheckpoint(tmp_path, monitor="val/reward", mode="max", save_last=True)
    trainer = trainer_of(max_epochs=1, callbacks=[saver], num_sanity_val_steps=0)
    trainer.fit(model)
    metrics = trainer.callback_metrics
    assert metrics["val/reward"] == metrics["val/max@3"] > metrics["val/max@1"]
    assert not torch.equal(before, parameters(model))
    loaded = type(model).load_from_checkpoint(saver.last_model_path, env=model.env)
    assert loaded.settings == model.settings
    assert torch.equal(parameters(loaded), parameters(model))


@pytest.mark.slow
def test_measuring_logs_the_pairs_and_changes_nothing():
    def trained(**options):
        model = make("am", num_samples=8, k=2, val_samples=2, **options)
        trainer = trainer_of(max_epochs=2, devices=1, enable_checkpointing=False)
        torch.manual_seed(1)
        trainer.fit(model)
        return parameters(model), trainer

    measuring = Measuring(every=2, parameters="decoder", k=[1, 2], prompts=3)
    watched, trainer = trained(measuring=measuring)
    assert torch.equal(watched, trained()[0])
    assert trainer.callback_metrics["maxk/variance_over_lowest/subloo@2"] >= 1
    assert trainer.callback_metrics["maxk/no_signal/subloo@2"] == 0
    assert "3 prompts with 8 samples each" in measuring.report.text
    assert "measuring" not in trainer.model.hparams  # nor in a checkpoint
