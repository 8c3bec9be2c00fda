"""Scores of every environment and of policies of other makes, against a batched backward pass."""

import pytest
import small_environments
import torch
from torch import nn

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.gradients.scores import per_trajectory, products
from maxk_lab.gradients.scores.by_layer import LayerScores, NotByLayerError
from maxk_lab.gradients.scores.per_trajectory import BatchedScores, trained, trajectory_scores
from maxk_lab.gradients.scores.products import norms_of_scores, score_gram
from maxk_lab.gradients.scores.trajectories import instance_scores, trajectory_squared_norms

POLICY = {"embed_dim": 16, "num_heads": 2, "num_encoder_layers": 2, "feedforward_hidden": 24}
N = 7


def make(name, dtype="float64", **changes):
    row = ENVIRONMENTS.get(name)
    known = set(row.policy_settings.model_fields)
    policy = {name: value for name, value in POLICY.items() if name in known}
    return small_environments.make(row.name, dtype, policy=policy, **row.small | changes)


def drawn(environment, n=N, count=1):
    """A policy, instances and the actions of trajectories that differ."""
    policy, instances = environment.policy(0), environment.instances(count, 1)
    actions = environment.rollout(policy, instances, n, seed=2).actions
    assert len(actions[0].unique(dim=0)) > 1
    return policy, instances, actions


def batched(environment, policy, instance, actions):
    """Scores [M, P] by a batched backward pass through `log_probs`."""
    log_probs = environment.log_probs(policy, instance, actions)[0]
    return trajectory_scores(log_probs, trained(policy))


def relative(found, expected, norms):
    """The largest error of products [M, M], as a share of the product of the norms [M]."""
    return ((found - expected).abs() / (norms.unsqueeze(0) * norms.unsqueeze(1))).max().item()


def check_scores(environment, policy, instances, actions, way=None, tolerance=1e-10):
    """Scores, Gram matrix, norms and products with directions, in any memory."""
    instance, parameters = instances[:1], trained(policy)
    expected = batched(environment, policy, instance, actions[:1])
    norms, count = expected.norm(dim=1), len(expected)
    whole, short = (
        instance_scores(environment, policy, instance, actions[0], compressed=compressed)
        for compressed in (False, True)
    )
    assert way is None or type(whole) is type(short) is way
    made = torch.cat(whole(0, count, parameters), 1)
    assert ((made - expected).norm(dim=1) <= tolerance * norms).all()
    directions = torch.randn(2, made.shape[1], generator=torch.Generator().manual_seed(0)).double()
    # Two blocks for a large policy: each takes a backward pass.
    memory_bytes = 8 * count * max(2503, made.shape[1] // 2 + 1)
    gram, found, _ = score_gram(
        whole, count, parameters, directions=directions, memory_bytes=memory_bytes
    )
    torch.testing.assert_close(found, expected @ directions.T, rtol=1e-9, atol=1e-10)
    for products_of in (gram, score_gram(short, count, parameters, memory_bytes=memory_bytes)[0]):
        assert relative(products_of, expected @ expected.T, norms) < tolerance
    with torch.no_grad():
        squares = trajectory_squared_norms(environment, policy, instances, actions)
    assert squares.dtype == torch.float64
    torch.testing.assert_close(squares[0], norms.square(), rtol=tolerance, atol=0)
    for b in range(1, len(instances)):
        scores = batched(environment, policy, instances[b : b + 1], actions[b : b + 1])
        torch.testing.assert_close(squares[b], scores.square().sum(1), rtol=1e-10, atol=0)


@pytest.mark.parametrize("name", ENVIRONMENTS.names())
def test_the_scores_of_every_environment_are_those_of_a_batched_backward_pass(name):
    environment = make(name)
    # The layers of a user's own policy are unknown.
    check_scores(
        environment, *drawn(environment, n=5, count=2), None if name == "custom" else LayerScores
    )


@pytest.mark.parametrize("name", ["tsp", "smtwtp", "toy_llm", "language"])
def test_float32_scores_are_as_near_to_float64_as_a_batched_pass(name):
    precise, environment = make(name), make(name, "float32")
    policy, instance, actions = drawn(environment)
    scores = instance_scores(environment, policy, instance, actions[0], compressed=True)
    gram, *_ = score_gram(scores, N, trained(policy))
    expected = batched(environment, policy, instance, actions).double()
    double, exact = precise.policy(0), precise.instances(1, 1)
    double.load_state_dict(policy.state_dict())
    truth = batched(precise, double, exact, actions)
    norms = truth.norm(dim=1)
    # Which of two float32 passes rounds more depends on the processor.
    rounding = relative(expected @ expected.T, truth @ truth.T, norms)
    assert relative(gram, truth @ truth.T, norms) < 2 * max(1e-6, rounding)


def test_products_have_fewer_columns_where_trajectories_share_an_encoding():
    environment = make("tsp", num_loc=5)
    policy, instance, actions = drawn(environment)
    scores = instance_scores(environment, policy, instance, actions[0], compressed=True)
    widths = {name: scores.width(value) for name, value in policy.named_parameters()}
    # Five places instead of 16 inputs, 24 in the last layer; the coordinates are but two.
    assert widths["encoder.net.layers.0.0.module.Wqkv.weight"] == 48 * 5
    assert widths["encoder.net.layers.1.2.module.lins.1.weight"] == 16 * 5
    assert widths["decoder.project_node_embeddings.weight"] == 48 * 5
    assert widths["encoder.init_embedding.init_embed.weight"] == 16 * 2
    assert widths["decoder.pointer.project_out.weight"] == 16 * 16
    check_scores(environment, policy, instance, actions, LayerScores, tolerance=1e-12)


@pytest.mark.parametrize(
    ("changed", "frozen"),
    [
        pytest.param(lambda: make("tsp").tempered(1.7), None, id="temperature of routes"),
        pytest.param(lambda: make("toy_llm").tempered(1.7), None, id="temperature of tokens"),
        # A forced first action has no score.
        pytest.param(lambda: make("tsp").forced_starts(), None, id="forced starts"),
        *(
            pytest.param(lambda: make("tsp"), frozen, id=f"frozen {frozen}")
            for frozen in ("encoder", "decoder", "encoder.net.layers.1")
        ),
    ],
)
def test_scores_of_changed_environments_and_frozen_policies(changed, frozen):
    environment = changed()
    policy, instance, actions = drawn(environment, n=6)
    if frozen is not None:
        policy.get_submodule(frozen).requires_grad_(False)
    check_scores(environment, policy, instance, actions, LayerScores)


def test_weights_that_encoder_and_decoder_share_are_right_at_every_size():
    policy = make("tsp").policy(0)
    encoding = policy.encoder.net.layers[0][0].module
    policy.decoder.pointer.project_out.weight = encoding.out_proj.weight
    for cities in (20, 5, 20):
        environment = make("tsp", num_loc=cities)
        instance = environment.instances(1, 1)
        actions = environment.rollout(policy, instance, 4, seed=2).actions
        check_scores(environment, policy, instance, actions)


def test_the_attention_model_of_the_library_itself_falls_back_but_for_forced_starts():
    """Its placeholder is read in a place where no layer tells the gradient by trajectory."""
    from rl4co.models.nn.env_embeddings.context import TSPContext

    environment = make("tsp")
    policy, instance, actions = drawn(environment)
    plain = TSPContext(policy.decoder.embed_dim).double()
    plain.load_state_dict(policy.decoder.context_embedding.state_dict())
    policy.decoder.context_embedding = plain
    forced = environment.forced_starts()
    begun = forced.rollout(policy, instance, 6, seed=2).actions
    check_scores(forced, policy, instance, begun, LayerScores)
    check_scores(environment, policy, instance, actions, BatchedScores)


class Policy(nn.Module):
    """A policy of another make for the toy language: token by token, without attention."""

    def __init__(self, read=None, give=None, **layers):
        super().__init__()
        torch.manual_seed(0)
        self.token, self.head = nn.Embedding(17, 6), nn.Linear(6, 16)
        self.read = read or (lambda it, tokens: it.token(tokens))
        self.give = give or (lambda it, tokens: it.head(it.read(it, tokens)))
        for name, layer in layers.items():
            setattr(self, name, layer)
        self.double().eval()

    def forward(self, tokens):
        return self.give(self, tokens)


def tied_twice():
    policy = Policy(
        mix=nn.Linear(6, 6),
        head=nn.Linear(6, 17, bias=False),
        give=lambda it, t: it.head(it.mix(it.mix(it.token(t)).tanh()))[..., :16],
    )
    policy.head.weight = policy.token.weight
    return policy


def rare():
    return Policy(
        lambda it, t: it.token(t) * (1 + it.rare * (t == 3).unsqueeze(-1)),
        rare=nn.Parameter(torch.tensor(0.7)),
    )


def placed(places):
    return Policy(lambda it, t: it.token(t) + it.position(places(t)), position=nn.Embedding(64, 6))


def normed():
    return Policy(lambda it, t: it.norm(it.token(t).mT).mT, norm=nn.BatchNorm1d(6))


def reordered(it, tokens):
    order = tokens.sum(1).argsort()
    return it.head(it.token(tokens[order]))[order.argsort()]


def recurrent(it, tokens):
    if tokens.dim() != 2:
        raise ValueError("tokens must be [N, L]")
    return it.memory(it.token(tokens))[0]


def stepwise(it, tokens):
    embedded = it.token(tokens)
    states = [torch.zeros_like(embedded[:, 0])]
    it.carry(states[0])
    for t in range(tokens.shape[1]):
        states.append((embedded[:, t] + it.carry(states[-1])).tanh())
    return torch.stack(states[1:], 1)


POLICIES = {
    "token by token": (LayerScores, Policy),
    "a layer called twice, and tied weights": (LayerScores, tied_twice),
    "positions as a batch of one": (
        LayerScores,
        lambda: placed(lambda t: torch.arange(t.shape[-1]).unsqueeze(0)),
    ),
    "batch norm in evaluation": (LayerScores, normed),
    "a layer called once a step, and once for nothing": (
        LayerScores,
        lambda: Policy(stepwise, carry=nn.Linear(6, 6)),
    ),
    "weights used without a call of their layer": (
        BatchedScores,
        lambda: Policy(give=lambda it, t: nn.functional.linear(it.token(t), it.head.weight)),
    ),
    "a parameter of no layer that matters for one token": (BatchedScores, rare),
    "an output changed in place": (
        BatchedScores,
        lambda: Policy(lambda it, t: it.mix(it.token(t)).mul_(3.0), mix=nn.Linear(6, 6)),
    ),
    # As many positions as rows.
    "positions once for all rows": (
        BatchedScores,
        lambda: placed(lambda t: torch.arange(t.shape[-1])),
    ),
    "rows in another order": (BatchedScores, lambda: Policy(give=reordered)),
    "a layer with two outputs, in a batch only": (
        BatchedScores,
        lambda: Policy(recurrent, memory=nn.GRU(6, 6, batch_first=True)),
    ),
}


@pytest.mark.parametrize("make_of", POLICIES)
def test_a_policy_of_any_make_is_scored_by_its_layers_where_these_tell_its_scores(make_of):
    way, policy = POLICIES[make_of][0], POLICIES[make_of][1]()
    environment = small_environments.make("toy_llm")
    instances = environment.instances(2, 1)
    length = environment.prompt_length + environment.max_length
    actions = environment.rollout(policy, instances, length, seed=2).actions
    check_scores(environment, policy, instances, actions, way)


def toy_actions(policy):
    """The toy language, an instance, and actions of a policy."""
    environment = small_environments.make("toy_llm")
    instance = environment.instances(1, 1)
    return environment, instance, environment.rollout(policy, instance, N, seed=2).actions


def test_a_decision_is_of_frozen_parameters_and_mode_and_needs_three_trajectories():
    policy = rare()
    environment, instance, actions = toy_actions(policy)
    policy.rare.requires_grad_(False)
    check_scores(environment, policy, instance, actions, LayerScores)
    policy.rare.requires_grad_(True)
    check_scores(environment, policy, instance, actions, BatchedScores)

    policy = normed().train()  # over the whole batch: no trajectory has a score of its own
    instance_scores(environment, policy, instance, actions[0, :1])
    scores = instance_scores(environment, policy, instance, actions[0])
    assert isinstance(scores, BatchedScores)
    scores = instance_scores(environment, policy.eval(), instance, actions[0])
    assert isinstance(scores, LayerScores)


def test_a_parameter_that_is_first_used_after_the_decision_is_an_error():
    policy = rare()
    environment, instance, actions = toy_actions(policy)
    read, policy.read = policy.read, lambda it, tokens: it.token(tokens)
    scores = instance_scores(environment, policy, instance, actions[0])
    assert isinstance(scores, LayerScores)
    policy.read = read
    with pytest.raises(NotByLayerError, match="not by a call of its layer"):
        scores(0, N, trained(policy))


def test_running_out_of_memory_decides_nothing(monkeypatch):
    policy = Policy()
    environment, instance, actions = toy_actions(policy)

    def full(*_):
        raise torch.OutOfMemoryError

    with monkeypatch.context() as patch:
        patch.setattr(type(environment), "trajectory_log_probs", full)
        with pytest.raises(torch.OutOfMemoryError):
            instance_scores(environment, policy, instance, actions[0])
    assert isinstance(instance_scores(environment, policy, instance, actions[0]), LayerScores)


@pytest.mark.parametrize(("chunk", "columns"), [(4, 1500), (1, 5000), (64, 10**6)])
def test_products_are_those_of_scores_by_a_pass_each_and_hold_one_block(
    chunk, columns, monkeypatch
):
    environment = make("tsp")
    policy, instance, actions = drawn(environment)
    parameters, rows = trained(policy), []
    for i in range(N):
        value = environment.log_probs(policy, instance, actions[:, i : i + 1])[0, 0]
        gradients = torch.autograd.grad(
            value, parameters, materialize_grads=True, allow_unused=True
        )
        rows.append(torch.cat([gradient.flatten() for gradient in gradients]))
    scores = torch.stack(rows)
    widths, empty = [], torch.empty

    def spy(*size, **keywords):
        widths.append(size[1])
        return empty(*size, **keywords)

    monkeypatch.setattr(products, "ROWS", 4)
    monkeypatch.setattr(products, "WIDE_BYTES", 20_000)
    directions = torch.randn(3, scores.shape[1], dtype=torch.float64)
    made = BatchedScores(
        lambda i, j: environment.log_probs(policy, instance, actions[:, i:j])[0], chunk
    )
    with monkeypatch.context() as patch:
        patch.setattr(products.torch, "empty", spy)
        gram, along, _ = score_gram(
            made, N, parameters, directions=directions, memory_bytes=8 * N * columns
        )
    assert sum(widths) == scores.shape[1]
    assert max(widths) == min(columns, scores.shape[1])
    torch.testing.assert_close(gram, scores @ scores.T, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(along, scores @ directions.T, rtol=1e-9, atol=1e-10)
    norms = norms_of_scores(made, N, parameters)
    torch.testing.assert_close(norms, scores.square().sum(1), rtol=1e-9, atol=0)


def test_the_scores_of_a_chunk_fit_the_memory(monkeypatch):
    environment = make("toy_llm")
    policy = environment.policy(0)
    width = 8 * sum(p.numel() for p in policy.parameters())
    for held, chunk in ((5 * width + 1, 5), (1, 1), (2**40, per_trajectory.TOGETHER)):
        monkeypatch.setattr(per_trajectory, "TOGETHER_BYTES", held)
        assert LayerScores(environment, policy, (), (), [], False).chunk == chunk
