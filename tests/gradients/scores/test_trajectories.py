"""Scores mapped over trajectories against a backward pass each; a pool's record of them."""

import pytest
import torch

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.environment import make_environment
from maxk_lab.errors import LabError
from maxk_lab.gradients.scores import per_trajectory
from maxk_lab.gradients.scores.draw import draw_pool
from maxk_lab.gradients.scores.per_trajectory import BatchedScores
from maxk_lab.gradients.scores.pool import ScorePool
from maxk_lab.gradients.scores.products import grams_of_scores, norms_of_scores, score_gram
from maxk_lab.gradients.scores.proxies import correlation
from maxk_lab.gradients.scores.trajectories import trajectory_grams, trajectory_squared_norms
from maxk_lab.gradients.scores.vectorised import VectorisedScores

TSP = {
    "embed_dim": 16,
    "num_encoder_layers": 1,
    "num_heads": 2,
    "feedforward_hidden": 16,
    "dtype": "float64",
}


def toy_llm(**parameters):
    row = ENVIRONMENTS.get("toy_llm")
    return make_environment(
        row.settings.defaults() | {"name": row.name} | parameters,
        row.policy_settings.defaults() | {"dtype": "float64", "embed_dim": 8, "init_std": 0.5},
    )


def bandit():
    return make_environment(
        {"name": "bandit", "arms": 4, "reward_shift": 0.0}, {"init_std": 0.5, "dtype": "float64"}
    )


def tsp():
    return make_environment({"name": "tsp", "num_loc": 6}, TSP)


def one_by_one(environment, policy, instances, actions):
    """Scores [B, n, P], one backward pass each."""
    parameters = [p for p in policy.parameters() if p.requires_grad]
    rows = []
    for b in range(actions.shape[0]):
        for i in range(actions.shape[1]):
            instance = environment.select(instances, b)
            value = environment.log_probs(policy, instance, actions[b : b + 1, i : i + 1]).sum()
            gradients = torch.autograd.grad(value, parameters, allow_unused=True)
            rows.append(
                torch.cat(
                    [
                        torch.zeros(p.numel()).double() if g is None else g.flatten()
                        for g, p in zip(gradients, parameters)
                    ]
                )
            )
    return torch.stack(rows).view(*actions.shape[:2], -1)


@pytest.mark.parametrize("make", [toy_llm, bandit, tsp])
def test_squared_norms_equal_one_backward_pass_per_trajectory(make):
    environment = make()
    policy, instances = environment.policy(0), environment.instances(2, 1)
    actions = environment.rollout(policy, instances, 5, seed=2).actions
    expected = one_by_one(environment, policy, instances, actions).square().sum(2)
    found = trajectory_squared_norms(environment, policy, instances, actions)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("make", [toy_llm, bandit, tsp])
def test_the_gram_matrices_equal_those_of_one_backward_pass_per_trajectory(make):
    environment = make()
    policy, instances = environment.policy(0), environment.instances(3, 1)
    actions = environment.rollout(policy, instances, 5, seed=2).actions
    scores = one_by_one(environment, policy, instances, actions)
    found = trajectory_grams(environment, policy, instances, actions)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, scores @ scores.mT, rtol=1e-10, atol=1e-12)


def test_the_gram_matrices_do_not_depend_on_how_many_groups_are_held():
    environment = toy_llm()
    policy, instances = environment.policy(0), environment.instances(3, 1)
    actions = environment.rollout(policy, instances, 5, seed=2).actions
    scores = VectorisedScores(
        environment, policy, environment.trajectory_inputs(instances, actions)
    )
    parameters = list(policy.parameters())
    group = 8 * 5 * sum(p.numel() for p in parameters)
    whole = grams_of_scores(scores, 3, 5, parameters)
    for memory_bytes in (1, 2 * group):
        parts = grams_of_scores(scores, 3, 5, parameters, memory_bytes=memory_bytes)
        torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("memory_bytes", [320_000, 2**30])
def test_mapped_scores_have_the_gram_matrix_of_batched_ones(memory_bytes, monkeypatch):
    environment = toy_llm(vocab_size=4, max_length=3, prompt_length=3)
    policy, instance = environment.policy(0), environment.instances(1, 1)
    listed, _ = environment.enumerate(instance)
    parameters = list(policy.parameters())
    monkeypatch.setattr(per_trajectory, "TOGETHER", 15)
    mapped = VectorisedScores(
        environment, policy, environment.trajectory_inputs(instance, listed.unsqueeze(0))
    )
    batched = BatchedScores(
        lambda i, j: environment.log_probs(policy, instance, listed[None, i:j])[0]
    )
    fast, _ = score_gram(mapped, len(listed), parameters, memory_bytes=memory_bytes)
    slow, _ = score_gram(batched, len(listed), parameters, memory_bytes=memory_bytes)
    torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(
        norms_of_scores(mapped, len(listed), parameters), slow.diagonal(), rtol=1e-10, atol=0
    )


def test_the_scores_of_a_chunk_fit_the_memory(monkeypatch):
    environment = toy_llm()
    policy = environment.policy(0)
    width = 8 * sum(p.numel() for p in policy.parameters())
    monkeypatch.setattr(per_trajectory, "TOGETHER_BYTES", 5 * width + 1)
    assert VectorisedScores(environment, policy, ()).chunk == 5
    monkeypatch.setattr(per_trajectory, "TOGETHER_BYTES", 1)
    assert VectorisedScores(environment, policy, ()).chunk == 1


class Recurrent(torch.nn.Module):
    """A policy of another make: it needs a batch dimension, and torch.func cannot map it."""

    def __init__(self):
        super().__init__()
        self.token = torch.nn.Embedding(17, 6)
        self.memory = torch.nn.GRU(6, 6, batch_first=True)
        self.head = torch.nn.Linear(6, 16)

    def forward(self, tokens):
        if tokens.dim() != 2:
            raise ValueError("tokens must be [N, L]")
        return self.head(self.memory(self.token(tokens))[0])


def test_a_policy_that_cannot_be_mapped_has_its_norms_one_by_one():
    environment = toy_llm()
    torch.manual_seed(0)
    policy, instances = Recurrent().double(), environment.instances(2, 1)
    actions = environment.rollout(policy, instances, 3, seed=2).actions
    expected = one_by_one(environment, policy, instances, actions).square().sum(2)
    found = trajectory_squared_norms(environment, policy, instances, actions)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=0)
    grams = trajectory_grams(environment, policy, instances, actions)
    torch.testing.assert_close(grams.diagonal(dim1=1, dim2=2), expected, rtol=1e-10, atol=0)
    scores = one_by_one(environment, policy, instances, actions)
    torch.testing.assert_close(grams, scores @ scores.mT, rtol=1e-10, atol=1e-12)


def test_frozen_parameters_have_no_score():
    environment = toy_llm()
    policy, instances = environment.policy(0), environment.instances(2, 1)
    actions = environment.rollout(policy, instances, 3, seed=2).actions
    whole = trajectory_squared_norms(environment, policy, instances, actions)
    next(policy.parameters()).requires_grad_(False)
    expected = one_by_one(environment, policy, instances, actions).square().sum(2)
    part = trajectory_squared_norms(environment, policy, instances, actions)
    torch.testing.assert_close(part, expected, rtol=1e-10, atol=0)
    assert (part < whole).all()


@pytest.mark.parametrize("enumerable", [True, False])
def test_a_pool_keeps_lengths_and_proxies_through_its_file(enumerable):
    sizes = {"vocab_size": 4, "max_length": 3, "prompt_length": 3}
    environment = toy_llm(**sizes)
    environment.enumerable = enumerable
    policy, instances = environment.policy(0), environment.instances(2, 1)
    pool = draw_pool(environment, policy, instances, 2, 30, objectives=[2], seed=3)
    assert pool.listed == enumerable
    again = ScorePool.from_arrays(pool.to_arrays())
    assert again.tolerance == pool.tolerance == 1e-9
    for kind in ("length", "logit_proxy", "grad_norm"):
        assert torch.equal(again.trajectory_weight(kind), pool.trajectory_weight(kind))
    if not enumerable:
        return
    # The table says of each drawn trajectory what the rollout of the same seed says.
    assert pool.probabilities.sum(1).tolist() == pytest.approx([1.0, 1.0], abs=1e-12)
    blind = toy_llm(**sizes)
    blind.enumerable = False
    drawn = draw_pool(blind, policy, instances, 2, 30, objectives=[2], seed=3)
    for kind in ("length", "logit_proxy", "grad_norm"):
        torch.testing.assert_close(
            pool.listed_weight(kind).gather(1, pool.rows),
            drawn.trajectory_weight(kind),
            rtol=1e-9,
            atol=1e-12,
        )
        assert torch.equal(
            pool.listed_weight(kind).gather(1, pool.rows), pool.trajectory_weight(kind)
        )


def test_a_missing_reward_is_named():
    environment = bandit()
    instances = environment.instances(2, 1)
    instances[1, 2] = torch.nan
    with pytest.raises(LabError, match="of instance 1 have no reward"):
        draw_pool(environment, environment.policy(0), instances, 2, 50, objectives=[1], seed=3)


def test_correlation_is_weighted_by_probability_and_none_where_nothing_varies():
    x, y = torch.tensor([0.0, 1.0, 5.0]), torch.tensor([1.0, 0.0, 7.0])
    drawn = torch.tensor([0, 0, 0, 1, 2, 2])  # the weights below, as repeats
    expected = torch.corrcoef(torch.stack([x[drawn], y[drawn]]).double())[0, 1].item()
    chance = torch.tensor([3.0, 1.0, 2.0]).double()
    assert correlation(x, y, chance) == pytest.approx(expected, rel=1e-12)
    assert correlation(torch.full((3,), 0.1), y, chance) is None
    assert correlation(x, torch.full((3,), 1 / 3), chance) is None
