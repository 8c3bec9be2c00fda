"""Decoding by the lab's own pointer and steps, against RL4CO's, and from forced starts."""

import copy
from dataclasses import replace

import pytest
import small_environments
import torch
from rl4co.data.transforms import dihedral_8_augmentation
from rl4co.envs import TSPEnv
from rl4co.models.nn.attention import scaled_dot_product_attention_simple
from rl4co.models.zoo.am.decoder import AttentionModelDecoder
from rl4co.utils.ops import batchify, unbatchify
from tensordict import TensorDict

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.routing import decoding, problems
from maxk_lab.environments.routing.problems import LEAN
from maxk_lab.environments.routing.rows import ROUTING
from maxk_lab.errors import LabError
from maxk_lab.seeds import isolated_rng

DYNAMIC, ODD_FIRST = {"sdvrp"}, {"smtwtp"}
FOLDED = [row for row in ROUTING if row.name not in DYNAMIC]
STARTED = [row for row in ROUTING if "multistart" in row.supports]
# Of values relative to the largest, of gradients to their norm.
TOLERANCE = {"float32": 1e-6, "float64": 1e-10}
B, N = 3, 4

every_row = pytest.mark.parametrize("row", ROUTING, ids=lambda row: row.name)
every_folded_row = pytest.mark.parametrize("row", FOLDED, ids=lambda row: row.name)
every_started_row = pytest.mark.parametrize("row", STARTED, ids=lambda row: row.name)
both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


def make(name, dtype="float64", **parameters):
    size = {ENVIRONMENTS.get(name).size_parameter: 6}
    return small_environments.make(name, dtype, **size | parameters)


def begun(environment, policy, count=B, n=N, *, forced=False, temperature=1.0):
    dtype = next(policy.parameters()).dtype
    instances = problems.cast_floats(environment.instances(count, 1), dtype)
    first = problems.start_nodes(environment.env, instances, n) if forced else None
    how = environment.shared_encoding, first, temperature
    return decoding.encode(environment.env, policy, instances, n, *how)


def own(start):
    """The same start with RL4CO's own decoder and steps."""
    return replace(start, pointer=None, state=start.state.clone())


def sampled(start):
    return decoding.step_by_step(start, decoding.Race(2))


def gradients(policy, *sums):
    """Of weighted sums of these values, whose weights lose no share."""
    parameters = [p for p in policy.parameters() if p.requires_grad]
    how = {"allow_unused": True, "materialize_grads": True, "retain_graph": True}
    found = []
    for values in sums:
        weights = torch.linspace(-1, 2, values.numel(), dtype=values.dtype).view(values.shape)
        each = torch.autograd.grad((weights * values).sum(), parameters, **how)
        found.append(torch.cat([g.ravel() for g in each]).double())
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 2), (7, 20), (600, 51)])
def test_the_race_draws_what_multinomial_draws_bit_for_bit(dtype, shape):
    log_policy = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=dtype)
    log_policy[:, 0] = -torch.inf
    log_policy = log_policy.log_softmax(-1)
    race = decoding.Race(5)
    before = torch.get_rng_state()
    drawn = [race(log_policy.exp()) for _ in range(3)]
    assert torch.equal(torch.get_rng_state(), before)
    with isolated_rng(5):
        expected = [torch.multinomial(log_policy.exp(), 1).squeeze(1) for _ in range(3)]
    assert all(map(torch.equal, drawn, expected))


def test_a_policy_without_an_action_is_refused():
    with pytest.raises(FloatingPointError, match="no action a positive probability"):
        decoding.Race(0)(torch.full((2, 3), torch.nan))
    environment = make("tsp", "float32")
    policy = environment.policy(0)
    with torch.no_grad():
        policy.decoder.pointer.project_out.weight.fill_(torch.nan)
    with pytest.raises(FloatingPointError, match="no action a positive probability"):
        environment.greedy(policy, environment.instances(B, 1))


@every_row
def test_one_pass_gives_the_rollouts_and_their_tokens(row):
    environment = make(row.name)
    policy, instances = environment.policy(0), environment.instances(B, 1)
    apart = environment.rollout(policy, instances, N, seed=2)
    rollouts, tokens = environment.rollout_with_tokens(policy, instances, N, seed=2)
    again = environment.tokens(policy, instances, rollouts.actions)
    for name in ("rewards", "log_probs", "actions", "lengths", "entropy", "logit_proxy"):
        assert torch.equal(getattr(rollouts, name), getattr(apart, name))
        assert not getattr(rollouts, name).requires_grad
    for name in ("mask", "log_probs", "entropy", "logit_proxy"):
        assert torch.equal(getattr(tokens, name), getattr(again, name))


def assert_agrees(environment, policy, dtype, **settings):
    """Decisions and their gradients are those of RL4CO's own decoder and steps."""
    start = begun(environment, policy, **settings)
    assert start.pointer is not None
    decoded, tokens = sampled(start)
    chosen = decoded.actions if start.first is None else decoded.actions[:, 1:]

    def of_rl4co(policy):
        again = own(begun(environment, policy, **settings))
        return decoding.step_by_step(again, decoding.replayed(chosen))

    expected, theirs = of_rl4co(policy)
    assert torch.equal(decoded.mask, expected.mask)
    for name in ("log_probs", "entropy", "logit_proxy"):
        actual, wanted = getattr(tokens, name), getattr(theirs, name)
        assert (actual - wanted).abs().max() <= TOLERANCE[dtype] * wanted.abs().max()
        assert wanted.abs().max() > 0

    def each(policy, tokens):
        both = tokens.log_probs + tokens.entropy
        return gradients(policy, tokens.log_probs, tokens.entropy, both)

    exact = copy.deepcopy(policy).double()
    found = each(policy, tokens), each(policy, theirs), each(exact, of_rl4co(exact)[1])
    for actual, rounded, wanted in zip(*found, strict=True):
        # RL4CO's own gradient in single precision is off by more here and there.
        allowed = max(TOLERANCE[dtype], 10 * (rounded - wanted).norm() / wanted.norm())
        assert (actual - wanted).norm() <= allowed * wanted.norm()
        assert wanted.norm() > 0


@both_dtypes
@every_folded_row
def test_decisions_and_their_gradients_are_those_of_rl4co(row, dtype):
    environment = make(row.name, dtype)
    policy = environment.policy(0)
    for count, n in ((B, N), (B, 1), (1, N))[:: 1 if dtype == "float64" else 3]:
        assert_agrees(environment, policy, dtype, count=count, n=n)
    if row in STARTED:
        assert_agrees(environment, policy, dtype, forced=True, temperature=0.7)


@pytest.mark.parametrize(("clipping", "temperature"), [(0.0, 1.0), (3.0, 2.0)])
@pytest.mark.parametrize("name", ["tsp", "cvrp", "pdp"])
def test_so_are_those_of_other_bounds_a_graph_context_and_biases(name, clipping, temperature):
    environment = make(name)
    policy = environment.policy(0)
    policy.tanh_clipping, policy.temperature = clipping, temperature
    policy.decoder.use_graph_context = True
    projection = policy.decoder.context_embedding.project_context
    projection.bias = torch.nn.Parameter(torch.randn(projection.out_features).double())
    assert_agrees(environment, policy, "float64")


@every_folded_row
def test_samples_and_greedy_solutions_are_those_of_rl4co(row):
    environment = make(row.name)
    start = begun(environment, environment.policy(0))
    for way in (lambda start: sampled(start)[0], decoding.greedily):
        again = replace(start, state=start.state.clone())
        assert torch.equal(way(again).actions, way(own(start)).actions)


@every_row
def test_all_steps_are_taken_together_where_they_can_be(row):
    environment = make(row.name)
    start = begun(environment, environment.policy(0))
    assert decoding.can_be_together(start) == (row.name not in DYNAMIC | ODD_FIRST)
    if decoding.can_be_together(start):
        decoded, tokens = sampled(begun(environment, start.policy))
        together = decoding.all_steps_together(own(start), decoded.actions)
        expected = tokens.log_probs.sum(1)
        torch.testing.assert_close(together, expected, rtol=1e-10, atol=1e-10)
        found, wanted = gradients(start.policy, together, expected)
        assert (found - wanted).norm() <= 1e-12 * wanted.norm()


@both_dtypes
@pytest.mark.parametrize(("name", "size"), [("tsp", 7), ("cvrp", 10), ("cvrp", 40)])
def test_lean_steps_lead_through_the_states_of_rl4co(name, size, dtype):
    environment = small_environments.make(name, dtype, num_loc=size)
    start = batchify(environment.instances(8, 1), 16)
    state, lean = start.clone(), dict(start.items())
    generator = torch.Generator().manual_seed(0)
    while not state["done"].all():
        mask = state["action_mask"].double()
        action = torch.multinomial(mask, 1, generator=generator).squeeze(1)
        lean |= LEAN[type(environment.env)](lean, action)
        state = environment.env.step(state.set("action", action))["next"]
        for key in set(state.keys()) - {"action", "reward", "terminated"}:
            assert torch.equal(lean[key], state[key])
            assert lean[key].dtype == state[key].dtype
    assert lean["done"].all()


def on_pointer(**changes):
    """Attributes of a policy's pointer."""
    return lambda policy: vars(policy.decoder.pointer).update(changes)


def as_subclass(policy):
    policy.decoder.__class__ = type("Other", (AttentionModelDecoder,), {})


def with_a_bias(policy):
    wide = policy.decoder.embed_dim
    policy.decoder.pointer.project_out = torch.nn.Linear(wide, wide)


@pytest.mark.parametrize(
    "change",
    [
        *(as_subclass, with_a_bias),
        on_pointer(sdpa_fn=scaled_dot_product_attention_simple),
        on_pointer(mask_inner=False),
    ],
)
def test_other_decoders_are_called_themselves(change):
    environment = make("tsp", "float32")
    policy = environment.policy(0)
    assert begun(environment, policy).pointer.on_dictionaries
    change(policy)
    assert begun(environment, policy).pointer is None
    called = []
    policy.decoder.pointer.register_forward_hook(lambda *_: called.append(1))
    instances = environment.instances(B, 1)
    rollouts, tokens = environment.rollout_with_tokens(policy, instances, N, seed=2)
    assert len(called) >= 6
    assert torch.equal(tokens.log_probs.sum(-1), rollouts.log_probs)
    assert tokens.log_probs.requires_grad


def kinds_of_states(environment, policy):
    kinds, replay = set(), decoding.replayed(torch.arange(6).expand(B * N, -1))
    begun(environment, policy).decode(lambda state: kinds.add(type(state)) or replay(state))
    return kinds


def test_what_is_another_is_asked_itself():
    dynamic = make("sdvrp", "float32")
    assert begun(dynamic, dynamic.policy(0)).pointer is None
    environment = make("tsp")
    policy = environment.policy(0)
    embedding = policy.decoder.context_embedding
    embedding.__class__ = type("Other", (type(embedding),), {})
    assert_agrees(environment, policy, "float64")
    assert not begun(environment, policy).pointer.on_dictionaries
    policy = environment.policy(0)
    for kind, states in ((TSPEnv, dict), (type("Detour", (TSPEnv,), {}), TensorDict)):
        environment.env = kind(generator_params={"num_loc": 6}, check_solution=False)
        assert kinds_of_states(environment, policy) == {states}


@every_started_row
def test_forced_starts_are_those_of_rl4co_and_no_decisions(row):
    environment = make(row.name)
    forced = environment.forced_starts()
    assert not forced.enumerable
    policy, instances = environment.policy(0), environment.instances(B, 1)
    count = environment.start_count(instances)
    rollouts, tokens = forced.rollout_with_tokens(policy, instances, count + 1, seed=2)
    starts = rollouts.actions[..., 0]
    assert len(starts[0].unique()) == count
    assert torch.equal(starts[:, -1], starts[:, 0])
    theirs = environment.env.select_start_nodes(instances, count)
    assert torch.equal(starts[:, :-1], unbatchify(theirs, count))
    assert not tokens.mask[..., 0].any()
    assert tokens.log_probs[..., 0].eq(0).all()
    assert torch.equal(rollouts.lengths, tokens.mask.sum(-1))
    apart = forced.rollout(policy, instances, count + 1, seed=2)
    assert torch.equal(apart.actions, rollouts.actions)
    assert torch.equal(forced.log_probs(policy, instances, rollouts.actions), rollouts.log_probs)
    # The forced action is what makes the difference to the policy's own probability.
    whole = environment.tokens(policy, instances, rollouts.actions).log_probs
    torch.testing.assert_close(whole[..., 1:], tokens.log_probs[..., 1:], rtol=1e-11, atol=1e-12)


def test_starts_go_round_the_cities_there_are_and_not_those_that_are_usually_drawn():
    forced, others = make("tsp", num_loc=5).forced_starts(), make("tsp", num_loc=8)
    rollouts = forced.rollout(forced.policy(0), others.instances(B, 1), 10, seed=2)
    assert rollouts.actions[..., 0].tolist() == [[0, 1, 2, 3, 4, 5, 6, 7, 0, 1]] * B


def test_starts_that_cannot_be_are_refused():
    for name in ("op", "smtwtp"):
        environment = make(name)
        with pytest.raises(LabError, match=f"{name} has no forced starts"):
            environment.greedy(environment.policy(0), environment.instances(B, 1), multistart=True)


@pytest.mark.parametrize(
    ("name", "multistart"),
    [("tsp", False), ("smtwtp", False), ("tsp", True), ("cvrp", True), ("pdp", True)],
)
def test_greedy_decoding_is_that_of_rl4co(name, multistart):
    environment = make(name)
    policy, instances = environment.policy(0), environment.instances(B, 1)
    how = {"phase": "test", "decode_type": "multistart_greedy" if multistart else "greedy"}
    with torch.no_grad():
        reward = policy(instances.clone(), environment.env, **how)["reward"]
    found = environment.greedy(policy, instances, multistart=multistart)
    torch.testing.assert_close(found, reward.view(-1, B).amax(0))


@pytest.mark.parametrize("multistart", [False, True])
@pytest.mark.parametrize("name", ["tsp", "cvrp", "pdp"])
def test_augmentation_takes_the_best_tour_of_the_eight_symmetric_instances(name, multistart):
    environment = make(name)
    policy, instances = environment.policy(0), environment.instances(B, 1)
    best = torch.full((B,), -torch.inf, dtype=torch.float64)
    for locs in dihedral_8_augmentation(instances["locs"]).split(B):
        turned = instances.clone().set("locs", locs)
        best = torch.maximum(best, environment.greedy(policy, turned, multistart=multistart))
    found = environment.greedy(policy, instances, augmented=True, multistart=multistart)
    torch.testing.assert_close(found, best, rtol=1e-12, atol=1e-12)
    assert not torch.equal(found, environment.greedy(policy, instances, multistart=multistart))


def test_isolation_does_not_wake_a_cuda_device_that_is_not_in_use(monkeypatch):
    def wake():
        raise AssertionError("CUDA was looked at")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", wake)
    with isolated_rng(0):
        first = torch.rand(2)
    assert torch.equal(first, torch.rand(2, generator=torch.Generator().manual_seed(0)))
