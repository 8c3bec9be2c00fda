"""Scores of every environment and of policies of other makes, against a batched backward pass."""

import pytest
import small_environments
import torch
from torch import nn

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.gradients.scores import per_trajectory
from maxk_lab.gradients.scores.by_layer import LayerScores, NotByLayerError
from maxk_lab.gradients.scores.per_trajectory import BatchedScores, trajectory_scores
from maxk_lab.gradients.scores.products import norms_of_scores, score_gram
from maxk_lab.gradients.scores.trajectories import instance_scores, trajectory_squared_norms

POLICY = {"embed_dim": 16, "num_heads": 2, "num_encoder_layers": 2, "feedforward_hidden": 24}
N = 7
every_row = pytest.mark.parametrize("row", list(ENVIRONMENTS), ids=lambda row: row.name)


def make(row, dtype="float64", **changes):
    row = ENVIRONMENTS.get(row) if isinstance(row, str) else row
    known = set(row.policy_settings.model_fields)
    policy = {name: value for name, value in POLICY.items() if name in known}
    return small_environments.make(row.name, dtype, policy=policy, **row.small | changes)


def drawn(environment, n=N, count=1):
    """A policy, instances and the actions of trajectories that differ."""
    policy, instances = environment.policy(0), environment.instances(count, 1)
    actions = environment.rollout(policy, instances, n, seed=2).actions
    assert len(actions[0].unique(dim=0)) > 1
    return policy, instances, actions


def parameters_of(policy):
    return [parameter for parameter in policy.parameters() if parameter.requires_grad]


def batched(environment, policy, instance, actions):
    """Scores [M, P] by a batched backward pass through `log_probs`."""
    log_probs = environment.log_probs(policy, instance, actions)[0]
    return trajectory_scores(log_probs, parameters_of(policy))


def relative(found, expected, norms):
    """The largest error of products [M, M], as a share of the product of the norms [M]."""
    return ((found - expected).abs() / (norms.unsqueeze(0) * norms.unsqueeze(1))).max().item()


def check_products(environment, policy, instance, actions, way=None, tolerance=1e-10):
    """Scores, Gram matrix, norms and products with directions, in any memory."""
    expected = batched(environment, policy, instance, actions)
    parameters, norms = parameters_of(policy), expected.norm(dim=1)
    count = len(expected)
    whole, short = (
        instance_scores(environment, policy, instance, actions[0], compressed=compressed)
        for compressed in (False, True)
    )
    assert way is None or type(whole) is type(short) is way
    made = torch.cat(whole(0, count, parameters), 1)
    assert ((made - expected).norm(dim=1) <= tolerance * norms).all()
    squares = norms_of_scores(short, count, parameters)
    torch.testing.assert_close(squares, norms.square(), rtol=tolerance, atol=0)
    directions = torch.randn(2, made.shape[1], generator=torch.Generator().manual_seed(0)).double()
    # At most 17 blocks for a large policy: each takes a backward pass.
    columns = max(2503, made.shape[1] // 16)
    for memory_bytes in (8 * count * columns, 2**30):
        gram, *_ = score_gram(short, count, parameters, memory_bytes=memory_bytes)
        assert relative(gram, expected @ expected.T, norms) < tolerance
        gram, products, _ = score_gram(
            whole, count, parameters, directions=directions, memory_bytes=memory_bytes
        )
        assert relative(gram, expected @ expected.T, norms) < tolerance
        torch.testing.assert_close(products, expected @ directions.T, rtol=1e-9, atol=1e-10)


@every_row
def test_the_scores_of_every_environment_are_those_of_a_batched_backward_pass(row):
    environment = make(row)
    # The layers of a user's own policy are not known.
    way = None if row.name == "custom" else LayerScores
    check_products(environment, *drawn(environment), way)


@every_row
def test_float32_scores_of_every_environment_are_as_near_to_float64_as_a_batched_pass(row):
    precise, environment = make(row), make(row, "float32")
    policy, instance, actions = drawn(environment)
    scores = instance_scores(environment, policy, instance, actions[0], compressed=True)
    gram, *_ = score_gram(scores, N, parameters_of(policy))
    expected = batched(environment, policy, instance, actions).double()
    double, exact = precise.policy(0), precise.instances(1, 1)
    double.load_state_dict(policy.state_dict())
    truth = batched(precise, double, exact, actions)
    norms = truth.norm(dim=1)
    # The rounding of a float32 pass itself, where that is more than 1e-6. That of another
    # pass is not the same: which is the larger depends on the processor.
    rounding = relative(expected @ expected.T, truth @ truth.T, norms)
    assert relative(gram, truth @ truth.T, norms) < 2 * max(1e-6, rounding)


@every_row
def test_the_norms_of_several_instances_at_once_are_those_of_each(row):
    environment = make(row)
    policy, instances, actions = drawn(environment, n=4, count=3)
    with torch.no_grad():
        norms = trajectory_squared_norms(environment, policy, instances, actions)
    assert norms.dtype == torch.float64
    for b in range(3):
        scores = batched(environment, policy, instances[b : b + 1], actions[b : b + 1])
        torch.testing.assert_close(norms[b], scores.square().sum(1), rtol=1e-10, atol=0)


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
    check_products(environment, policy, instance, actions, LayerScores, tolerance=1e-12)


@pytest.mark.parametrize("name", ["tsp", "toy_llm"])
def test_the_temperature_of_an_environment_is_that_of_its_scores(name):
    environment = make(name).tempered(1.7)
    check_products(environment, *drawn(environment))


def test_a_forced_first_action_has_no_score():
    environment = make("tsp", num_loc=6).forced_starts()
    check_products(environment, *drawn(environment, n=6), LayerScores)


@pytest.mark.parametrize("frozen", ["encoder", "decoder", "encoder.net.layers.1"])
def test_frozen_parameters_have_no_columns(frozen):
    environment = make("tsp", num_loc=6)
    policy, instance, actions = drawn(environment)
    policy.get_submodule(frozen).requires_grad_(False)
    check_products(environment, policy, instance, actions, LayerScores)


@pytest.mark.parametrize("sizes", [(20, 5), (5, 20)])
def test_weights_that_encoder_and_decoder_share_are_right_at_every_size(sizes):
    policy = make("tsp").policy(0)
    encoding = policy.encoder.net.layers[0][0].module
    policy.decoder.pointer.project_out.weight = encoding.out_proj.weight
    for cities in sizes:
        environment = make("tsp", num_loc=cities)
        instance = environment.instances(1, 1)
        actions = environment.rollout(policy, instance, 7, seed=2).actions
        check_products(environment, policy, instance, actions)


def test_the_attention_model_of_the_library_itself_falls_back_but_for_forced_starts():
    """Its placeholder is read in a place where no layer tells the gradient by trajectory."""
    from rl4co.models.nn.env_embeddings.context import TSPContext

    environment = make("tsp", num_loc=6)
    policy, instance, actions = drawn(environment)
    plain = TSPContext(policy.decoder.embed_dim).double()
    plain.load_state_dict(policy.decoder.context_embedding.state_dict())
    policy.decoder.context_embedding = plain
    forced = environment.forced_starts()
    begun = forced.rollout(policy, instance, 6, seed=2).actions
    check_products(forced, policy, instance, begun, LayerScores)
    check_products(environment, policy, instance, actions, BatchedScores)


class Policy(nn.Module):
    """A policy of another make for the toy language: token by token, without attention."""

    def __init__(self, read=None, give=None, **layers):
        super().__init__()
        self.token, self.head = nn.Embedding(17, 6), nn.Linear(6, 16)
        self.read = read or (lambda it, tokens: it.token(tokens))
        self.give = give or (lambda it, tokens: it.head(it.read(it, tokens)))
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, tokens):
        return self.give(self, tokens)


def tied_twice():
    """Calls a layer twice, and reads out with the weights that it reads in with."""
    policy = Policy(
        mix=nn.Linear(6, 6),
        head=nn.Linear(6, 17, bias=False),
        give=lambda it, t: it.head(it.mix(it.mix(it.token(t)).tanh()))[..., :16],
    )
    policy.head.weight = policy.token.weight
    return policy


def around():
    """Uses the weights of a layer without calling it."""
    return Policy(give=lambda it, t: nn.functional.linear(it.token(t), it.head.weight))


def rare():
    """Reads a parameter of no layer, which matters where one token occurs."""
    return Policy(
        lambda it, t: it.token(t) * (1 + it.rare * (t == 3).unsqueeze(-1)),
        rare=nn.Parameter(torch.tensor(0.7)),
    )


def in_place():
    """Changes what a layer gave before anything else reads it."""
    return Policy(lambda it, t: it.mix(it.token(t)).mul_(3.0), mix=nn.Linear(6, 6))


def placed(places=lambda t: torch.arange(t.shape[-1])):
    """Looks its positions up once for all rows, as many as there are positions."""
    position = nn.Embedding(64, 6)
    return Policy(lambda it, t: it.token(t) + it.position(places(t)), position=position)


def placed_once():
    """Looks its positions up as a batch of one."""
    return placed(lambda t: torch.arange(t.shape[-1]).unsqueeze(0))


def normed():
    """Normalises over the whole batch in training: no trajectory then has a score of its own."""
    return Policy(lambda it, t: it.norm(it.token(t).mT).mT, norm=nn.BatchNorm1d(6))


def reordered():
    """Runs its layers on its rows in another order."""

    def give(it, tokens):
        order = tokens.sum(1).argsort()
        return it.head(it.token(tokens[order]))[order.argsort()]

    return Policy(give=give)


def recurrent():
    """Needs a batch dimension; its layer gives two tensors."""

    def read(it, tokens):
        if tokens.dim() != 2:
            raise ValueError("tokens must be [N, L]")
        return it.memory(it.token(tokens))[0]

    return Policy(read, memory=nn.GRU(6, 6, batch_first=True))


def stepwise():
    """Calls a layer once a step, and once for nothing."""

    def read(it, tokens):
        embedded = it.token(tokens)
        states = [torch.zeros_like(embedded[:, 0])]
        it.carry(states[0])
        for t in range(tokens.shape[1]):
            states.append((embedded[:, t] + it.carry(states[-1])).tanh())
        return torch.stack(states[1:], 1)

    return Policy(read, carry=nn.Linear(6, 6))


def other(policy):
    torch.manual_seed(0)
    return policy().double().eval()


@pytest.mark.parametrize(
    ("policy", "way"),
    [(one, LayerScores) for one in (Policy, tied_twice, placed_once, normed, stepwise)]
    + [(one, BatchedScores) for one in (around, rare, in_place, placed)]
    + [(one, BatchedScores) for one in (reordered, recurrent)],
)
def test_a_policy_of_any_make_is_scored_by_its_layers_where_these_tell_its_scores(policy, way):
    environment = small_environments.make("toy_llm")
    policy, instances = other(policy), environment.instances(2, 1)
    length = environment.prompt_length + environment.max_length
    actions = environment.rollout(policy, instances, length, seed=2).actions
    check_products(environment, policy, instances[:1], actions[:1], way)
    norms = trajectory_squared_norms(environment, policy, instances, actions)
    for b in range(2):
        scores = batched(environment, policy, instances[b : b + 1], actions[b : b + 1])
        torch.testing.assert_close(norms[b], scores.square().sum(1), rtol=1e-9, atol=1e-11)


def test_what_a_policy_unfreezes_after_the_decision_is_not_forgotten():
    environment = small_environments.make("toy_llm")
    policy, instance = other(rare), environment.instances(1, 1)
    actions = environment.rollout(policy, instance, N, seed=2).actions
    policy.rare.requires_grad_(False)
    check_products(environment, policy, instance, actions, LayerScores)
    policy.rare.requires_grad_(True)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.3
    check_products(environment, policy, instance, actions, BatchedScores)


def test_a_decision_is_of_its_mode_and_none_is_made_by_fewer_than_three_trajectories():
    environment = small_environments.make("toy_llm")
    policy, instance = other(normed).train(), environment.instances(1, 1)
    actions = environment.rollout(policy, instance, N, seed=2).actions
    for count, way in ((1, None), (N, BatchedScores)):
        scores = instance_scores(environment, policy, instance, actions[0, :count])
        assert way is None or isinstance(scores, way)
    scores = instance_scores(environment, policy.eval(), instance, actions[0])
    assert isinstance(scores, LayerScores)


def test_a_parameter_that_is_first_used_after_the_decision_is_an_error():
    environment = small_environments.make("toy_llm")
    policy, instance = other(rare), environment.instances(1, 1)
    actions = environment.rollout(policy, instance, N, seed=2).actions
    read, policy.read = policy.read, lambda it, tokens: it.token(tokens)
    scores = instance_scores(environment, policy, instance, actions[0])
    assert isinstance(scores, LayerScores)
    policy.read = read
    with pytest.raises(NotByLayerError, match="not by a call of its layer"):
        scores(0, N, parameters_of(policy))


def test_running_out_of_memory_decides_nothing(monkeypatch):
    environment = small_environments.make("toy_llm")
    policy, instance = other(Policy), environment.instances(1, 1)
    actions = environment.rollout(policy, instance, N, seed=2).actions

    def full(*_):
        raise torch.OutOfMemoryError

    with monkeypatch.context() as patch:
        patch.setattr(type(environment), "trajectory_log_probs", full)
        with pytest.raises(torch.OutOfMemoryError):
            instance_scores(environment, policy, instance, actions[0])
    assert isinstance(instance_scores(environment, policy, instance, actions[0]), LayerScores)


@pytest.fixture(scope="module")
def tsp():
    """log_probs(i, j) of eleven tours, and their scores by a backward pass each."""
    environment = make("tsp", num_loc=6)
    policy, instance, actions = drawn(environment, n=11)
    parameters, scores = list(policy.parameters()), []
    for i in range(11):
        value = environment.log_probs(policy, instance, actions[:, i : i + 1])[0, 0]
        gradients = torch.autograd.grad(
            value, parameters, materialize_grads=True, allow_unused=True
        )
        scores.append(torch.cat([gradient.flatten() for gradient in gradients]))

    def log_probs(i, j):
        return environment.log_probs(policy, instance, actions[:, i:j])[0]

    return log_probs, parameters, torch.stack(scores)


@pytest.mark.parametrize(
    ("chunk", "memory_bytes"), [(4, 40_000), (64, 123_456), (1, 123_456), (4, 2**30)]
)
def test_the_gram_matrix_is_the_product_of_the_scores(tsp, chunk, memory_bytes, monkeypatch):
    log_probs, parameters, scores = tsp
    monkeypatch.setattr("maxk_lab.gradients.scores.products.ROWS", 4)
    monkeypatch.setattr("maxk_lab.gradients.scores.products.WIDE_BYTES", 20_000)
    directions = torch.randn(
        3, scores.shape[1], generator=torch.Generator().manual_seed(0)
    ).double()
    gram, products, _ = score_gram(
        BatchedScores(log_probs, chunk),
        11,
        parameters,
        directions=directions,
        memory_bytes=memory_bytes,
    )
    torch.testing.assert_close(gram, scores @ scores.T, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(products, scores @ directions.T, rtol=1e-9, atol=1e-10)
    norms = norms_of_scores(BatchedScores(log_probs, chunk), 11, parameters)
    torch.testing.assert_close(norms, scores.square().sum(1), rtol=1e-9, atol=0)


def test_only_one_block_of_scores_is_held(tsp, monkeypatch):
    log_probs, parameters, _ = tsp
    widths, empty = [], torch.empty

    def spy(*size, **keywords):
        widths.append(size[1])
        return empty(*size, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr("maxk_lab.gradients.scores.products.torch.empty", spy)
        score_gram(BatchedScores(log_probs), 11, parameters, memory_bytes=8 * 11 * 300)
    assert max(p.numel() for p in parameters) > 300
    assert sum(widths) == sum(p.numel() for p in parameters)
    assert max(widths) == 300


def test_the_scores_of_a_chunk_fit_the_memory(monkeypatch):
    environment = make("toy_llm")
    policy = environment.policy(0)
    width = 8 * sum(p.numel() for p in policy.parameters())
    for held, chunk in ((5 * width + 1, 5), (1, 1), (2**40, per_trajectory.TOGETHER)):
        monkeypatch.setattr(per_trajectory, "TOGETHER_BYTES", held)
        assert LayerScores(environment, policy, (), (), [], False).chunk == chunk
