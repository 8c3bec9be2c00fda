"""Scores by the layers of a policy against a batched backward pass, and when they are not used."""

import pytest
import small_environments
import torch
from torch import nn

from maxk_lab.environments.capabilities import LayerwiseEnvironment
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.language.toy_llm import ToyLLM
from maxk_lab.gradients.scores.by_layer import LayerScores, layer_scores
from maxk_lab.gradients.scores.per_trajectory import BatchedScores, trajectory_scores
from maxk_lab.gradients.scores.products import norms_of_scores, score_gram
from maxk_lab.gradients.scores.trajectories import (
    instance_scores,
    trajectory_grams,
    trajectory_squared_norms,
)
from maxk_lab.gradients.scores.vectorised import VectorisedScores

LAYERWISE = [row for row in ENVIRONMENTS if row.name not in ("bandit", "gaussian")]
POLICY = {"embed_dim": 16, "num_heads": 2, "num_encoder_layers": 2, "feedforward_hidden": 24}
# The toy language can be mapped over trajectories, too, which is faster.
MAPPED = ("toy_llm",)
UNMAPPED = type("Unmapped", (ToyLLM,), {"trajectory_log_prob": None})
every_row = pytest.mark.parametrize("row", LAYERWISE, ids=lambda row: row.name)


def make(row, dtype="float64", **changes):
    known = set(row.policy_settings.model_fields)
    policy = {name: value for name, value in POLICY.items() if name in known}
    environment = small_environments.make(row.name, dtype, policy=policy, **row.small | changes)
    return unmapped(environment) if row.name in MAPPED else environment


def unmapped(environment):
    """The same, as one whose policies cannot be mapped."""
    environment.__class__ = UNMAPPED
    return environment


def toy_llm():
    return unmapped(small_environments.make("toy_llm"))


def drawn(environment, n=7, count=1):
    """A policy, instances and the actions of trajectories that differ."""
    policy, instances = environment.policy(0), environment.instances(count, 1)
    actions = environment.rollout(policy, instances, n, seed=2).actions
    assert len(actions[0].unique(dim=0)) > 2
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


@every_row
def test_the_scores_of_every_environment_equal_those_of_a_batched_backward_pass(row):
    environment = make(row)
    policy, instance, actions = drawn(environment)
    expected = batched(environment, policy, instance, actions)
    scores = instance_scores(environment, policy, instance, actions[0])
    assert isinstance(scores, LayerScores)
    found = torch.cat(scores(0, 7, parameters_of(policy)), 1)
    norms = expected.norm(dim=1)
    assert ((found - expected).norm(dim=1) / norms).max() < 1e-10
    gram, _ = score_gram(scores, 7, parameters_of(policy))
    assert relative(gram, expected @ expected.T, norms) < 1e-10
    torch.testing.assert_close(
        norms_of_scores(scores, 7, parameters_of(policy)), norms.square(), rtol=1e-10, atol=0
    )


@every_row
def test_float32_scores_of_every_environment_are_as_near_to_float64_as_a_batched_pass(row):
    precise, environment = make(row), make(row, "float32")
    policy, instance, actions = drawn(environment)
    parameters = parameters_of(policy)
    expected = batched(environment, policy, instance, actions).double()
    scores = instance_scores(environment, policy, instance, actions[0])
    assert isinstance(scores, LayerScores)
    gram, _ = score_gram(scores, 7, parameters)
    double, exact = precise.policy(0), precise.instances(1, 1)
    double.load_state_dict(policy.state_dict())
    truth = batched(precise, double, exact, actions)
    norms = truth.norm(dim=1)
    # The rounding of a float32 pass itself, where that is more than 1e-6 (mcp). That of another
    # pass is not the same: which is the larger depends on the processor.
    own = relative(expected @ expected.T, truth @ truth.T, norms)
    assert relative(gram, truth @ truth.T, norms) < 2 * max(1e-6, own)


@every_row
def test_the_products_of_several_instances_at_once_are_those_of_each(row):
    environment = make(row)
    policy, instances, actions = drawn(environment, n=4, count=3)
    grams = trajectory_grams(environment, policy, instances, actions)
    norms = trajectory_squared_norms(environment, policy, instances, actions)
    for b in range(3):
        instance = environment.select(instances, b)
        scores = batched(environment, policy, instance, actions[b : b + 1])
        own = scores.norm(dim=1)
        assert relative(grams[b], scores @ scores.T, own) < 1e-10
        torch.testing.assert_close(norms[b], own.square(), rtol=1e-10, atol=0)


def test_products_with_directions_take_the_elements_of_every_parameter():
    environment = make(ENVIRONMENTS.get("tsp"), num_loc=7)
    policy, instance, actions = drawn(environment)
    parameters = parameters_of(policy)
    expected = batched(environment, policy, instance, actions)
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(2, expected.shape[1], generator=generator, dtype=torch.float64)
    scores = instance_scores(environment, policy, instance, actions[0])
    gram, products = score_gram(scores, 7, parameters, directions=directions)
    torch.testing.assert_close(products, expected @ directions.T, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(gram, expected @ expected.T, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("memory_bytes", [8 * 7 * 251, 8 * 7 * 900, 2**30])
def test_products_have_fewer_columns_where_trajectories_share_an_encoding(memory_bytes):
    environment = make(ENVIRONMENTS.get("tsp"), num_loc=5)
    policy, instance, actions = drawn(environment)
    parameters = parameters_of(policy)
    scores = instance_scores(environment, policy, instance, actions[0]).of_products()
    widths = {name: scores.width(value) for name, value in policy.named_parameters()}
    # Five places instead of 16 inputs, 24 in the last layer; the coordinates are but two.
    assert widths["encoder.net.layers.0.0.module.Wqkv.weight"] == 48 * 5
    assert widths["encoder.net.layers.1.2.module.lins.1.weight"] == 16 * 5
    assert widths["decoder.project_node_embeddings.weight"] == 48 * 5
    assert widths["encoder.init_embedding.init_embed.weight"] == 16 * 2
    assert widths["decoder.pointer.project_out.weight"] == 16 * 16
    expected = batched(environment, policy, instance, actions)
    gram, _ = score_gram(scores, 7, parameters, memory_bytes=memory_bytes)
    assert relative(gram, expected @ expected.T, expected.norm(dim=1)) < 1e-12


@pytest.mark.parametrize("name", ["tsp", "cvrp", "toy_llm"])
def test_the_temperature_of_an_environment_is_that_of_its_scores(name):
    environment = make(ENVIRONMENTS.get(name)).tempered(1.7)
    policy, instance, actions = drawn(environment)
    expected = batched(environment, policy, instance, actions)
    found = layer_scores(environment, policy, instance, actions)(0, 7, parameters_of(policy))
    torch.testing.assert_close(torch.cat(found, 1), expected, rtol=1e-9, atol=1e-11)


def test_a_forced_first_action_has_no_score():
    environment = make(ENVIRONMENTS.get("tsp"), num_loc=6).forced_starts()
    policy, instance, actions = drawn(environment, n=6)
    expected = batched(environment, policy, instance, actions)
    found = layer_scores(environment, policy, instance, actions)(0, 6, parameters_of(policy))
    torch.testing.assert_close(torch.cat(found, 1), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("frozen", ["encoder", "decoder", "encoder.net.layers.1"])
def test_frozen_parameters_have_no_columns(frozen):
    environment = make(ENVIRONMENTS.get("tsp"), num_loc=6)
    policy, instance, actions = drawn(environment)
    policy.get_submodule(frozen).requires_grad_(False)
    expected = batched(environment, policy, instance, actions)
    found = instance_scores(environment, policy, instance, actions[0])
    assert isinstance(found, LayerScores)
    gram, _ = score_gram(found, 7, parameters_of(policy))
    assert relative(gram, expected @ expected.T, expected.norm(dim=1)) < 1e-10


class Own(nn.Module):
    """A policy of another make for the toy language: token by token, without attention."""

    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(17, 6)
        self.head = nn.Linear(6, 16)

    def read(self, tokens):
        return self.token(tokens)

    def forward(self, tokens):
        return self.head(self.read(tokens))


class TiedTwice(Own):
    """Calls a layer twice, and reads out with the weights that it reads in with."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(6, 6)
        self.head = nn.Linear(6, 17, bias=False)
        self.head.weight = self.token.weight

    def forward(self, tokens):
        return self.head(self.mix(self.mix(self.read(tokens)).tanh()))[..., :16]


class Around(Own):
    """Uses the weights of a layer without calling it."""

    def forward(self, tokens):
        return nn.functional.linear(self.read(tokens), self.head.weight)


class Direct(Own):
    """Has a parameter that belongs to no layer."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))

    def read(self, tokens):
        return self.scale * super().read(tokens)


class InPlace(Own):
    """Changes what a layer gave before anything else reads it."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(6, 6)

    def read(self, tokens):
        return self.mix(super().read(tokens)).mul_(3.0)


class Placed(Own):
    """Looks its positions up once for all rows, as many as there are positions."""

    def __init__(self):
        super().__init__()
        self.position = nn.Embedding(64, 6)

    def read(self, tokens):
        return super().read(tokens) + self.position(torch.arange(tokens.shape[-1]))


class PlacedOnce(Placed):
    """Looks its positions up as a batch of one."""

    def read(self, tokens):
        return self.token(tokens) + self.position(torch.arange(tokens.shape[-1]).unsqueeze(0))


class Normed(Own):
    """Normalises over the whole batch, so that no trajectory has a score of its own."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)

    def read(self, tokens):
        return self.norm(super().read(tokens).mT).mT


class Grouped(Own):
    """Has a layer that is neither linear nor a table."""

    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(2, 6)

    def read(self, tokens):
        return self.norm(super().read(tokens).mT).mT


def own(policy):
    torch.manual_seed(0)
    return policy().double().eval()


@pytest.mark.parametrize("policy", [Own, TiedTwice, PlacedOnce, Grouped])
def test_layers_of_any_make_tell_the_scores_where_they_have_a_row_per_trajectory(policy):
    environment = toy_llm()
    policy, instance = own(policy), environment.instances(1, 1)
    actions = environment.rollout(policy, instance, 7, seed=2).actions
    scores = instance_scores(environment, policy, instance, actions[0])
    assert isinstance(scores, LayerScores)
    expected = batched(environment, policy, instance, actions)
    found = torch.cat(scores(0, 7, parameters_of(policy)), 1)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("policy", [Around, Direct, InPlace, Placed])
def test_a_policy_whose_layers_do_not_tell_falls_back_by_itself(policy):
    environment = toy_llm()
    policy, instance = own(policy), environment.instances(1, 1)
    length = environment.prompt_length + environment.max_length
    actions = environment.rollout(policy, instance, length, seed=2).actions
    scores = instance_scores(environment, policy, instance, actions[0])
    assert not isinstance(scores, LayerScores)
    expected = batched(environment, policy, instance, actions)
    gram, _ = score_gram(scores, length, parameters_of(policy))
    torch.testing.assert_close(gram, expected @ expected.T, rtol=1e-9, atol=1e-11)


def test_the_attention_model_of_the_library_itself_falls_back():
    """Its placeholder is read in a place where no layer tells the gradient by trajectory."""
    from rl4co.models.nn.env_embeddings.context import TSPContext

    environment = make(ENVIRONMENTS.get("tsp"), num_loc=6)
    policy, instance, actions = drawn(environment)
    plain = TSPContext(policy.decoder.embed_dim).double()
    plain.load_state_dict(policy.decoder.context_embedding.state_dict())
    policy.decoder.context_embedding = plain
    scores = instance_scores(environment, policy, instance, actions[0])
    assert isinstance(scores, BatchedScores)


def test_one_trajectory_decides_nothing_for_later_ones():
    """A single row cannot tell whether rows are kept apart."""
    environment = toy_llm()
    policy, instance = own(Normed).train(), environment.instances(1, 1)
    actions = environment.rollout(policy, instance, 5, seed=2).actions
    instance_scores(environment, policy, instance, actions[0, :1])
    scores = instance_scores(environment, policy, instance, actions[0])
    assert not isinstance(scores, LayerScores)


class Rare(Own):
    """Reads a parameter of no layer where one token occurs, which few trajectories have."""

    def __init__(self):
        super().__init__()
        self.rare = nn.Parameter(torch.tensor(0.7))

    def read(self, tokens):
        return super().read(tokens) * (1 + self.rare * (tokens == 3).unsqueeze(-1))


class Adapted(Own):
    """Begins as if its adapter were not there, as adapters do; half of it belongs to no layer."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Parameter(torch.randn(6, 2)), nn.Linear(2, 6, bias=False)
        nn.init.zeros_(self.up.weight)

    def read(self, tokens):
        found = super().read(tokens)
        return found + self.up(found @ self.down)


class Sorted(Own):
    """Runs its layers on its rows in another order."""

    def forward(self, tokens):
        order = tokens.sum(1).argsort()
        return super().forward(tokens[order])[order.argsort()]


def grams(environment, policy, actions):
    """The Gram matrix of a group, and that of a batched backward pass."""
    instance = environment.instances(1, 1)
    expected = batched(environment, policy, instance, actions)
    return trajectory_grams(environment, policy, instance, actions)[0], expected @ expected.T


def completions(environment, n=24, seed=2):
    policy, instance = own(Own), environment.instances(1, 1)
    return environment.rollout(policy, instance, n, seed=seed).actions


def test_a_parameter_that_few_trajectories_read_is_not_forgotten():
    environment = toy_llm()
    actions = completions(environment)
    common = actions[:, [i for i in range(24) if 3 not in actions[0, i].tolist()][:3]]
    policy = own(Rare)
    found, expected = grams(environment, policy, common)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
    scores = instance_scores(environment, policy, environment.instances(1, 1), common[0])
    assert isinstance(scores, LayerScores)  # nothing has been seen of the parameter yet
    found, expected = grams(environment, policy, actions)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("policy", [Adapted, Direct])
def test_what_a_policy_learns_or_unfreezes_after_the_decision_is_not_forgotten(policy):
    environment = toy_llm()
    actions, policy = completions(environment), own(policy)
    bare = next(one for name, one in policy.named_parameters() if name in ("down", "scale"))
    bare.requires_grad_(False)
    found, expected = grams(environment, policy, actions)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
    bare.requires_grad_(True)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.3
    found, expected = grams(environment, policy, actions)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


def test_a_policy_that_runs_its_rows_in_another_order_falls_back():
    environment = toy_llm()
    actions, policy = completions(environment), own(Sorted)
    in_order = actions[0, actions[0].sum(1).argsort()].unsqueeze(0)
    found, expected = grams(environment, policy, in_order)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
    found, expected = grams(environment, policy, actions)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


def test_a_decision_under_forced_starts_is_none_about_free_ones():
    from rl4co.models.nn.env_embeddings.context import TSPContext

    environment = make(ENVIRONMENTS.get("tsp"), num_loc=6)
    policy, instance, actions = drawn(environment)
    plain = TSPContext(policy.decoder.embed_dim).double()
    plain.load_state_dict(policy.decoder.context_embedding.state_dict())
    policy.decoder.context_embedding = plain
    forced = environment.forced_starts()
    begun = forced.rollout(policy, instance, 6, seed=2).actions
    assert isinstance(instance_scores(forced, policy, instance, begun[0]), LayerScores)
    expected = batched(environment, policy, instance, actions)
    found = trajectory_grams(environment, policy, instance, actions)[0]
    torch.testing.assert_close(found, expected @ expected.T, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("sizes", [(20, 5), (5, 20), (20, 4)])
def test_weights_that_encoder_and_decoder_share_are_right_at_every_size(sizes):
    row = ENVIRONMENTS.get("tsp")
    policy = make(row).policy(0)
    encoding = policy.encoder.net.layers[0][0].module
    policy.decoder.pointer.project_out.weight = encoding.out_proj.weight
    for cities in sizes:
        environment = make(row, num_loc=cities)
        instance = environment.instances(1, 1)
        actions = environment.rollout(policy, instance, 7, seed=2).actions
        expected = batched(environment, policy, instance, actions)
        found = trajectory_grams(environment, policy, instance, actions)[0]
        torch.testing.assert_close(found, expected @ expected.T, rtol=1e-9, atol=1e-10)


def test_a_policy_may_change_its_mode_after_the_decision():
    environment = toy_llm()
    actions, policy = completions(environment), own(Normed)
    found, expected = grams(environment, policy, actions)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
    policy.train()
    assert (
        trajectory_grams(environment, policy, environment.instances(1, 1), actions).isfinite().all()
    )


def test_norms_are_found_where_gradients_are_switched_off():
    environment = toy_llm()
    actions, policy = completions(environment), own(Own)
    instance = environment.instances(1, 1)
    expected = batched(environment, policy, instance, actions).square().sum(1)
    with torch.no_grad():
        found = trajectory_squared_norms(environment, policy, instance, actions)
    torch.testing.assert_close(found[0], expected, rtol=1e-10, atol=0)


def test_running_out_of_memory_decides_nothing(monkeypatch):
    environment = toy_llm()
    actions, policy = completions(environment), own(Own)
    instance = environment.instances(1, 1)

    def full(*_):
        raise torch.OutOfMemoryError

    with monkeypatch.context() as patch:
        patch.setattr(type(environment), "trajectory_log_probs", full)
        with pytest.raises(torch.OutOfMemoryError):
            instance_scores(environment, policy, instance, actions[0])
    assert isinstance(instance_scores(environment, policy, instance, actions[0]), LayerScores)


def test_a_policy_that_can_be_mapped_is():
    environment = small_environments.make("toy_llm")
    policy, instance, actions = drawn(environment)
    assert isinstance(instance_scores(environment, policy, instance, actions[0]), VectorisedScores)


def test_only_environments_with_layers_to_tell_apart_are_layerwise():
    found = {
        row.name
        for row in ENVIRONMENTS
        if isinstance(small_environments.make(row.name, **row.small), LayerwiseEnvironment)
    }
    assert found == {row.name for row in LAYERWISE}
