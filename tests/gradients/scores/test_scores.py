"""Scores and Gram matrices against one autograd call per trajectory."""

import pytest
import torch

from maxk_lab.environments.environment import make_environment
from maxk_lab.gradients.scores.per_trajectory import BatchedScores
from maxk_lab.gradients.scores.products import score_gram, squared_norms

POLICY = {
    "embed_dim": 16,
    "num_encoder_layers": 1,
    "num_heads": 2,
    "feedforward_hidden": 16,
    "dtype": "float64",
}


@pytest.fixture(scope="module")
def setting():
    environment = make_environment({"name": "tsp", "num_loc": 6}, POLICY)
    policy, instance = environment.policy(0), environment.instances(1, 1)
    actions = environment.rollout(policy, instance, 11, seed=2).actions[0]
    parameters = list(policy.parameters())
    scores = []
    for i in range(11):
        value = environment.log_probs(policy, instance, actions[i : i + 1].unsqueeze(0))[0, 0]
        gradients = torch.autograd.grad(value, parameters, allow_unused=True)
        scores.append(
            torch.cat(
                [
                    torch.zeros(p.numel()).double() if g is None else g.flatten()
                    for g, p in zip(gradients, parameters)
                ]
            )
        )
    return (
        lambda i, j: environment.log_probs(policy, instance, actions[i:j].unsqueeze(0))[0],
        parameters,
        torch.stack(scores),
    )


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1, 4, 11, 64])
@pytest.mark.parametrize("memory_bytes", [40_000, 123_456, 2**30])
def test_gram_matrix_is_the_product_of_the_scores(setting, chunk, memory_bytes):
    log_probs, parameters, scores = setting
    directions = torch.randn(
        3, scores.shape[1], generator=torch.Generator().manual_seed(0)
    ).double()
    gram, products = score_gram(
        BatchedScores(log_probs, chunk),
        11,
        parameters,
        directions=directions,
        memory_bytes=memory_bytes,
    )
    torch.testing.assert_close(gram, scores @ scores.T, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(products, scores @ directions.T, rtol=1e-9, atol=1e-10)


def test_squared_norms_are_the_diagonal(setting):
    log_probs, parameters, scores = setting
    torch.testing.assert_close(
        squared_norms(log_probs, 11, parameters, chunk=4), scores.square().sum(1), rtol=1e-9, atol=0
    )


def test_only_one_block_of_scores_is_held(setting, monkeypatch):
    log_probs, parameters, _ = setting
    widths = []
    empty = torch.empty

    def spy(*size, **keywords):
        if len(size) == 2 and size[0] == 11:
            widths.append(size[1])
        return empty(*size, **keywords)

    monkeypatch.setattr(torch, "empty", spy)
    score_gram(BatchedScores(log_probs), 11, parameters, memory_bytes=8 * 11 * 300)
    assert max(p.numel() for p in parameters) > 300
    assert sum(widths) == sum(p.numel() for p in parameters)
    assert max(widths) == 300
