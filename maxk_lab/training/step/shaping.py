"""The stages between raw rewards and advantages: a scale, clipping, and the KL penalty of RLOO."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def shape_rewards(
    rewards: Tensor,
    *,
    scale: float = 1.0,
    penalty: Tensor | None,
    clip: Sequence[float] | None,
    order: Sequence[str],
) -> Tensor:
    """Return `scale` times rewards [..., n], after the stages `clip` and `kl` in the given order.

    NaN (unscorable) stays NaN. `penalty` [..., n] is β times the KL estimate of each trajectory, or
    None; it carries no gradient. Its stage subtracts it: with k1, R − β Σ_t (log π_old − log
    π_anchor), whose policy gradient is unbiased for ∇J − β ∇KL(π‖anchor). Clipping before that
    bends the reward only, clipping after it the penalty too. Raises `ValueError` for an unknown
    stage.
    """
    if scale != 1:
        rewards = scale * rewards
    for stage in order:
        if stage == "clip":
            rewards = rewards if clip is None else rewards.clamp(*clip)
        elif stage == "kl":
            rewards = rewards if penalty is None else rewards - penalty.detach().to(rewards)
        else:
            raise ValueError(f"order must hold clip and kl, got {stage!r}")
    return rewards
