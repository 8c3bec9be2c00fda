"""The KL estimates by listing every outcome: values, gradients in the loss and in the reward."""

import pytest
import torch

from maxk_lab.training.step.kl import kl_tokens


def policies():
    generator = torch.Generator().manual_seed(3)
    logits, anchor = (torch.randn(5, generator=generator, dtype=torch.float64) for _ in range(2))
    return logits.requires_grad_(), torch.log_softmax(anchor, 0)


def divergence(log_policy, anchor):
    return (log_policy.exp() * (log_policy - anchor)).sum()


def gradient(value, logits):
    return torch.autograd.grad(value, logits, retain_graph=True)[0]


def test_k1_and_k3_have_the_divergence_as_their_mean_and_k2_has_not():
    logits, anchor = policies()
    log_policy = torch.log_softmax(logits, 0)
    true = divergence(log_policy, anchor).item()
    mean = {
        k: (log_policy.exp() * kl_tokens(log_policy, anchor, k)).sum().item()
        for k in ("k1", "k2", "k3")
    }
    assert mean["k1"] == pytest.approx(true, rel=1e-12)
    assert mean["k3"] == pytest.approx(true, rel=1e-12)
    assert abs(mean["k2"] - true) > 0.05 * true


def test_k3_and_k2_are_never_negative_and_k1_is():
    logits, anchor = policies()
    log_policy = torch.log_softmax(logits, 0)
    assert (kl_tokens(log_policy, anchor, "k3") >= 0).all()
    assert (kl_tokens(log_policy, anchor, "k2") >= 0).all()
    assert (kl_tokens(log_policy, anchor, "k1") < 0).any()


def test_k3_of_nearly_equal_policies_keeps_its_digits():
    tiny = torch.tensor([1e-4], dtype=torch.float32)
    assert kl_tokens(tiny, torch.zeros(1), "k3").item() == pytest.approx(5e-9, rel=1e-2)


def test_gradients_of_the_estimates_as_a_loss():
    """E_π ∇k1 = 0, E_π ∇k2 = ∇KL(π‖ref), E_π ∇k3 = ∇KL(ref‖π)."""
    logits, anchor = policies()
    log_policy = torch.log_softmax(logits, 0)
    probabilities = log_policy.exp().detach()

    def in_loss(kind):
        return gradient((probabilities * kl_tokens(log_policy, anchor, kind)).sum(), logits)

    forward = gradient(divergence(log_policy, anchor), logits)
    backward = gradient((anchor.exp() * (anchor - log_policy)).sum(), logits)
    torch.testing.assert_close(
        in_loss("k1"), torch.zeros(5, dtype=torch.float64), rtol=0, atol=1e-14
    )
    torch.testing.assert_close(in_loss("k2"), forward, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(in_loss("k3"), backward, rtol=1e-12, atol=1e-14)
    assert (forward - backward).norm() > 0.05 * forward.norm()


def test_unknown_kinds_are_refused():
    with pytest.raises(ValueError, match="kind must be k1, k2 or k3, got 'k4'"):
        kl_tokens(torch.zeros(1), torch.zeros(1), "k4")
