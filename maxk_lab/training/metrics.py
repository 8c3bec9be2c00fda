"""The log of a training step: each name has one meaning, and what is undefined is NaN."""

from __future__ import annotations

import torch
from torch import Tensor

from maxk_lab.training.batch import Batch

# name → meaning. All are over the whole batch; "scored" leaves out the samples to which a reward
# function gave None.
METRICS: dict[str, str] = {
    "reward/mean": "mean raw reward of the scored completions",
    "reward/std": "standard deviation (ddof 1) of the raw rewards within a group, "
    "mean over groups of at least two scored",
    "reward_with_kl/mean": "mean reward that the advantages see: after scale, clip and KL penalty",
    "advantage/mean": "mean of n w_i (of n w_it over all tokens, at token level); "
    "0 for completions that are left out",
    "kl/sequence": "the KL estimate of the settings, summed over a completion's tokens, "
    "mean over completions",
    "kl/token": "the KL estimate of the settings, mean over all tokens",
    "entropy": "entropy of the policy, summed over a completion's tokens, mean over completions",
    "clip_ratio/low": "fraction of the ratios in the loss below 1 - epsilon_low, "
    "mean over inner epochs",
    "clip_ratio/high": "fraction of the ratios in the loss above 1 + epsilon_high, "
    "mean over inner epochs",
    "frac_reward_zero_std": "fraction of the groups of at least two scored whose raw rewards "
    "are all equal",
    "frac_unscorable": "fraction of the completions to which a reward function gave None",
    "frac_truncated": "fraction of the completions cut off before their end",
    "frac_unusable_groups": "fraction of the groups with too few completions left for their "
    "weights",
    "length/mean": "mean number of tokens of a completion",
    "length/min": "least number of tokens of a completion",
    "length/max": "largest number of tokens of a completion",
    "grad_norm": "norm of the gradient before it is clipped, mean over inner epochs",
    "loss": "the whole loss: surrogate, KL and entropy terms, mean over inner epochs",
}
# Logged besides where K follows a schedule.
SCHEDULE_METRICS: dict[str, str] = {"k": "the K that the step trained for"}
# Logged besides for estimators that need ratios.
OFF_POLICY_METRICS: dict[str, str] = {
    "ess": "effective sample size of a group's ratios, divided by n, mean over groups and inner "
    "epochs; 1 in the first",
}


def reward_metrics(raw: Tensor, shaped: Tensor) -> dict[str, float]:
    """Return the log of raw and shaped rewards, both [P, n] with NaN for unscorable samples."""
    scored = ~raw.isnan()
    enough = scored.sum(1) >= 2
    groups, filled = scored[enough], raw.double()[enough].nan_to_num(0.0)
    counts = groups.sum(1)
    means = filled.sum(1) / counts
    squares = torch.where(groups, (filled - means.unsqueeze(1)).square(), 0.0).sum(1)
    highest = filled.masked_fill(~groups, -torch.inf).amax(1)
    lowest = filled.masked_fill(~groups, torch.inf).amin(1)
    return {
        "reward/mean": _mean(raw[scored]),
        "reward/std": _mean((squares / (counts - 1)).sqrt()),
        "reward_with_kl/mean": _mean(shaped[scored]),
        "frac_reward_zero_std": _mean(highest == lowest),
        "frac_unscorable": _mean(~scored),
    }


def batch_metrics(
    weights: Tensor, unusable: Tensor, batch: Batch, kl: Tensor | None
) -> dict[str, float]:
    """Return the log of weights [P, n] or [P, n, T], lengths, truncation, entropy and KL.

    kl: [P, n, T], of the settings; unusable: [P].
    """
    mask, lengths = batch.numbers.mask, batch.numbers.mask.sum(-1).double()
    entropy = torch.where(mask, batch.numbers.entropy, 0.0).sum(-1)
    nothing = float("nan")
    return {
        "advantage/mean": mask.shape[1] * _mean(weights if weights.dim() == 2 else weights[mask]),
        "kl/sequence": nothing if kl is None else _mean(torch.where(mask, kl, 0.0).sum(-1)),
        "kl/token": nothing if kl is None else _mean(kl[mask]),
        "entropy": _mean(entropy),
        "frac_truncated": _mean(batch.truncated),
        "frac_unusable_groups": _mean(unusable),
        "length/mean": _mean(lengths),
        "length/min": lengths.min().item(),
        "length/max": lengths.max().item(),
    }


def _mean(values: Tensor) -> float:
    """Return the mean in float64; NaN of nothing."""
    return values.detach().double().mean().item()
