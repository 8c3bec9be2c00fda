"""The terms of the loss: by hand, by listing every outcome, and against −Σ w ∇log π."""

import pytest
import torch

from maxk_lab.training.loss import kl_tokens, sequence_mean, shape_rewards, surrogate, token_mean
from maxk_lab.training.settings import LossSettings

RATIOS = ("sequence", "token")
AGGREGATIONS = ("seq_sum", "seq_mean", "token_mean", "fixed")


# Two instances with two sequences of 1, 3, 2 and 2 tokens.
MASK = torch.tensor([[[1, 0, 0], [1, 1, 1]], [[1, 1, 0], [1, 1, 0]]], dtype=torch.bool)
WEIGHTS = torch.tensor([[0.5, -0.5], [1.0, 0.25]], dtype=torch.float64)


def logs(ratios):
    return torch.tensor(ratios, dtype=torch.float64).log()


def loss(ratios, weights, mask, **settings):
    log_ratios = logs(ratios)
    found = surrogate(
        log_ratios,
        torch.zeros_like(log_ratios),
        torch.tensor(weights),
        mask,
        LossSettings(**settings),
    )
    return found.loss.item(), found.below.item(), found.above.item()


ONE = torch.ones(1, 1, 1, dtype=torch.bool)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize(
    ("at", "weight", "settings", "expected"),
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
def test_clipping_by_hand(ratio, at, weight, settings, expected):
    value, _, _ = loss([[[at]]], [[weight]], ONE, ratio=ratio, **settings)
    assert value == pytest.approx(expected, rel=1e-12)


# r w of sequence (0, 0): 0.5; of sequence (0, 1): ratio 1.1 · 1 · 1, w = −0.5; the rest at ratio 1.
@pytest.mark.parametrize(
    ("aggregation", "by_sequence", "by_token"),
    [
        # sum / 2 instances
        ("seq_sum", -(0.5 - 0.55 + 1.0 + 0.25) / 2, -(0.5 - 1.55 + 2.0 + 0.5) / 2),
        # each sequence over its length, then as seq_sum
        ("seq_mean", -(0.5 - 0.55 / 3 + 0.5 + 0.125) / 2, -(0.5 - 1.55 / 3 + 1.0 + 0.25) / 2),
        # mean over 8 tokens of 2 w
        ("token_mean", -2 * (0.5 - 0.55 + 1.0 + 0.25) / 8, -2 * (0.5 - 1.55 + 2.0 + 0.5) / 8),
        # mean over 4 sequences of 2 w, divided by 10
        ("fixed", -2 * (0.5 - 0.55 + 1.0 + 0.25) / 40, -2 * (0.5 - 1.55 + 2.0 + 0.5) / 40),
    ],
)
def test_aggregation_by_hand(aggregation, by_sequence, by_token):
    ratios = [[[1.0, 7.0, 7.0], [1.1, 1.0, 1.0]], [[1.0, 1.0, 7.0], [1.0, 1.0, 7.0]]]
    settings = {"aggregation": aggregation, "divisor": 10.0}
    for ratio, expected in (("sequence", by_sequence), ("token", by_token)):
        value, _, above = loss(ratios, WEIGHTS.tolist(), MASK, ratio=ratio, **settings)
        assert (value, above) == (pytest.approx(expected, rel=1e-12), 0)


def test_the_sequence_ratio_is_the_product_over_its_tokens():
    mask = torch.ones(1, 1, 3, dtype=torch.bool)
    settings = {"epsilon_low": 0.9, "epsilon_high": 9.0}
    for ratio, expected in (("sequence", -1.1 * 1.2 * 1.3), ("token", -3.6)):
        value, _, _ = loss([[[1.1, 1.2, 1.3]]], [[1.0]], mask, ratio=ratio, **settings)
        assert value == pytest.approx(expected)


def test_clip_fractions_count_the_ratios_in_the_loss():
    ratios = [[[1.5, 9.0, 9.0], [0.5, 1.0, 1.0]], [[0.1, 1.0, 9.0], [1.0, 1.0, 9.0]]]
    _, below, above = loss(ratios, WEIGHTS.tolist(), MASK, ratio="token")
    assert (below, above) == (2 / 8, 1 / 8)
    _, below, above = loss(ratios, WEIGHTS.tolist(), MASK, ratio="sequence")
    assert (below, above) == (2 / 4, 1 / 4)
    _, below, above = loss(ratios, WEIGHTS.tolist(), torch.zeros_like(MASK), ratio="token")
    assert below != below
    assert above != above


def scores_loss(weights, mask, **settings):
    """The loss at ratio 1 and its gradient with respect to the log-probability of every token."""
    log_probs = torch.randn(mask.shape, dtype=torch.float64).requires_grad_()
    found = surrogate(log_probs, log_probs.detach(), weights, mask, LossSettings(**settings))
    found.loss.backward()
    return log_probs.grad


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_at_ratio_one_the_gradient_is_that_of_weighted_log_probs(ratio, aggregation):
    """Each token's gradient is −c w, whatever the ratio.

    c is 1/2 per instance, by the length, by all tokens or by the divisor.
    """
    lengths = MASK.sum(-1, keepdim=True).double()
    factor = {
        "seq_sum": 1 / 2,
        "seq_mean": 1 / (2 * lengths),
        "token_mean": 2 / 8,
        "fixed": 1 / (2 * 10.0),
    }[aggregation]
    expected = -factor * WEIGHTS.unsqueeze(-1) * MASK
    found = scores_loss(WEIGHTS, MASK, ratio=ratio, aggregation=aggregation, divisor=10.0)
    torch.testing.assert_close(found, expected.expand_as(found), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_padding_changes_nothing(ratio, aggregation):
    generator = torch.Generator().manual_seed(1)
    log_probs, old = (
        torch.randn(2, 2, 3, generator=generator, dtype=torch.float64) / 5 for _ in range(2)
    )
    settings = LossSettings(ratio=ratio, aggregation=aggregation, divisor=10.0)

    def value(width):
        noise = 1e6 * torch.ones(2, 2, width, dtype=torch.float64)
        more = torch.zeros(2, 2, width, dtype=torch.bool)
        found = surrogate(
            torch.cat([log_probs, noise], -1),
            torch.cat([old, -noise], -1),
            WEIGHTS,
            torch.cat([MASK, more], -1),
            settings,
        )
        return found.loss, found.below, found.above

    assert value(0) == value(4)


def test_nothing_in_the_loss_is_a_loss_of_zero():
    nothing = torch.zeros_like(MASK)
    for aggregation in AGGREGATIONS:
        assert (scores_loss(WEIGHTS, nothing, aggregation=aggregation, divisor=10.0) == 0).all()


def test_means_by_hand():
    values = torch.arange(12, dtype=torch.float64).view(2, 2, 3)
    assert token_mean(values, MASK).item() == (0 + 3 + 4 + 5 + 6 + 7 + 9 + 10) / 8
    assert sequence_mean(values, MASK).item() == (0 + 3 + 4 + 5 + 6 + 7 + 9 + 10) / 4
    mask = MASK.clone()
    mask[1] = False
    assert sequence_mean(values, mask).item() == (0 + 3 + 4 + 5) / 2


def policies():
    generator = torch.Generator().manual_seed(3)
    logits, anchor = (torch.randn(5, generator=generator, dtype=torch.float64) for _ in range(2))
    return logits.requires_grad_(), torch.log_softmax(anchor, 0)


def divergence(log_policy, anchor):
    return (log_policy.exp() * (log_policy - anchor)).sum()


def gradient(value, logits):
    return torch.autograd.grad(value, logits, retain_graph=True)[0]


def test_k3_of_nearly_equal_policies_keeps_its_digits():
    tiny = torch.tensor([1e-4], dtype=torch.float32)
    assert kl_tokens(tiny, torch.zeros(1), "k3").item() == pytest.approx(5e-9, rel=1e-2)


def test_the_estimates_of_the_divergence_and_their_gradients_as_a_loss():
    """E_π ∇k1 = 0 and E_π ∇k3 = ∇KL(ref‖π), while both means are KL(π‖ref)."""
    logits, anchor = policies()
    log_policy = torch.log_softmax(logits, 0)
    probabilities = log_policy.exp().detach()
    in_loss = {
        kind: (probabilities * kl_tokens(log_policy, anchor, kind)).sum() for kind in ("k1", "k3")
    }
    true = divergence(log_policy, anchor)
    means = [in_loss[kind].item() for kind in ("k1", "k3")]
    assert means == pytest.approx([true.item()] * 2, rel=1e-12)
    forward = gradient(true, logits)
    backward = gradient((anchor.exp() * (anchor - log_policy)).sum(), logits)
    assert (forward - backward).norm() > 0.05 * forward.norm()
    for kind, expected in (("k1", 0 * forward), ("k3", backward)):
        torch.testing.assert_close(
            gradient(in_loss[kind], logits), expected, rtol=1e-12, atol=1e-14
        )


NAN = float("nan")
REWARDS = torch.tensor([[2.0, -3.0], [NAN, 0.5]])
PENALTY = torch.tensor([[0.5, -0.25], [1.0, 0.0]])


def test_rewards_are_scaled_and_clipped_before_the_penalty():
    shaped = shape_rewards(REWARDS, penalty=PENALTY, clip=(-1.0, 1.0))
    torch.testing.assert_close(shaped, torch.tensor([[0.5, -0.75], [NAN, 0.5]]), equal_nan=True)
    shaped = shape_rewards(REWARDS, scale=0.5, penalty=None, clip=(-1.0, 2.0))
    torch.testing.assert_close(shaped, torch.tensor([[1.0, -1.0], [NAN, 0.25]]), equal_nan=True)
