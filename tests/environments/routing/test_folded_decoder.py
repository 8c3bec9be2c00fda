"""The decoder in fewer operations, and the leaner steps, against RL4CO's own."""

import copy
from dataclasses import replace

import pytest
import small_environments
import torch
from rl4co.envs import CVRPEnv, TSPEnv
from rl4co.models.nn.attention import PointerAttnMoE, scaled_dot_product_attention_simple
from rl4co.models.zoo.am.decoder import AttentionModelDecoder
from rl4co.utils.ops import batchify

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.routing.decoding import Race, encode, greedily, replayed
from maxk_lab.environments.routing.passes import recorded, sequential, unrecorded
from maxk_lab.environments.routing.setup import in_precision
from maxk_lab.environments.routing.starts import start_nodes
from maxk_lab.environments.routing.walks import LEAN, LeanWalk, Walk

ROWS = [row for row in ENVIRONMENTS if row.implementation.endswith("RL4COEnvironment")]
FOLDED = [row for row in ROWS if row.name != "sdvrp"]
# Of values relative to the largest, of gradients to their norm.
TOLERANCE = {"float32": 1e-6, "float64": 1e-10}
B, N = 3, 4

every_folded_row = pytest.mark.parametrize("row", FOLDED, ids=lambda row: row.name)
both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


def make(row, dtype):
    return small_environments.make(row.name, dtype, **{row.size_parameter: 6})


def begun(row, environment, policy, count=B, n=N, *, forced=False, temperature=1.0):
    dtype = next(policy.parameters()).dtype
    instances = in_precision(environment.instances(count, 1), dtype)
    first = start_nodes(environment.env, instances, n) if forced else None
    shared = row.shared_encoding
    return encode(environment.env, policy, instances, n, shared, first, temperature)


def own(start):
    """The same start with RL4CO's own decoder and steps."""
    return replace(start, pointer=None, queries=None, state=start.state.clone())


def gradients(policy, tokens):
    """Of log-probabilities, of entropies and of both, with weights that lose no share."""
    parameters = [p for p in policy.parameters() if p.requires_grad]
    found = []
    for values in (tokens.log_probs, tokens.entropy, tokens.log_probs + tokens.entropy):
        weights = torch.linspace(-1, 2, values.numel(), dtype=values.dtype).view(values.shape)
        each = torch.autograd.grad(
            (weights * values).sum(),
            parameters,
            allow_unused=True,
            materialize_grads=True,
            retain_graph=True,
        )
        found.append(torch.cat([g.ravel() for g in each]).double())
    return found


def assert_agrees(row, environment, policy, dtype, **settings):
    start = begun(row, environment, policy, **settings)
    assert start.pointer is not None
    decoded, tokens = recorded(start, start.pointer, Race(2))
    chosen = decoded.actions if start.first is None else decoded.actions[:, 1:]

    def of_rl4co(policy):
        again = own(begun(row, environment, policy, **settings))
        return sequential(again, replayed(chosen))

    expected, theirs = of_rl4co(policy)
    assert torch.equal(decoded.mask, expected.mask)
    for name in ("log_probs", "entropy", "logit_proxy"):
        actual, wanted = getattr(tokens, name), getattr(theirs, name)
        assert (actual - wanted).abs().max() <= TOLERANCE[dtype] * wanted.abs().max()
        assert wanted.abs().max() > 0
    exact = copy.deepcopy(policy).double()
    found = gradients(policy, tokens), gradients(policy, theirs)
    for actual, rounded, wanted in zip(*found, gradients(exact, of_rl4co(exact)[1]), strict=True):
        # RL4CO's own gradient in single precision is off by more here and there: 3e-4 in mcp.
        allowed = max(TOLERANCE[dtype], 10 * (rounded - wanted).norm() / wanted.norm())
        assert (actual - wanted).norm() <= allowed * wanted.norm()
        assert wanted.norm() > 0
    return start


@both_dtypes
@every_folded_row
def test_decisions_and_their_gradients_are_those_of_rl4co(row, dtype):
    environment = make(row, dtype)
    policy = environment.policy(0)
    for count, n in ((B, N), (B, 1), (1, N)):
        assert_agrees(row, environment, policy, dtype, count=count, n=n)


@both_dtypes
@pytest.mark.parametrize("row", [r for r in FOLDED if r.multistart], ids=lambda row: row.name)
def test_so_are_those_after_a_forced_start_at_another_temperature(row, dtype):
    environment = make(row, dtype)
    policy = environment.policy(0)
    assert_agrees(row, environment, policy, dtype, forced=True, temperature=0.7)


@both_dtypes
@pytest.mark.parametrize(("clipping", "temperature"), [(0.0, 1.0), (3.0, 1.0), (10.0, 2.0)])
@pytest.mark.parametrize("name", ["tsp", "cvrp", "pdp", "flp"])
def test_so_are_those_of_other_bounds_of_the_logits(name, clipping, temperature, dtype):
    row = ENVIRONMENTS.get(name)
    environment = make(row, dtype)
    policy = environment.policy(0)
    policy.tanh_clipping, policy.temperature = clipping, temperature
    assert_agrees(row, environment, policy, dtype)


@pytest.mark.parametrize("name", ["tsp", "cvrp", "pdp"])
def test_so_are_those_with_a_graph_context_and_biases(name):
    row = ENVIRONMENTS.get(name)
    environment = make(row, "float64")
    policy = environment.policy(0)
    policy.decoder.use_graph_context = True
    projection = policy.decoder.context_embedding.project_context
    projection.bias = torch.nn.Parameter(torch.randn(projection.out_features).double())
    assert_agrees(row, environment, policy, "float64")


@every_folded_row
def test_all_passes_say_the_same_digit_for_digit(row):
    environment = make(row, "float32")
    policy = environment.policy(0)
    start = begun(row, environment, policy)
    decoded, tokens = recorded(start, start.pointer, Race(2))
    for found, others in (
        unrecorded(begun(row, environment, policy), Race(2)),
        sequential(begun(row, environment, policy), Race(2)),
    ):
        assert torch.equal(found.actions, decoded.actions)
        assert torch.equal(others.log_probs, tokens.log_probs)
    taught = sequential(begun(row, environment, policy), replayed(decoded.actions))[1]
    assert torch.equal(taught.log_probs, tokens.log_probs)


@every_folded_row
def test_samples_and_greedy_solutions_are_those_of_rl4co(row):
    environment = make(row, "float64")
    policy = environment.policy(0)
    start = begun(row, environment, policy)
    theirs = own(start)
    assert torch.equal(
        unrecorded(start, Race(2))[0].actions, unrecorded(theirs, Race(2))[0].actions
    )
    start = begun(row, environment, policy)
    theirs = own(start)
    assert torch.equal(greedily(start).actions, greedily(theirs).actions)


@both_dtypes
@pytest.mark.parametrize(("name", "size"), [("tsp", 7), ("cvrp", 10), ("cvrp", 40)])
def test_lean_steps_lead_through_the_states_of_rl4co(name, size, dtype):
    environment = small_environments.make(name, dtype, num_loc=size)
    start = batchify(environment.instances(8, 1), 16)
    lean, walk = LeanWalk(environment.env, start.clone()), Walk(environment.env, start.clone())
    generator = torch.Generator().manual_seed(0)
    steps = 0
    while not walk.state["done"].all():
        mask = walk.state["action_mask"]
        actions = torch.multinomial(mask.double(), 1, generator=generator).squeeze(1)
        lean.take(actions)
        walk.take(actions)
        steps += 1
        for key in ("action_mask", "current_node", "done"):
            assert torch.equal(lean.state[key], walk.state[key])
        for key in set(walk.state.keys()) - {"action", "reward", "terminated"}:
            assert torch.equal(lean.state[key], walk.state[key])
            assert lean.state[key].dtype == walk.state[key].dtype
    assert steps >= size
    assert lean.state["done"].all()
    assert set(lean.end().keys()) >= set(start.keys())


def test_environments_of_another_class_take_their_own_steps():
    class Detour(TSPEnv):
        pass

    assert set(LEAN) == {TSPEnv, CVRPEnv}
    environment = small_environments.make("tsp", "float32", num_loc=5)
    row, policy = ENVIRONMENTS.get("tsp"), environment.policy(0)
    assert isinstance(begun(row, environment, policy).walk(), LeanWalk)
    environment.env = Detour(generator_params={"num_loc": 5}, check_solution=False)
    assert type(begun(row, environment, policy).walk()) is Walk


class Other(AttentionModelDecoder):
    pass


def as_subclass(policy):
    policy.decoder.__class__ = Other


def with_experts(policy):
    experts = {"num_experts": 2, "k": 1, "light_version": False}
    policy.decoder.pointer = PointerAttnMoE(
        policy.decoder.embed_dim, policy.decoder.num_heads, moe_kwargs=experts
    )


def with_a_bias(policy):
    wide = policy.decoder.embed_dim
    policy.decoder.pointer.project_out = torch.nn.Linear(wide, wide)


def with_another_attention(policy):
    policy.decoder.pointer.sdpa_fn = scaled_dot_product_attention_simple


def without_inner_mask(policy):
    policy.decoder.pointer.mask_inner = False


def with_a_hook(policy):
    policy.decoder.pointer.project_out.register_forward_hook(lambda module, given, found: found)


def with_a_backward_hook(policy):
    policy.decoder.pointer.project_out.register_full_backward_hook(lambda *_: None)


def with_a_function_of_its_own(policy):
    pointer = policy.decoder.pointer
    pointer.forward = lambda *given, forward=pointer.forward: forward(*given)


@pytest.mark.parametrize(
    "change",
    [
        *(as_subclass, with_experts, with_a_bias, with_another_attention),
        *(without_inner_mask, with_a_hook, with_a_backward_hook, with_a_function_of_its_own),
    ],
)
def test_other_decoders_are_called_themselves(change):
    row = ENVIRONMENTS.get("tsp")
    environment = make(row, "float32")
    policy = environment.policy(0)
    assert begun(row, environment, policy).pointer is not None
    change(policy)
    start = begun(row, environment, policy)
    assert start.pointer is None
    assert start.queries is None
    assert type(start.walk()) is Walk
    called = []
    policy.decoder.pointer.register_forward_hook(lambda *_: called.append(1))
    rollouts, tokens = environment.rollout_with_tokens(
        policy, environment.instances(B, 1), N, seed=2
    )
    assert len(called) >= 6
    assert torch.equal(tokens.log_probs.sum(-1), rollouts.log_probs)
    assert tokens.log_probs.requires_grad


def test_decisions_can_be_differentiated_in_a_batch():
    environment = make(ENVIRONMENTS.get("tsp"), "float64")
    policy, instances = environment.policy(0), environment.instances(1, 1)
    actions = environment.rollout(policy, instances, 5, seed=2).actions
    values = (
        environment.tokens(policy, instances, actions).log_probs.sum(-1)[0],
        environment.log_probs(policy, instances, actions)[0],
    )
    each = [
        torch.autograd.grad(
            log_probs,
            list(policy.parameters()),
            torch.eye(5, dtype=torch.float64),
            is_grads_batched=True,
            allow_unused=True,
            materialize_grads=True,
        )
        for log_probs in values
    ]
    for fast, slow in zip(*each, strict=True):
        torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-12)


def test_a_decoder_whose_embeddings_change_is_called_itself():
    row = ENVIRONMENTS.get("sdvrp")
    environment = make(row, "float32")
    start = begun(row, environment, environment.policy(0))
    assert start.pointer is None
    assert type(start.walk()) is Walk


def test_a_context_that_is_another_is_asked_itself():
    row = ENVIRONMENTS.get("tsp")
    environment = make(row, "float64")
    policy = environment.policy(0)
    embedding = policy.decoder.context_embedding
    embedding.__class__ = type("Other", (type(embedding),), {})
    start = assert_agrees(row, environment, policy, "float64")
    assert start.queries is None
    assert type(start.walk()) is Walk


def test_autocast_is_left_to_rl4co_own_operations():
    row = ENVIRONMENTS.get("tsp")
    environment = make(row, "float32")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert begun(row, environment, environment.policy(0)).pointer is None


def test_greedy_decoding_refuses_a_policy_without_an_action():
    row = ENVIRONMENTS.get("tsp")
    environment = make(row, "float32")
    policy = environment.policy(0)
    with torch.no_grad():
        policy.decoder.pointer.project_out.weight.fill_(torch.nan)
    with pytest.raises(FloatingPointError, match="no action a positive probability"):
        environment.greedy(policy, environment.instances(B, 1))
