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
from maxk_lab.seeds import isolated_rng

NAMES = [row.name for row in ROUTING]
STARTED = [row.name for row in ROUTING if "multistart" in row.supports]
# Relative to the largest value, and to the norm of a gradient.
TOLERANCE = {"float32": 1e-6, "float64": 1e-10}
B, N = 3, 4

both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


def make(name, dtype="float64", **parameters):
    size = {ENVIRONMENTS.get(name).size_parameter: 6}
    return small_environments.make(name, dtype, **size | parameters)


def start_of(environment, policy, count=B, n=N, *, forced=False, temperature=1.0):
    dtype = next(policy.parameters()).dtype
    instances = problems.cast_floats(environment.instances(count, 1), dtype)
    first = problems.start_nodes(environment.env, instances, n) if forced else None
    how = environment.shared_encoding, first, temperature
    return decoding.encode(environment.env, policy, instances, n, *how)


def with_rl4co(start):
    """The same start with RL4CO's own decoder and steps."""
    return replace(start, pointer=None, state=start.state.clone())


def sample(start):
    return decoding.step_by_step(start, decoding.Race(2))


def gradients(policy, *sums):
    """The gradients of weighted sums of values; no weight is zero."""
    parameters = [p for p in policy.parameters() if p.requires_grad]
    options = {"allow_unused": True, "materialize_grads": True, "retain_graph": True}
    flat = []
    for values in sums:
        weights = torch.linspace(-1, 2, values.numel(), dtype=values.dtype).view(values.shape)
        each = torch.autograd.grad((weights * values).sum(), parameters, **options)
        flat.append(torch.cat([g.ravel() for g in each]).double())
    return flat


@both_dtypes
@pytest.mark.parametrize("shape", [(1, 2), (600, 51)])
def test_the_race_draws_what_multinomial_draws_bit_for_bit(dtype, shape):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(shape, generator=generator, dtype=getattr(torch, dtype))
    logits[:, 0] = -torch.inf
    race, probabilities = decoding.Race(5), logits.softmax(-1)
    drawn = [race(probabilities) for _ in range(3)]
    with isolated_rng(5):
        expected = [torch.multinomial(probabilities, 1).squeeze(1) for _ in range(3)]
    assert all(map(torch.equal, drawn, expected))


def test_a_policy_without_an_action_is_refused():
    environment = make("tsp", "float32")
    policy = environment.policy(0)
    with torch.no_grad():
        policy.decoder.pointer.project_out.weight.fill_(torch.nan)
    for act in (
        lambda: decoding.Race(0)(torch.full((2, 3), torch.nan)),
        lambda: environment.greedy(policy, environment.instances(B, 1)),
    ):
        with pytest.raises(FloatingPointError, match="no action a positive probability"):
            act()


def assert_agrees(environment, policy, dtype, **settings):
    """Decisions and their gradients equal those of RL4CO's own decoder and steps."""
    start = start_of(environment, policy, **settings)
    assert start.pointer is not None
    if dtype == "float64":
        assert torch.equal(
            sample(with_rl4co(start))[0].actions,
            sample(replace(start, state=start.state.clone()))[0].actions,
        )
    decoded, tokens = sample(start)
    chosen = decoded.actions if start.first is None else decoded.actions[:, 1:]

    def of_rl4co(policy):
        again = with_rl4co(start_of(environment, policy, **settings))
        return decoding.step_by_step(again, decoding.replayed(chosen))

    decoded_by_rl4co, tokens_of_rl4co = of_rl4co(policy)
    assert torch.equal(decoded.mask, decoded_by_rl4co.mask)
    for part in ("log_probs", "entropy", "logit_proxy"):
        actual, expected = getattr(tokens, part), getattr(tokens_of_rl4co, part)
        assert (actual - expected).abs().max() <= TOLERANCE[dtype] * expected.abs().max()
        assert expected.abs().max() > 0

    def each(policy, tokens):
        both = tokens.log_probs + tokens.entropy
        return gradients(policy, tokens.log_probs, tokens.entropy, both)

    exact = copy.deepcopy(policy).double()
    rows = each(policy, tokens), each(policy, tokens_of_rl4co), each(exact, of_rl4co(exact)[1])
    for actual, rounded, expected in zip(*rows, strict=True):
        # RL4CO's own gradient in single precision is off by more here and there.
        allowed = max(TOLERANCE[dtype], 10 * (rounded - expected).norm() / expected.norm())
        assert (actual - expected).norm() <= allowed * expected.norm()
        assert expected.norm() > 0


@both_dtypes
@pytest.mark.parametrize("name", [name for name in NAMES if name != "sdvrp"])
def test_decisions_and_their_gradients_are_those_of_rl4co(name, dtype):
    environment = make(name, dtype)
    policy = environment.policy(0)
    for count, n in ((B, N), (B, 1), (1, N))[:: 1 if dtype == "float64" else 3]:
        assert_agrees(environment, policy, dtype, count=count, n=n)
    if name in STARTED:
        assert_agrees(environment, policy, dtype, forced=True, temperature=0.7)


@pytest.mark.parametrize(
    ("name", "clipping", "temperature"), [("tsp", 3.0, 2.0), ("cvrp", 0.0, 1.0), ("pdp", 3.0, 2.0)]
)
def test_so_are_those_of_other_bounds_a_graph_context_and_biases(name, clipping, temperature):
    environment = make(name)
    policy = environment.policy(0)
    policy.tanh_clipping, policy.temperature = clipping, temperature
    policy.decoder.use_graph_context = True
    projection = policy.decoder.context_embedding.project_context
    projection.bias = torch.nn.Parameter(torch.randn(projection.out_features).double())
    assert_agrees(environment, policy, "float64")


@both_dtypes
@pytest.mark.parametrize(("name", "size"), [("tsp", 7), ("cvrp", 40)])
def test_lean_steps_lead_through_the_states_of_rl4co(name, size, dtype):
    environment = small_environments.make(name, dtype, num_loc=size)
    start = batchify(environment.instances(8, 1), 8)
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


@pytest.mark.parametrize(
    ("module", "attribute", "value"),
    [
        ("decoder", "__class__", type("Other", (AttentionModelDecoder,), {})),
        ("decoder.pointer", "project_out", torch.nn.Linear(16, 16)),
        ("decoder.pointer", "sdpa_fn", scaled_dot_product_attention_simple),
        ("decoder.pointer", "mask_inner", False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_decoders_are_called_themselves(module, attribute, value):
    environment = make("tsp", "float32")
    policy = environment.policy(0)
    assert start_of(environment, policy).pointer.on_dictionaries
    setattr(policy.get_submodule(module), attribute, value)
    assert start_of(environment, policy).pointer is None
    calls = []
    policy.decoder.pointer.register_forward_hook(lambda *_: calls.append(1))
    instances = environment.instances(B, 1)
    rollouts, tokens = environment.rollout_with_tokens(policy, instances, N, seed=2)
    assert len(calls) >= 6
    assert torch.equal(tokens.log_probs.sum(-1), rollouts.log_probs)
    assert tokens.log_probs.requires_grad


def test_other_embeddings_and_environments_are_called_themselves():
    dynamic = make("sdvrp", "float32")
    assert start_of(dynamic, dynamic.policy(0)).pointer is None
    environment = make("tsp")
    policy = environment.policy(0)
    embedding = policy.decoder.context_embedding
    embedding.__class__ = type("Other", (type(embedding),), {})
    assert_agrees(environment, policy, "float64")
    assert not start_of(environment, policy).pointer.on_dictionaries
    policy = environment.policy(0)
    for kind, expected in ((TSPEnv, dict), (type("Detour", (TSPEnv,), {}), TensorDict)):
        environment.env = kind(generator_params={"num_loc": 6}, check_solution=False)
        states, replay = set(), decoding.replayed(torch.arange(6).expand(B * N, -1))
        start_of(environment, policy).decode(
            lambda state, states=states, replay=replay: states.add(type(state)) or replay(state)
        )
        assert states == {expected}


@pytest.mark.parametrize("name", STARTED)
def test_forced_starts_are_those_of_rl4co_and_no_decisions(name):
    environment = make(name)
    forced = environment.forced_starts()
    policy, instances = environment.policy(0), environment.instances(B, 1)
    count = environment.start_count(instances)
    rollouts, tokens = forced.rollout_with_tokens(policy, instances, count + 1, seed=2)
    starts = rollouts.actions[..., 0]
    assert len(starts[0].unique()) == count
    assert torch.equal(starts[:, -1], starts[:, 0])
    of_rl4co = environment.env.select_start_nodes(instances, count)
    assert torch.equal(starts[:, :-1], unbatchify(of_rl4co, count))
    assert not tokens.mask[..., 0].any()
    assert tokens.log_probs[..., 0].eq(0).all()
    assert torch.equal(rollouts.lengths, tokens.mask.sum(-1))
    assert torch.equal(forced.log_probs(policy, instances, rollouts.actions), rollouts.log_probs)
    # Only the forced action's own log-probability is missing.
    free = environment.tokens(policy, instances, rollouts.actions).log_probs
    torch.testing.assert_close(free[..., 1:], tokens.log_probs[..., 1:], rtol=1e-11, atol=1e-12)


def test_starts_go_round_the_cities_of_the_instances_not_of_the_generator():
    forced, others = make("tsp", num_loc=5).forced_starts(), make("tsp", num_loc=8)
    rollouts = forced.rollout(forced.policy(0), others.instances(B, 1), 10, seed=2)
    assert rollouts.actions[..., 0].tolist() == [[0, 1, 2, 3, 4, 5, 6, 7, 0, 1]] * B


@pytest.mark.parametrize(
    ("name", "multistart"),
    [*((name, False) for name in NAMES), *((name, True) for name in STARTED)],
)
def test_greedy_decoding_is_that_of_rl4co(name, multistart):
    environment = make(name)
    policy, instances = environment.policy(0), environment.instances(B, 1)
    how = {"phase": "test", "decode_type": "multistart_greedy" if multistart else "greedy"}
    with torch.no_grad():
        reward = policy(instances.clone(), environment.env, **how)["reward"]
    rewards = environment.greedy(policy, instances, multistart=multistart)
    torch.testing.assert_close(rewards, reward.view(-1, B).amax(0))


@pytest.mark.parametrize(("name", "multistart"), [("tsp", False), ("cvrp", True), ("pdp", True)])
def test_augmentation_takes_the_best_tour_of_the_eight_symmetric_instances(name, multistart):
    environment = make(name)
    policy, instances = environment.policy(0), environment.instances(B, 1)
    best = torch.full((B,), -torch.inf, dtype=torch.float64)
    for locs in dihedral_8_augmentation(instances["locs"]).split(B):
        copies = instances.clone().set("locs", locs)
        best = torch.maximum(best, environment.greedy(policy, copies, multistart=multistart))
    rewards = environment.greedy(policy, instances, augmented=True, multistart=multistart)
    torch.testing.assert_close(rewards, best, rtol=1e-12, atol=1e-12)
    assert not torch.equal(rewards, environment.greedy(policy, instances, multistart=multistart))


def test_isolation_does_not_wake_a_cuda_device_that_is_not_in_use(monkeypatch):
    def wake():
        raise AssertionError("CUDA was looked at")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", wake)
    with isolated_rng(0):
        first = torch.rand(2)
    assert torch.equal(first, torch.rand(2, generator=torch.Generator().manual_seed(0)))
