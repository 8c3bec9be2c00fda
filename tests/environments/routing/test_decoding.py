"""Decoding in one pass, in parallel, greedily and from forced starts, against RL4CO and itself."""

import pytest
import small_environments
import torch
from rl4co.data.transforms import dihedral_8_augmentation
from rl4co.models.zoo.am.decoder import AttentionModelDecoder
from rl4co.utils.ops import unbatchify

from maxk_lab.environments import capabilities
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.environment import make_environment
from maxk_lab.environments.routing import passes
from maxk_lab.environments.routing.augmentation import symmetric_copies
from maxk_lab.environments.routing.decoding import Race, encode, replayed
from maxk_lab.environments.routing.parallel import is_parallel
from maxk_lab.environments.routing.passes import parallel, sequential
from maxk_lab.errors import LabError
from maxk_lab.random_state import isolated_rng

ROWS = [row for row in ENVIRONMENTS if row.implementation.endswith("RL4COEnvironment")]
PARALLEL = ["tsp", "cvrp", "op", "pctsp", "spctsp", "pdp", "smtwtp", "cvrptw", "mtvrp"]
B, N = 3, 4


def make(name, dtype="float64", **parameters):
    size = {ENVIRONMENTS.get(name).size_parameter: 6}
    return small_environments.make(name, dtype, **size | parameters)


def gradient(policy, log_probs):
    parameters = [p for p in policy.parameters() if p.requires_grad]
    weights = torch.linspace(-1, 2, log_probs.numel(), dtype=log_probs.dtype).view(log_probs.shape)
    total = (weights * log_probs).sum()
    found = torch.autograd.grad(
        total, parameters, allow_unused=True, materialize_grads=True, retain_graph=True
    )
    return torch.cat([g.ravel() for g in found])


def assert_same_gradient(actual, expected, tolerance):
    assert expected.norm() > 0
    assert (actual - expected).norm() <= tolerance * expected.norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 2), (7, 20), (600, 51)])
def test_the_race_draws_what_multinomial_draws_bit_for_bit(dtype, shape):
    log_policy = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=dtype)
    log_policy[:, 0] = -torch.inf
    log_policy = log_policy.log_softmax(-1)
    race = Race(5)
    before = torch.get_rng_state()
    drawn = [race(log_policy.exp()) for _ in range(3)]
    assert torch.equal(torch.get_rng_state(), before)
    with isolated_rng(5):
        expected = [torch.multinomial(log_policy.exp(), 1).squeeze(1) for _ in range(3)]
    assert all(map(torch.equal, drawn, expected))


def test_the_race_refuses_a_policy_without_an_action():
    with pytest.raises(FloatingPointError, match="no action a positive probability"):
        Race(0)(torch.full((2, 3), torch.nan))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_one_pass_gives_the_rollouts_and_their_tokens(row):
    environment = make(row.name)
    assert isinstance(environment, capabilities.SamplingWithTokens)
    policy, instances = environment.policy(0), environment.instances(B, 1)
    apart = environment.rollout(policy, instances, N, seed=2)
    rollouts, tokens = environment.rollout_with_tokens(policy, instances, N, seed=2)
    for name in ("rewards", "log_probs", "actions", "lengths"):
        assert torch.equal(getattr(rollouts, name), getattr(apart, name))
        assert not getattr(rollouts, name).requires_grad
    torch.testing.assert_close(rollouts.entropy, apart.entropy, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(rollouts.logit_proxy, apart.logit_proxy, rtol=1e-12, atol=1e-12)
    again = environment.tokens(policy, instances, rollouts.actions)
    assert torch.equal(tokens.mask, again.mask)
    for name in ("log_probs", "entropy", "logit_proxy"):
        torch.testing.assert_close(
            getattr(tokens, name), getattr(again, name), rtol=1e-11, atol=1e-12
        )
    for name in ("log_probs", "entropy"):
        actual, expected = (gradient(policy, getattr(found, name)) for found in (tokens, again))
        assert_same_gradient(actual, expected, 1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("name", PARALLEL)
def test_parallel_teacher_forcing_has_the_gradient_of_the_loop(name, dtype, tolerance):
    environment = make(name, dtype)
    policy = environment.policy(0)
    for count, n in ((B, N), (B, 1), (1, N), (1, 1)):
        instances = environment.instances(count, 1)
        actions = (
            environment.rollout(policy, instances, n, seed=2).actions.transpose(0, 1).flatten(0, 1)
        )
        found = []
        for way in (parallel, sequential):
            start = encode(environment.env, policy, instances, n, shared_encoding=True)
            assert is_parallel(start)
            found.append(way(start, replayed(actions))[1].log_probs)
        scale = {"rtol": 100 * tolerance, "atol": 100 * tolerance}
        torch.testing.assert_close(*found, **scale)
        assert_same_gradient(*(gradient(policy, log_probs) for log_probs in found), tolerance)


@pytest.mark.parametrize("name", ["sdvrp", "mtsp", "flp", "mcp"])
def test_what_cannot_be_evaluated_in_parallel_is_evaluated_step_by_step(name):
    environment = make(name)
    policy, instances = environment.policy(0), environment.instances(B, 1)
    shared = ENVIRONMENTS.get(name).shared_encoding
    start = encode(environment.env, policy, instances, N, shared_encoding=shared)
    assert not is_parallel(start)
    rollouts = environment.rollout(policy, instances, N, seed=2)
    tokens = environment.tokens(policy, instances, rollouts.actions)
    torch.testing.assert_close(tokens.log_probs.sum(-1), rollouts.log_probs, rtol=1e-12, atol=1e-12)


class OtherDecoder(AttentionModelDecoder):
    """A decoder that nothing is known about but what RL4CO's can do."""


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", ["tsp", "cvrp", "op", "sdvrp"])
def test_another_device_draws_the_same_and_has_the_same_gradient(name, known, monkeypatch):
    environment = make(name, "float32")
    policy, instances = environment.policy(0), environment.instances(B, 1)
    if not known:
        policy.decoder.__class__ = OtherDecoder
    rollouts, tokens = environment.rollout_with_tokens(policy, instances, N, seed=2)
    expected = gradient(policy, tokens.log_probs)
    monkeypatch.setattr(passes, "LOOP_DEVICES", ())
    others, tokens = environment.rollout_with_tokens(
        policy, environment.place(instances, "cpu"), N, seed=2
    )
    assert torch.equal(others.actions, rollouts.actions)
    assert torch.equal(others.rewards, rollouts.rewards)
    taught = environment.tokens(policy, instances, rollouts.actions)
    for found in (tokens, taught):
        torch.testing.assert_close(found.log_probs.sum(-1), rollouts.log_probs)
        assert_same_gradient(gradient(policy, found.log_probs), expected, 1e-5)


def test_tokens_without_gradient_are_those_with_it():
    environment = make("tsp", "float32")
    policy, instances = environment.policy(0), environment.instances(B, 1)
    actions = environment.rollout(policy, instances, N, seed=2).actions
    with torch.no_grad():
        constant = environment.tokens(policy, instances, actions)
    tokens = environment.tokens(policy, instances, actions)
    assert tokens.log_probs.requires_grad
    assert not constant.log_probs.requires_grad
    for name in ("log_probs", "entropy", "logit_proxy", "mask"):
        assert torch.equal(getattr(constant, name), getattr(tokens, name))


def test_autocast_leaves_log_probabilities_in_the_precision_of_the_policy():
    environment = make("tsp", "float32")
    policy, instances = environment.policy(0), environment.instances(B, 1)
    plain = environment.rollout_with_tokens(policy, instances, N, seed=2)[1].log_probs
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rollouts, tokens = environment.rollout_with_tokens(policy, instances, N, seed=2)
    assert rollouts.rewards.dtype == tokens.log_probs.dtype == torch.float32
    assert gradient(policy, tokens.log_probs).isfinite().all()
    assert not torch.equal(tokens.log_probs, plain)


@pytest.mark.parametrize("row", [row for row in ROWS if row.multistart], ids=lambda row: row.name)
def test_forced_starts_are_those_of_rl4co_and_no_decisions(row):
    environment = make(row.name)
    forced = environment.forced_starts()
    assert isinstance(environment, capabilities.ForcedStarts)
    assert not forced.enumerable
    policy, instances = environment.policy(0), environment.instances(B, 1)
    n = min(N, environment.env.get_num_starts(instances))
    rollouts, tokens = forced.rollout_with_tokens(policy, instances, n, seed=2)
    starts = unbatchify(environment.env.select_start_nodes(instances, n), n)
    assert torch.equal(rollouts.actions[..., 0], starts)
    assert not tokens.mask[..., 0].any()
    assert tokens.log_probs[..., 0].eq(0).all()
    assert torch.equal(rollouts.lengths, tokens.mask.sum(-1))
    apart = forced.rollout(policy, instances, n, seed=2)
    assert torch.equal(apart.actions, rollouts.actions)
    assert torch.equal(apart.log_probs, rollouts.log_probs)
    assert torch.equal(forced.log_probs(policy, instances, rollouts.actions), rollouts.log_probs)
    again = forced.tokens(policy, instances, rollouts.actions)
    assert torch.equal(again.mask, tokens.mask)
    torch.testing.assert_close(again.log_probs, tokens.log_probs, rtol=1e-11, atol=1e-12)
    # The forced action is what makes the difference to the policy's own probability.
    whole = environment.tokens(policy, instances, rollouts.actions).log_probs
    torch.testing.assert_close(whole[..., 1:], tokens.log_probs[..., 1:], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", ["tsp", "cvrp", "pdp"])
def test_forced_starts_have_the_gradient_of_rl4co_own_multistart(name):
    environment = make(name)
    policy, instances = environment.policy(0), environment.instances(B, 1)
    n = environment.env.get_num_starts(instances)
    rollouts, tokens = environment.forced_starts().rollout_with_tokens(policy, instances, n, seed=2)
    rest = rollouts.actions.transpose(0, 1).flatten(0, 1)[:, 1:]
    out = policy(instances.clone(), environment.env, phase="train", actions=rest, num_starts=n)
    torch.testing.assert_close(unbatchify(out["reward"], n), rollouts.rewards)
    expected = gradient(policy, unbatchify(out["log_likelihood"], n))
    assert_same_gradient(gradient(policy, tokens.log_probs.sum(-1)), expected, 1e-10)


def test_more_trajectories_than_starts_go_round_again():
    forced = make("pdp").forced_starts()
    rollouts = forced.rollout(forced.policy(0), forced.instances(B, 1), 5, seed=2)
    assert rollouts.actions[..., 0].tolist() == [[1, 2, 3, 1, 2]] * B


def test_starts_go_round_the_cities_there_are_and_not_those_that_are_usually_drawn():
    forced, others = make("tsp", num_loc=5).forced_starts(), make("tsp", num_loc=8)
    rollouts = forced.rollout(forced.policy(0), others.instances(B, 1), 10, seed=2)
    assert rollouts.actions[..., 0].tolist() == [[0, 1, 2, 3, 4, 5, 6, 7, 0, 1]] * B


@pytest.mark.parametrize("name", ["op", "smtwtp"])
def test_starts_that_are_not_always_feasible_are_refused(name):
    environment = make(name)
    with pytest.raises(LabError, match=f"{name} has no forced starts"):
        environment.forced_starts()
    with pytest.raises(LabError, match=f"{name} has no forced starts"):
        environment.greedy_multistart(environment.policy(0), environment.instances(B, 1))


def test_a_forced_first_action_that_ends_everything_is_refused():
    forced = make("flp", to_choose=1).forced_starts()
    with pytest.raises(LabError, match="leaves nothing to decide"):
        forced.rollout(forced.policy(0), forced.instances(B, 1), 2, seed=0)


@pytest.mark.parametrize("name", ["tsp", "cvrp", "op", "smtwtp"])
def test_greedy_decoding_is_that_of_rl4co(name):
    environment = make(name)
    assert isinstance(environment, capabilities.GreedyEnvironment)
    policy, instances = environment.policy(0), environment.instances(B, 1)
    with torch.no_grad():
        out = policy(instances.clone(), environment.env, phase="test", decode_type="greedy")
    assert torch.equal(environment.greedy(policy, instances), out["reward"])


@pytest.mark.parametrize("name", ["tsp", "cvrp", "pdp"])
def test_the_best_greedy_start_is_that_of_rl4co(name):
    environment = make(name)
    policy, instances = environment.policy(0), environment.instances(B, 1)
    with torch.no_grad():
        out = policy(
            instances.clone(), environment.env, phase="test", decode_type="multistart_greedy"
        )
    best = unbatchify(out["reward"], len(out["reward"]) // B).amax(1)
    torch.testing.assert_close(environment.greedy_multistart(policy, instances), best)


def test_augmentation_takes_the_best_tour_of_the_eight_symmetric_instances():
    environment = make("tsp", num_loc=8)
    policy, instances = environment.policy(0), environment.instances(B, 1)
    best = torch.full((B,), -torch.inf, dtype=torch.float64)
    for locs in dihedral_8_augmentation(instances["locs"]).view(8, B, 8, 2):
        turned = instances.clone().set("locs", locs)
        best = torch.maximum(best, environment.greedy(policy, turned))
    found = environment.greedy_augmented(policy, instances)
    torch.testing.assert_close(found, best, rtol=1e-12, atol=1e-12)
    assert (found >= environment.greedy(policy, instances)).all()


@pytest.mark.parametrize("name", ["tsp", "cvrp", "pdp"])
def test_the_best_of_all_starts_on_all_copies_is_that_of_the_copies_one_by_one(name):
    environment = make(name)
    policy, instances = environment.policy(0), environment.instances(B, 1)
    copies = symmetric_copies(environment.env, instances)
    apart = [environment.greedy_multistart(policy, copies[i * B : (i + 1) * B]) for i in range(8)]
    found = environment.greedy_multistart_augmented(policy, instances)
    torch.testing.assert_close(found, torch.stack(apart).amax(0), rtol=1e-12, atol=1e-12)
    assert (found >= environment.greedy_augmented(policy, instances) - 1e-12).all()
    assert not torch.equal(found, environment.greedy_multistart(policy, instances))


@pytest.mark.parametrize("row", [row for row in ROWS if row.multistart], ids=lambda row: row.name)
def test_as_many_starts_are_counted_as_differ(row):
    environment = make(row.name)
    instances = environment.instances(B, 1)
    count = environment.start_count(instances)
    first = environment.forced_starts().rollout(environment.policy(0), instances, count + 1, seed=0)
    begun = first.actions[0, :, 0].tolist()
    assert len(set(begun)) == count
    assert begun[-1] == begun[0]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_augmented_solutions_are_worth_the_same_on_the_original_instance(row):
    environment = make(row.name)
    policy, instances = environment.policy(0), environment.instances(B, 1)
    if instances.get("locs", None) is None:
        with pytest.raises(LabError, match="no coordinates"):
            environment.greedy_augmented(policy, instances)
        return
    augmented = environment.greedy_augmented(policy, instances)
    greedy = environment.greedy(policy, instances)
    assert augmented.shape == greedy.shape == (B,)
    assert (augmented >= greedy - 1e-12).all()


@pytest.mark.parametrize(("scale", "side"), [(True, 150 / 480), (False, 150.0)])
def test_augmented_copies_lie_where_instances_are_drawn(scale, side):
    environment = make("cvrptw", scale=scale)
    instances = environment.instances(B, 1)
    copies = symmetric_copies(environment.env, instances)["locs"].view(8, B, -1, 2)
    torch.testing.assert_close(copies[0], instances["locs"])
    torch.testing.assert_close(copies[3], side - instances["locs"])


def test_only_eight_augmentations_exist():
    environment = make("tsp")
    with pytest.raises(LabError, match="must be 8"):
        environment.greedy_augmented(
            environment.policy(0), environment.instances(1, 0), augmentations=4
        )


def test_isolation_does_not_wake_a_cuda_device_that_is_not_in_use(monkeypatch):
    def wake():
        raise AssertionError("CUDA was looked at")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", wake)
    with isolated_rng(0):
        first = torch.rand(2)
    assert torch.equal(first, torch.rand(2, generator=torch.Generator().manual_seed(0)))


def test_where_weights_come_from_is_no_matter_of_the_environment():
    policy = small_environments.policy_of("tsp")
    fresh, environment = (
        make_environment({"name": "tsp", "num_loc": 5}, policy | origin)
        for origin in ({}, {"checkpoint": {"path": "a.pt", "sha256": "0"}})
    )
    assert torch.equal(*(next(e.policy(0).parameters()) for e in (environment, fresh)))
