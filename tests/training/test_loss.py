"""The terms of the loss: by hand, by listing every outcome, and against −Σ w ∇log π."""

import math

import pytest
import torch

from maxk_lab.training.loss import kl_tokens, sequence_mean, shape_rewards, surrogate, token_mean
from maxk_lab.training.settings import LossSettings

# Two instances with two sequences of 1, 3, 2 and 2 tokens.
MASK = torch.tensor([[[1, 0, 0], [1, 1, 1]], [[1, 1, 0], [1, 1, 0]]], dtype=torch.bool)
WEIGHTS = torch.tensor([[0.5, -0.5], [1.0, 0.25]], dtype=torch.float64)
NOTHING = torch.zeros_like(MASK)
NAN = math.nan


def loss(ratios, weights, mask, **settings):
    """The loss, and the fractions of ratios below and above the range."""
    log_ratios = torch.tensor(ratios, dtype=torch.float64).log()
    old, weights = torch.zeros_like(log_ratios), torch.as_tensor(weights)
    terms = surrogate(log_ratios, old, weights, mask, LossSettings(**settings))
    return terms.loss.item(), terms.below.item(), terms.above.item()


@pytest.mark.parametrize("ratio", ["sequence", "token"])
@pytest.mark.parametrize(
    ("value", "weight", "settings", "expected"),
    [
        (1.1, 2.0, {}, -2.2),  # inside the range: r w
        (1.5, 2.0, {}, -2.4),  # above, positive weight: 1.2 w
        (1.5, -2.0, {}, 3.0),  # above, negative weight: r w is the smaller
        (0.5, 2.0, {}, -1.0),  # below, positive weight: r w is the smaller
        (0.5, -2.0, {}, 1.6),  # below, negative weight: 0.8 w
        (1.5, 2.0, {"epsilon_high": 0.4}, -2.8),
        (0.5, -2.0, {"epsilon_low": 0.4}, 1.2),
        (1.5, 2.0, {"epsilon_low": 0.4}, -2.4),  # each end has its own epsilon
        (5.0, -2.0, {}, 10.0),
    ],
)
def test_clipping_by_hand(ratio, value, weight, settings, expected):
    mask = torch.ones(1, 1, 1, dtype=torch.bool)
    result = loss([[[value]]], [[weight]], mask, ratio=ratio, **settings)[0]
    assert result == pytest.approx(expected, rel=1e-12)


# r w by sequence, and the sum of r w by token, of sequences (0, 0), (0, 1), (1, 0), (1, 1).
SEQUENCES = 0.5, -0.5 * 1.1 * 1.05, 1.0, 0.25
TOKENS = 0.5, -0.5 * (1.1 + 1.05 + 1), 2.0, 0.5


@pytest.mark.parametrize(
    ("aggregation", "factors"),
    [
        ("seq_sum", [1 / 2] * 4),  # sum / 2 instances
        ("seq_mean", [1 / 2, 1 / 6, 1 / 4, 1 / 4]),  # each sequence over its length
        ("token_mean", [2 / 8] * 4),  # mean over 8 tokens of 2 w
        ("fixed", [2 / 40] * 4),  # mean over 4 sequences of 2 w, divided by 10
    ],
)
@pytest.mark.parametrize(("ratio", "terms"), [("sequence", SEQUENCES), ("token", TOKENS)])
def test_aggregation_and_its_gradient_at_ratio_one(aggregation, factors, ratio, terms):
    """The gradient of each token is −c w; masked tokens may have any log-probability."""
    settings = {"ratio": ratio, "aggregation": aggregation, "divisor": 10.0}
    inf = math.inf
    ratios = [[[1.0, inf, inf], [1.1, 1.05, 1.0]], [[1.0, 1.0, inf], [1.0, 1.0, 0.0]]]
    expected = -sum(factor * term for factor, term in zip(factors, terms, strict=True))
    assert loss(ratios, WEIGHTS, MASK, **settings) == (pytest.approx(expected, rel=1e-12), 0, 0)
    expected = (
        -torch.tensor(factors, dtype=torch.float64).view(2, 2, 1) * WEIGHTS.unsqueeze(-1) * MASK
    )
    for mask, gradient in ((MASK, expected), (NOTHING, 0 * expected)):
        log_probs = torch.randn(MASK.shape, dtype=torch.float64).requires_grad_()
        settings_of_loss = LossSettings(**settings)
        surrogate(log_probs, log_probs.detach(), WEIGHTS, mask, settings_of_loss).loss.backward()
        torch.testing.assert_close(log_probs.grad, gradient, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("ratio", "mask", "fractions"),
    [
        ("token", MASK, (2 / 8, 1 / 8)),
        ("sequence", MASK, (2 / 4, 1 / 4)),
        ("token", NOTHING, (NAN, NAN)),
    ],
)
def test_clip_fractions_count_the_ratios_in_the_loss(ratio, mask, fractions):
    ratios = [[[1.5, 9.0, 9.0], [0.5, 1.0, 1.0]], [[0.1, 1.0, 9.0], [1.0, 1.0, 9.0]]]
    assert loss(ratios, WEIGHTS, mask, ratio=ratio)[1:] == pytest.approx(fractions, nan_ok=True)


def test_means_by_hand():
    values = torch.arange(12, dtype=torch.float64).view(2, 2, 3)
    assert token_mean(values, MASK).item() == (0 + 3 + 4 + 5 + 6 + 7 + 9 + 10) / 8
    assert sequence_mean(values, MASK).item() == (0 + 3 + 4 + 5 + 6 + 7 + 9 + 10) / 4
    mask = MASK.clone()
    mask[1] = False
    assert sequence_mean(values, mask).item() == (0 + 3 + 4 + 5) / 2


def test_the_estimates_of_the_divergence_and_their_gradients_as_a_loss():
    """E_π ∇k1 = 0 and E_π ∇k3 = ∇KL(ref‖π), while both means are KL(π‖ref)."""
    generator = torch.Generator().manual_seed(3)
    logits, anchor = (torch.randn(5, generator=generator, dtype=torch.float64) for _ in range(2))
    log_policy, anchor = logits.requires_grad_().log_softmax(0), anchor.log_softmax(0)

    def gradient(value):
        return torch.autograd.grad(value, logits, retain_graph=True)[0]

    divergence = (log_policy.exp() * (log_policy - anchor)).sum()
    backward = gradient((anchor.exp() * (anchor - log_policy)).sum())
    assert (gradient(divergence) - backward).norm() > 0.05 * backward.norm()
    for kind, expected in (("k1", 0 * backward), ("k3", backward)):
        mean = (log_policy.exp().detach() * kl_tokens(log_policy, anchor, kind)).sum()
        assert mean.item() == pytest.approx(divergence.item(), rel=1e-12)
        torch.testing.assert_close(gradient(mean), expected, rtol=1e-12, atol=1e-14)
    # Nearly equal policies: k3 keeps its digits.
    assert kl_tokens(torch.tensor([1e-4]), torch.zeros(1), "k3").item() == pytest.approx(5e-9, 1e-2)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"penalty": torch.tensor([[0.5, -0.25], [1.0, 0.0]]), "clip": (-1.0, 1.0)},
         [[0.5, -0.75], [NAN, 0.5]]),
        ({"penalty": None, "clip": (-1.0, 2.0), "scale": 0.5}, [[1.0, -1.0], [NAN, 0.25]]),
    ],
)  # fmt: skip
def test_rewards_are_scaled_and_clipped_before_the_penalty(options, expected):
    shaped = shape_rewards(torch.tensor([[2.0, -3.0], [NAN, 0.5]]), **options)
    torch.testing.assert_close(shaped, torch.tensor(expected), equal_nan=True)
