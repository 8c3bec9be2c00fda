"""Every environment of the catalogue through the same laws."""

import copy

import pytest
import small_environments
import torch

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.environment import method_for, optima, supports
from maxk_lab.environments.routing.rows import ROUTING
from maxk_lab.errors import LabError
from maxk_lab.gradients.enumerated.exact import exact_value

DRAWS = 2_000
every_row = pytest.mark.parametrize("row", list(ENVIRONMENTS), ids=lambda row: row.name)


def setting(row, **changes):
    return small_environments.parameters_of(row.name, **row.small | changes)


def make(row, *, dtype="float64", **changes):
    policy = {"mean": 0.9, "learn_scale": True} if row.name == "gaussian" else {}
    return small_environments.make(row.name, dtype, policy=policy, **row.small | changes)


def drawn(row, **changes):
    """An environment with a policy, three instances and five trajectories of each."""
    environment = make(row, **changes)
    policy, instances = environment.policy(0), environment.instances(3, 1)
    return environment, policy, instances, environment.rollout(policy, instances, 5, seed=2)


@every_row
def test_every_environment_keeps_the_contract(row):
    """Teacher forcing, one instance alone, padding after done, and all trajectories listed."""
    environment, policy, instances, rollouts = drawn(row)
    assert environment.enumerable == row.enumerable(setting(row))
    assert torch.equal(
        environment.log_probs(policy, instances, rollouts.actions), rollouts.log_probs
    )
    alone = instances[1:2]
    torch.testing.assert_close(
        environment.log_probs(policy, alone, rollouts.actions[1:2])[0],
        rollouts.log_probs[1],
        rtol=1e-10,
        atol=1e-12,
    )
    padded = torch.nn.functional.pad(rollouts.actions, (0, 2))
    assert torch.equal(environment.log_probs(policy, instances, padded), rollouts.log_probs)
    assert rollouts.rewards.isfinite().all()
    if row.reward.startswith("minus"):
        assert (rollouts.rewards < 0).all()
    if not environment.enumerable:
        with pytest.raises(LabError):
            environment.enumerate(alone)
        return
    listed, rewards = environment.enumerate(alone)
    total = environment.log_probs(policy, alone, listed.unsqueeze(0)).exp().sum().item()
    assert total == pytest.approx(1.0, abs=1e-12)
    width = listed.shape[1] - rollouts.actions.shape[2]
    actions = torch.nn.functional.pad(rollouts.actions[1], (0, max(width, 0)))[:, : listed.shape[1]]
    match = (actions.unsqueeze(1) == listed).all(-1)
    assert match.sum(1).eq(1).all()
    torch.testing.assert_close(
        rewards[match.long().argmax(1)], rollouts.rewards[1], rtol=1e-9, atol=1e-9
    )


@every_row
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_trajectory_of_one_instance_is_a_batch_like_any_other(row, dtype):
    environment = make(row, dtype=dtype)
    policy, instance = environment.policy(0), environment.instances(1, 1)
    rollouts = environment.rollout(policy, instance, 1, seed=2)
    assert rollouts.rewards.shape == rollouts.log_probs.shape == rollouts.lengths.shape == (1, 1)
    assert rollouts.actions.shape[:2] == (1, 1)
    if "dtype" in row.policy_settings.model_fields:
        assert rollouts.log_probs.dtype == getattr(torch, dtype)
    assert torch.equal(
        environment.log_probs(policy, instance, rollouts.actions), rollouts.log_probs
    )
    tokens = environment.tokens(policy, instance, rollouts.actions)
    torch.testing.assert_close(tokens.log_probs.sum(-1), rollouts.log_probs)


def draw_frequencies(environment, policy):
    """Hold 2,000 draws of one of two instances against exp(log_probs) of all trajectories.

    Returns the probabilities, and the rewards of the draws.
    """
    instances = environment.instances(2, 1)
    alone = instances[1:2]
    listed, rewards = environment.enumerate(alone)
    probabilities = environment.log_probs(policy, alone, listed.unsqueeze(0))[0].detach().exp()
    assert probabilities.sum().item() == pytest.approx(1.0, abs=1e-12)
    rollouts = environment.rollout(policy, instances, DRAWS, seed=3)
    width = max(listed.shape[1], rollouts.actions.shape[2])
    position = {tuple(actions): i for i, actions in enumerate(padded_to(width, listed).tolist())}
    assert len(position) == len(listed)
    drawn = padded_to(width, rollouts.actions[1]).tolist()
    rows = torch.tensor([position[tuple(actions)] for actions in drawn])
    torch.testing.assert_close(rewards[rows], rollouts.rewards[1], rtol=1e-9, atol=1e-9)
    counts = torch.bincount(rows, minlength=len(listed)).double()
    expected = DRAWS * probabilities
    # Rare trajectories count as one, so that every cell of the chi-square test is filled.
    rare = expected < 5
    cells = torch.stack([counts, expected])
    cells = torch.cat([cells[:, ~rare], cells[:, rare].sum(1, keepdim=True)], 1)
    cells = cells[:, cells[1] > 1]
    freedom = max(cells.shape[1] - 1, 1)
    chi_square = ((cells[0] - cells[1]).square() / cells[1]).sum().item()
    assert abs(chi_square - freedom) <= 5 * (2 * freedom) ** 0.5
    return probabilities, rewards, rollouts.rewards[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "row", [row for row in ENVIRONMENTS if row.enumerable(setting(row))], ids=lambda row: row.name
)
def test_samples_are_independent_draws_of_what_is_listed(row):
    """The frequencies of all trajectories are their probabilities, and E max of K agrees."""
    environment = make(row)
    probabilities, rewards, drawn = draw_frequencies(environment, environment.policy(0))
    for k in (1, 4):
        best = drawn.view(-1, k).max(1).values
        assert_mean(best, exact_value(probabilities, rewards, k).item())


WRONG = {
    "temperature": lambda it: {"rollout": it.tempered(2.0).rollout},
    "policy": lambda it: {
        "rollout": lambda _, *rest, seed: it.rollout(it.policy(5), *rest, seed=seed)
    },
    "sign": lambda it: {"log_probs": lambda *of: -it.log_probs(*of)},
    "position": lambda it: {
        "log_probs": lambda policy, x, actions: it.log_probs(policy, x, actions.roll(1, -1))
    },
    "scale": lambda it: {"log_probs": lambda *of: 0.9 * it.log_probs(*of)},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_sampler_of_another_distribution_is_found(wrong):
    environment = make(ENVIRONMENTS.get("toy_llm"))
    policy, changed = environment.policy(0), copy.copy(environment)
    draw_frequencies(environment, policy)
    vars(changed).update(WRONG[wrong](environment))
    with pytest.raises(AssertionError):
        draw_frequencies(changed, policy)


@every_row
def test_the_statistics_of_the_tokens_sum_to_those_of_the_rollout(row):
    environment, policy, instances, rollouts = drawn(row)
    actions = torch.nn.functional.pad(rollouts.actions, (0, 2))
    tokens = environment.tokens(policy, instances, actions)
    for name in ("log_probs", "entropy", "logit_proxy"):
        values = getattr(tokens, name)
        assert values.shape == actions.shape
        assert values[~tokens.mask].eq(0).all()
        undefined = row.refuses_weight(name) is not None
        torch.testing.assert_close(
            values.sum(-1), getattr(rollouts, name), rtol=1e-12, atol=1e-12, equal_nan=undefined
        )
        assert (
            getattr(rollouts, name).isnan().all()
            if undefined
            else getattr(rollouts, name).isfinite().all()
        )
    assert torch.equal(tokens.mask.sum(-1), rollouts.lengths)
    assert tokens.mask.dtype == torch.bool
    assert rollouts.lengths.min() >= 1
    parameters = list(policy.parameters())
    for name in ("log_probs", "entropy"):
        gradients = torch.autograd.grad(
            getattr(tokens, name).sum(), parameters, allow_unused=True, retain_graph=True
        )
        assert all(g is None or g.isfinite().all() for g in gradients)
        assert any(g is not None and g.abs().max() > 0 for g in gradients)


@every_row
def test_held_out_instances_share_none_with_the_others(row):
    environment = make(row)
    policy = environment.policy(0)
    held_out = environment.instances(4, 5, held_out=True)
    assert environment.rollout(policy, held_out, 2, seed=1).rewards.shape == (4, 2)
    if row.name == "toy_llm":
        seen = {tuple(prompt) for prompt in environment.instances(300, 6).tolist()}
        assert len(seen) > 10
        assert seen.isdisjoint(
            tuple(prompt) for prompt in environment.instances(300, 6, held_out=True).tolist()
        )


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


@pytest.mark.parametrize("temperature", [0.5, 2.0])
@pytest.mark.parametrize(
    "row",
    [row for row in ENVIRONMENTS if "tempered" in row.supports and row.enumerable(setting(row))],
    ids=lambda row: row.name,
)
def test_a_temperature_divides_the_log_probabilities_of_every_decision(row, temperature):
    environment, policy, instances, _ = drawn(row)
    tempered, one = environment.tempered(temperature), instances[:1]
    actions, _ = environment.enumerate(one)
    with torch.no_grad():
        plain, found = (
            each.log_probs(policy, one, actions.unsqueeze(0))[0] for each in (environment, tempered)
        )
    by_hand = tempered_by_hand(actions, plain, temperature)
    torch.testing.assert_close(found, by_hand, rtol=1e-9, atol=1e-9)
    assert not torch.allclose(found, plain)
    rollouts = tempered.rollout(policy, instances, 5, seed=2)
    assert torch.equal(tempered.log_probs(policy, instances, rollouts.actions), rollouts.log_probs)
    same = environment.tempered(1.0).rollout(policy, instances, 5, seed=2)
    again = environment.rollout(policy, instances, 5, seed=2)
    assert torch.equal(same.actions, again.actions)
    assert torch.equal(same.log_probs, again.log_probs)


@every_row
def test_the_global_random_state_is_neither_read_nor_changed(row):
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = drawn(row)[3]
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    second = drawn(row)[3]
    assert torch.equal(first.actions, second.actions)
    assert torch.equal(first.rewards, second.rewards)


@every_row
def test_a_row_declares_what_its_environment_can_do(row):
    """Validation believes the row, and the run asks the environment: both must say the same."""
    environment, parameters = make(row), setting(row)
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


def padded_to(width, actions):
    return torch.nn.functional.pad(actions, (0, width - actions.shape[-1]))


def assert_mean(values, expected):
    assert abs(values.mean().item() - expected) <= 5 * values.std().item() / len(values) ** 0.5
