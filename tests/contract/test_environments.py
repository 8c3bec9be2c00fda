"""Every environment of the catalogue: the laws of `maxk-lab check`, and what its row declares."""

from functools import cache

import pytest
import small_environments
import torch

from maxk_lab.environments import contract
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.environment import method_for, optima, supports
from maxk_lab.environments.routing.rows import ROUTING
from maxk_lab.errors import LabError

every_row = pytest.mark.parametrize("row", list(ENVIRONMENTS), ids=lambda row: row.name)


def setting(row):
    return small_environments.parameters_of(row.name, **row.small)


@cache
def make(name, dtype="float64"):
    """The environment of a row, which no test changes."""
    policy = {"mean": 0.9, "learn_scale": True} if name == "gaussian" else {}
    return small_environments.make(name, dtype, policy=policy, **ENVIRONMENTS.get(name).small)


def drawn(row):
    """An environment with a policy, three instances and five trajectories of each."""
    environment = make(row.name)
    policy, instances = environment.policy(0), environment.instances(3, 1)
    return environment, policy, instances, environment.rollout(policy, instances, 5, seed=2)


@every_row
def test_every_environment_keeps_the_contract(row, monkeypatch):
    monkeypatch.setattr(contract, "DEVIATIONS", 5.0)
    assert [text for _, text in contract.contract(lambda: make(row.name)) if text] == []


@every_row
def test_statistics_are_exact_defined_and_differentiable(row):
    environment, policy, instances, rollouts = drawn(row)
    padded = torch.nn.functional.pad(rollouts.actions, (0, 2))
    for actions in (rollouts.actions, padded):
        log_probs = environment.log_probs(policy, instances, actions)
        assert torch.equal(log_probs, rollouts.log_probs)
    assert environment.enumerable == row.enumerable(setting(row))
    if environment.enumerable:
        listed = environment.enumerate(instances[:1])[0].unsqueeze(0)
        total = environment.log_probs(policy, instances[:1], listed).exp().sum()
        assert total.item() == pytest.approx(1.0, abs=1e-12)
    else:
        assert refused(environment.enumerate, instances[:1])
    assert rollouts.rewards.isfinite().all()
    assert row.reward_range(setting(row)).holds(rollouts.rewards.flatten().tolist())
    tokens = environment.tokens(policy, instances, rollouts.actions)
    for name in ("log_probs", "entropy", "logit_proxy"):
        values, sums = getattr(rollouts, name), getattr(tokens, name).sum(-1)
        undefined = row.refuses_weight(name) is not None
        torch.testing.assert_close(sums, values, rtol=1e-12, atol=1e-12, equal_nan=undefined)
        assert values.isnan().all() if undefined else values.isfinite().all()
    for name in ("log_probs", "entropy"):
        total = getattr(tokens, name).sum()
        gradients = torch.autograd.grad(
            total, list(policy.parameters()), allow_unused=True, retain_graph=True
        )
        assert all(g is None or g.isfinite().all() for g in gradients)
        assert any(g is not None and g.abs().max() > 0 for g in gradients)


@every_row
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_trajectory_of_one_instance_is_a_batch_like_any_other(row, dtype):
    environment = make(row.name, dtype)
    policy, instance = environment.policy(0), environment.instances(1, 1)
    rollouts = environment.rollout(policy, instance, 1, seed=2)
    assert rollouts.rewards.shape == rollouts.log_probs.shape == rollouts.lengths.shape == (1, 1)
    if "dtype" in row.policy_settings.model_fields:
        assert rollouts.log_probs.dtype == getattr(torch, dtype)
    log_probs = environment.log_probs(policy, instance, rollouts.actions)
    assert torch.equal(log_probs, rollouts.log_probs)
    tokens = environment.tokens(policy, instance, rollouts.actions)
    torch.testing.assert_close(tokens.log_probs.sum(-1), rollouts.log_probs)


@pytest.mark.parametrize(
    "row",
    [row for row in ENVIRONMENTS if row.name in ("tsp", "cvrp", "sdvrp", "pdp", "pronounce")],
    ids=lambda row: row.name,
)
def test_one_pass_gives_the_rollouts_and_their_tokens(row):
    environment, policy, instances, rollouts = drawn(row)
    again, tokens = environment.rollout_with_tokens(policy, instances, 5, seed=2)
    assert torch.equal(again.log_probs, rollouts.log_probs)
    assert not again.log_probs.requires_grad
    expected = environment.tokens(policy, instances, rollouts.actions)
    for name in ("mask", "log_probs", "entropy", "logit_proxy"):
        assert torch.equal(getattr(tokens, name), getattr(expected, name)), name


def tempered_by_hand(actions, log_probs, temperature):
    """Log-probabilities of listed trajectories: those of every decision, powered and normalised.

    The decisions are read off the tree of the trajectories and their probabilities alone.
    """
    total, before = torch.zeros_like(log_probs), torch.zeros(len(actions), dtype=torch.long)
    for t in range(actions.shape[1]):
        choices, choice = actions[:, : t + 1].unique(dim=0, return_inverse=True)
        reached = torch.zeros(len(choices), dtype=log_probs.dtype)
        powered = reached.index_add(0, choice, log_probs.exp()) ** (1 / temperature)
        parent = torch.empty(len(choices), dtype=torch.long)
        parent[choice] = before
        among = torch.zeros(int(before.max()) + 1, dtype=log_probs.dtype)
        among = among.index_add(0, parent, powered)
        total, before = total + (powered[choice] / among[before]).log(), choice
    return total


@pytest.mark.parametrize(
    "row",
    [row for row in ENVIRONMENTS if "tempered" in row.supports and row.enumerable(setting(row))],
    ids=lambda row: row.name,
)
def test_a_temperature_divides_the_log_probabilities_of_every_decision(row):
    environment, policy, instances, plain_rollouts = drawn(row)
    tempered, one = environment.tempered(2.0), instances[:1]
    actions, _ = environment.enumerate(one)
    with torch.no_grad():
        plain, powered = (
            each.log_probs(policy, one, actions.unsqueeze(0))[0] for each in (environment, tempered)
        )
    by_hand = tempered_by_hand(actions, plain, 2.0)
    torch.testing.assert_close(powered, by_hand, rtol=1e-9, atol=1e-9)
    assert not torch.allclose(powered, plain)
    rollouts = tempered.rollout(policy, instances, 5, seed=2)
    assert torch.equal(tempered.log_probs(policy, instances, rollouts.actions), rollouts.log_probs)
    same = environment.tempered(1.0).rollout(policy, instances, 5, seed=2)
    assert torch.equal(same.log_probs, plain_rollouts.log_probs)


@every_row
def test_a_row_declares_what_its_environment_can_do(row):
    """Validation believes the row, and the run asks the environment: both must say the same."""
    environment, parameters = make(row.name), setting(row)
    known = row.enumerable(parameters), row.integrable(parameters)
    assert sum(known) == row.listable or (known, row.name) == ((False, True), "gaussian")
    assert row.exact_when
    for declared, *methods in (
        ("greedy" in row.supports, "greedy"),
        ("tempered" in row.supports, "tempered"),
        ("cuda" in row.supports, "place"),
        (row.integrable(parameters), "exact_objective"),
        (bool(row.files), "read_instances", "write_instances", "instances_hash"),
        (row.solves_any_size or row in ROUTING, "optimum_method", "optima"),
    ):
        assert all(supports(environment, method) == declared for method in methods)
    instances = environment.instances(1, 0)
    if "multistart" in row.supports:
        assert not environment.forced_starts().enumerable
    else:
        assert not supports(environment, "forced_starts") or refused(environment.forced_starts)
    if row.solves_any_size:
        best = optima(environment, instances, method_for(environment, instances, "exact"))
        drawn_rewards = environment.rollout(environment.policy(0), instances, 50, seed=1).rewards
        assert best.exact
        assert (drawn_rewards <= best.values.unsqueeze(1) + 1e-9).all()
    else:
        assert refused(optima, environment, instances, "milp")
    if "greedy" in row.supports:
        assert environment.greedy(environment.policy(0), instances).shape == (1,)


def refused(call, *arguments):
    """Whether a call says that it cannot be done."""
    with pytest.raises(LabError):
        call(*arguments)
    return True
