"""A batch is drawn in one pass where there is one, on the policy's device, in the precision set."""

import pytest
import torch

from maxk_lab.environments.environment import make_environment
from maxk_lab.errors import LabError
from maxk_lab.training.device import device_of, resolve_device
from maxk_lab.training.refusals import Weighting
from maxk_lab.training.settings import Settings
from maxk_lab.training.step.batch import draw
from maxk_lab.training.step.step import Step
from maxk_lab.training.trainer import Trainer

ENVIRONMENTS = {
    "toy_llm": {"vocab_size": 6, "max_length": 4, "prompt_length": 4},
    "tsp": {"num_loc": 6},
}
POLICIES = {
    "toy_llm": {"embed_dim": 16, "num_layers": 1, "num_heads": 2},
    "tsp": {"embed_dim": 16, "num_encoder_layers": 1, "num_heads": 2, "feedforward_hidden": 16},
}


def environment_of(name, dtype="float32"):
    from maxk_lab.environments.catalogue import ENVIRONMENTS as CATALOGUE

    row = CATALOGUE.get(name)
    parameters, policy = (settings.defaults() for settings in (row.settings, row.policy_settings))
    return make_environment(
        {"name": name} | parameters | ENVIRONMENTS[name], policy | POLICIES[name] | {"dtype": dtype}
    )


def trained(environment, steps=2, **settings):
    settings = Settings.from_mapping({"batch": 16, "inner_epochs": 2, **settings})
    method = Step(environment, settings, Weighting("maxk", "centred", 4, 2))
    trainer = Trainer.start(method, environment.policy(0), seed=0)
    for _ in range(steps):
        trainer.advance()
    return trainer


def test_one_pass_takes_the_place_of_two(sequences):
    class OnePass(sequences):
        def rollout_with_tokens(self, policy, instances, n, *, seed):
            rollouts = sequences.rollout(self, policy, instances, n, seed=seed)
            return rollouts, sequences.tokens(self, policy, instances, rollouts.actions)

        def rollout(self, policy, instances, n, *, seed):
            raise AssertionError

    assert torch.equal(trained(OnePass()).policy.logits, trained(sequences()).policy.logits)


class Elsewhere:
    """Instances that remember where they were placed."""

    def __init__(self, sequences):
        class Placed(sequences):
            def place(self, instances, device):
                placed.append(torch.device(device))
                return instances

        placed = self.placed = []
        self.environment = Placed()


def test_instances_are_placed_where_the_policy_is(sequences):
    elsewhere = Elsewhere(sequences)
    trained(elsewhere.environment)
    assert elsewhere.placed == [torch.device("cpu")] * 2


def test_auto_is_the_cpu_without_a_cuda_device_or_for_an_environment_that_cannot_use_it(
    sequences, monkeypatch
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto").type == resolve_device("cpu").type == "cpu"
    with pytest.raises(
        LabError, match="device cuda: torch finds no CUDA device here; use auto or cpu"
    ):
        resolve_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_device("auto").type == "cuda"
    assert resolve_device("auto", sequences()).type == "cpu"
    assert resolve_device("auto", Elsewhere(sequences).environment).type == "cuda"
    with pytest.raises(LabError, match="device cuda: this environment's instances stay on the CPU"):
        resolve_device("cuda", sequences())


@pytest.mark.parametrize("name", ["toy_llm", "tsp"])
def test_bfloat16_is_off_by_default_and_changes_a_step_a_little(name):
    environment = environment_of(name)
    settings = Settings.from_mapping({"batch": 16})
    policy = environment.policy(0)
    exact = draw(environment, policy, None, settings, 4, seed=1)
    again = draw(
        environment, policy, None, Settings.from_mapping({"batch": 16, "amp": False}), 4, seed=1
    )
    rough = draw(
        environment, policy, None, Settings.from_mapping({"batch": 16, "amp": True}), 4, seed=1
    )
    assert torch.equal(exact.tokens.log_probs, again.tokens.log_probs)
    assert exact.tokens.log_probs.dtype == rough.tokens.log_probs.dtype == torch.float32
    assert rough.rollouts.rewards.dtype == exact.rollouts.rewards.dtype
    same = (exact.rollouts.actions == rough.rollouts.actions).all(-1)
    assert same.any()
    difference = (exact.tokens.log_probs - rough.tokens.log_probs)[same].abs().max().item()
    assert 0 < difference < 0.05


@pytest.mark.parametrize("name", ["toy_llm", "tsp"])
def test_every_parameter_has_a_gradient_in_bfloat16(name):
    environment = environment_of(name)
    exact, rough = trained(environment, 1), trained(environment, 1, amp=True)
    for (key, p), q in zip(exact.policy.named_parameters(), rough.policy.parameters()):
        assert q.dtype == torch.float32
        assert (p.grad is None) == (q.grad is None), key
        if p.grad is not None and p.grad.norm() > 1e-4:
            assert q.grad.norm() > 0, key
    assert rough.log["grad_norm"][0] == pytest.approx(exact.log["grad_norm"][0], rel=0.5)


def test_a_policy_that_autocast_leaves_alone_is_refused():
    with pytest.raises(LabError, match="amp: the policy's dtype is float64"):
        trained(environment_of("toy_llm", "float64"), amp=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_device_gives_the_numbers_of_the_cpu_within_rounding():
    environment = environment_of("tsp")
    here, there = trained(environment, 4, device="cpu"), trained(environment, 4, device="cuda")
    assert device_of(there.policy).type == "cuda"
    for name in ("reward/mean", "loss", "grad_norm", "entropy"):
        assert there.log[name] == pytest.approx(here.log[name], rel=1e-3, abs=1e-4)
