"""The Lightning classes against RL4CO's POMO, a twin of every loss, and Lightning's trainer."""

import copy
import logging
from functools import partial

import pytest
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from rl4co.envs import get_env
from rl4co.models.zoo.pomo import POMO
from rl4co.utils.ops import unbatchify
from rl4co.utils.trainer import RL4COTrainer

from maxk_lab.errors import LabError
from maxk_lab.estimators import advantages, maxk_reward_estimate
from maxk_lab.training import LeaderRewardPOMO, MaxKPOMO

POLICY = {"embed_dim": 16, "num_encoder_layers": 1, "num_heads": 2, "feedforward_hidden": 16}
SIZES = {"batch_size": 4, "train_data_size": 8, "val_data_size": 6, "test_data_size": 4}
SMALL = {"policy_kwargs": POLICY, "optimizer_kwargs": {"lr": 1e-3}, **SIZES}


pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:Attribute '(env|policy)' is an instance"
    ),  # RL4CO's own POMO
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*`isinstance.treespec, LeafSpec.` is deprecated"),
    pytest.mark.filterwarnings(
        "ignore:.*callbacks used to create the checkpoint need to be provided"
    ),
]


@pytest.fixture(scope="module")
def tsp():
    return get_env("tsp", generator_params={"num_loc": 7}, check_solution=False)


def make(env, cls=MaxKPOMO, **options):
    torch.manual_seed(0)
    own = {} if cls is POMO else {"k": 3, "val_samples": 8}
    return cls(env, **{**SMALL, **own, **options})


@pytest.fixture(scope="module")
def drawn(tsp):
    """RL4CO's POMO, and a copy of what it hands to `calculate_loss`, with forced first actions."""
    pomo = make(tsp, POMO)
    torch.manual_seed(1)
    batch = tsp.generator(4)
    td = tsp.reset(batch)
    out = pomo.policy(td, tsp, phase="train", decode_type="multistart_sampling", num_starts=6)
    rewards, log_likelihood = (unbatchify(out[name], 6) for name in ("reward", "log_likelihood"))
    return pomo, lambda: (td, batch, dict(out), rewards.clone(), log_likelihood)


def fit(model, folder=None, epochs=1, callbacks=(), ckpt_path=None):
    if folder is not None:
        saver = ModelCheckpoint(folder, monitor="val/reward", mode="max", save_last=True)
        callbacks = [*callbacks, saver]
    trainer = RL4COTrainer(
        max_epochs=epochs,
        callbacks=list(callbacks),
        accelerator="cpu",
        precision="32-true",
        logger=False,
        enable_checkpointing=folder is not None,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        log_every_n_steps=1,
    )
    trainer.fit(model, ckpt_path=ckpt_path)
    return trainer


def assert_same_gradients(models, losses):
    torch.testing.assert_close(*losses, rtol=1e-6, atol=1e-6)
    gradients = (
        torch.autograd.grad(
            loss, list(model.policy.parameters()), retain_graph=True, allow_unused=True
        )
        for model, loss in zip(models, losses, strict=True)
    )
    for mine, theirs in zip(*gradients, strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"baseline": "none"},
        {"baseline": "sample_loo"},
        {"baseline": "subloo", "weight_normalization": "zscore"},
    ],
    ids=lambda options: options["baseline"],
)
def test_the_loss_is_that_of_the_weights_with_their_options(tsp, drawn, options):
    pomo, rolled = drawn
    named = {"variance_reduction" if key == "baseline" else key: options[key] for key in options}
    model = make(tsp, policy=pomo.policy, entropy_bonus=0.1, **named)
    td, batch, out, rewards, log_likelihood = rolled()
    out["entropy"] = torch.arange(24.0)
    loss = model.calculate_loss(td, batch, out, rewards, log_likelihood)["loss"]
    weights = advantages(rewards, estimator="maxk", k=3, **options)
    torch.testing.assert_close(loss, -(weights * log_likelihood).sum(-1).mean() - 0.1 * 11.5)
    assert out["rho_hat"].item() == pytest.approx(maxk_reward_estimate(rewards, 3).mean().item())
    assert not out["rho_hat"].requires_grad


REINFORCE = partial(MaxKPOMO, estimator="reinforce", baseline="shared")
LEADER = partial(LeaderRewardPOMO, alpha=0.0)


@pytest.mark.parametrize(
    ("same", "reward_scale"),
    [(REINFORCE, None), (REINFORCE, "norm"), (LEADER, 3), (LEADER, "scale")],
)
def test_pomo_is_a_special_case_in_loss_and_gradient(tsp, drawn, same, reward_scale):
    policy, rolled = drawn[0].policy, drawn[1]
    models = [make(tsp, cls, policy=policy, reward_scale=reward_scale) for cls in (same, POMO)]
    outputs = [model.calculate_loss(*rolled()) for model in models]
    assert_same_gradients(models, [out["loss"] for out in outputs])
    assert outputs[0]["k"] == (1 if same is REINFORCE else 3)


def test_with_forced_starts_a_whole_step_is_pomos(tsp, monkeypatch):
    models = [make(tsp, cls) for cls in (POMO, partial(LEADER, start="multistart"))]
    losses = []
    for model in models:
        monkeypatch.setattr(model, "log_metrics", lambda out, phase, dataloader_idx=None: {})
        torch.manual_seed(5)
        losses.append(model.shared_step(tsp.generator(4), 0, "train")["loss"])
    assert_same_gradients(models, losses)


def test_wrong_shapes_and_too_few_samples_raise(tsp, drawn):
    model = make(tsp, variance_reduction="sample_loo")
    td, batch, out, rewards, log_likelihood = drawn[1]()
    with pytest.raises(ValueError, match=r"unbatchified.*\[24\] and \[24\]"):
        model.calculate_loss(td, batch, out)
    with pytest.raises(ValueError, match=r"\[batch, n\], got shapes \[4, 6\] and \[6, 4\]"):
        model.calculate_loss(td, batch, out, rewards, log_likelihood.T)
    with pytest.raises(ValueError, match="K < n"):
        model.calculate_loss(td, batch, out, rewards[:, :3], log_likelihood[:, :3])
    later = make(tsp, k=8, k_schedule={"kind": "step", "until": 50})
    with pytest.raises(ValueError, match="K = 8 and n = 7"):
        later.shared_step(tsp.generator(2), 0, "train")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": "multi"}, "start must be one of iid, multistart.*did you mean multistart"),
        ({"variance_reduction": "subloos"}, "subloo"),
        ({"variance_reduction": "subloo", "baseline": "centred"}, "variance_reduction or baseline"),
        ({"baseline": "centered"}, "centred"),
        ({"estimator": "off_policy_maxk"}, "several steps per batch, which RL4CO's step"),
        ({"baseline": "eob_loo", "k": 1}, "the gradient of every trajectory"),
        ({"baseline": "otb_loo", "k": 1}, "the whole distribution of every decision"),
        ({"baseline": "opo_loo", "k": 1}, "the length of every trajectory"),
        ({"baseline": "ladder[cross_fit]"}, "the gradient of every trajectory"),
        ({"baseline": "ladder[oracle]"}, "complete enumeration"),
        ({"k_schedule": {"kind": "stpe"}}, "did you mean step"),
        ({"variance_reduction": "sample_loo", "num_samples": 3}, "K < n"),
        ({"baseline": "subloo", "num_samples": 6, "k_schedule": {"kind": "step", "until": 5}},
         "2 <= K"),
        ({"val_samples": 2}, "val_samples must be at least 3"),
        ({"num_samples": 6, "num_starts": 7}, "num_samples or num_starts"),
        ({"weight_normalization": "z"}, "weight_normalization must be one of"),
        ({"k": 0}, "k must be at least 1, got 0"),
        ({"entropy_bonus": -1.0}, "entropy_bonus"),
        ({"cls": LeaderRewardPOMO, "alpha": 0.25, "k": 8, "val_samples": 4},
         "val_samples must be at least 8, got 4"),
        ({"cls": LeaderRewardPOMO, "baseline": "group_mean"}, "leader_reward"),
        ({"cls": LeaderRewardPOMO, "alpha": -1.0}, "alpha must be at least 0"),
        ({"cls": LeaderRewardPOMO, "estimator": "maxk"}, "Leader Reward has a fixed estimator"),
    ],
)  # fmt: skip
def test_wrong_settings_are_named(tsp, options, message):
    with pytest.raises(LabError, match=message):
        make(tsp, **options)


@pytest.mark.parametrize("start", ["iid", "forced"])
def test_forced_starts_are_labelled_and_do_not_train_the_first_action(
    tsp, monkeypatch, caplog, start
):
    """TSP's decoder reads W_placeholder at the first decision only."""
    logger = "maxk_lab.training.pomo"
    monkeypatch.setattr(logging.getLogger(logger), "propagate", True)
    with caplog.at_level(logging.WARNING, logger=logger):
        model = make(tsp, start=start, entropy_bonus=0.01)
    assert ("another objective" in caplog.text) == (start == "forced")
    assert model.settings.start == {"iid": "iid", "forced": "multistart"}[start]
    logged = {}
    monkeypatch.setattr(
        model, "log_metrics", lambda out, phase, dataloader_idx=None: logged.update(out) or {}
    )
    loss = model.shared_step(tsp.generator(4), 0, "train")["loss"]
    first = model.policy.decoder.context_embedding.W_placeholder
    gradient = torch.autograd.grad(loss, first, allow_unused=True)[0]
    name = "rho_hat" if start == "iid" else "rho_hat_multistart"
    assert {key for key in logged if key.startswith("rho_hat")} == {name}
    assert (gradient is None) == (start == "forced")
    assert start == "forced" or gradient.abs().max() > 0


def test_leader_reward_with_few_samples_needs_no_k_and_comes_back_from_its_checkpoint(
    tsp, tmp_path
):
    few = {"alpha": 0.25, "num_samples": 2, "val_samples": 4}
    model = LeaderRewardPOMO(tsp, baseline="shared", **few, **SMALL)
    trainer = fit(model, tmp_path)
    metrics = trainer.callback_metrics
    assert metrics["val/reward"] == metrics["val/max@4"] > metrics["val/max@1"]
    path = trainer.checkpoint_callback.last_model_path
    loaded = LeaderRewardPOMO.load_from_checkpoint(path, env=tsp)
    assert (loaded.settings, loaded.num_starts) == (model.settings, 2)
    assert loaded.settings.estimator == "leader_reward[0.25]"


@pytest.mark.parametrize(
    ("name", "size"),
    [("cvrp", {"num_loc": 10}), ("pdp", {"num_loc": 6}), ("flp", {"num_loc": 6, "to_choose": 3})],
)
def test_log_likelihoods_are_those_of_teacher_forcing_in_every_layout(name, size):
    env = get_env(name, generator_params=size, check_solution=False)
    model = make(env, num_samples=4)
    assert model._sample(env.reset(env.generator(1)), 4, "val")["reward"].shape == (4,)
    td = env.reset(env.generator(4))  # as many samples as instances: where RL4CO confuses them
    out = model._sample(td.clone(), 4, "train")
    forced = out["actions"].view(4, 4, -1)
    for sample in range(4):
        again = model.policy(td.clone(), env, phase="train", actions=forced[sample])
        torch.testing.assert_close(
            again["log_likelihood"], out["log_likelihood"].view(4, 4)[sample], rtol=1e-4, atol=1e-4
        )


class Ks(Callback):
    """The logged K of every step."""

    def __init__(self):
        self.values = []

    def on_train_batch_end(self, trainer, *_):
        self.values.append(trainer.callback_metrics["train/k"].item())


def test_lightning_trains_writes_a_plain_checkpoint_loads_it_and_goes_on(tsp, tmp_path):
    schedule = {"kind": "step", "first": 2, "until": 3}
    ks = Ks()
    model = make(tsp, k=4, k_schedule=schedule, lr_scheduler="MultiStepLR", reward_scale="scale")
    before = copy.deepcopy(model.policy.state_dict())
    trainer = fit(model, tmp_path, epochs=2, callbacks=[ks])
    assert ks.values == [2, 2, 2, 4]
    after = model.policy.state_dict()
    assert any(not torch.equal(after[name], value) for name, value in before.items())
    assert trainer.callback_metrics["val/reward"] == trainer.callback_metrics["val/max@4"]
    path = trainer.checkpoint_callback.last_model_path
    content = torch.load(path)
    assert not {"env", "policy"} & set(content["hyper_parameters"])
    assert all(name.startswith("policy.") for name in content["state_dict"])
    loaded = MaxKPOMO.load_from_checkpoint(path, env=tsp)
    assert loaded.hparams == model.hparams
    assert loaded.settings == model.settings
    again = loaded.policy.state_dict()
    assert all(torch.equal(again[name], value) for name, value in after.items())
    later = Ks()
    resumed = fit(loaded, epochs=3, callbacks=[later], ckpt_path=path)
    assert later.values == [4, 4]
    assert resumed.global_step == 6


def test_a_pomo_script_runs_unchanged_and_validates_by_the_unbiased_estimate(tsp, monkeypatch):
    metrics = {"train": ["loss", "reward"], "val": ["reward", "max_reward"], "test": ["reward"]}
    script = {"num_starts": 7, "metrics": metrics, "lr_scheduler": "MultiStepLR", **SIZES}
    ours = {"k": 3, "val_samples": 8, "start": "multistart"}  # whose validation is i.i.d., too
    model = MaxKPOMO(tsp, None, POLICY, "shared", 8, **script, **ours)
    assert "multistart" in model.policy.train_decode_type
    samples = []

    def remembered(td, n, phase, original=model._sample):
        out = original(td, n, phase)
        samples.append(unbatchify(out["reward"], n))
        return out

    monkeypatch.setattr(model, "_sample", remembered)
    logged = fit(model).callback_metrics
    assert {"val/reward", "val/max_reward", "train/rho_hat_multistart"} <= set(logged)
    rewards = torch.cat(samples).double()
    assert rewards.shape == (6, 8)
    for k in (1, 2, 3, 4, 8):
        expected = maxk_reward_estimate(rewards, k).mean().item()
        assert logged[f"val/max@{k}"].item() == pytest.approx(expected, rel=1e-6)
