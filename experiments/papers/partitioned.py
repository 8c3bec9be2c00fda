"""What Max@K costs without subsets that share samples: disjoint groups of K, in drawing order."""

from torch import Tensor

from maxk_lab import advantages


def none(rewards: Tensor, k: int) -> Tensor:
    """w_i = (K/n) times the maximum of i's group."""
    return _weights(rewards, k, "none")


def loo(rewards: Tensor, k: int) -> Tensor:
    """w_i = (K/n) times (the maximum of i's group − the mean of the other groups' maxima)."""
    return _weights(rewards, k, "centred")


def _weights(rewards: Tensor, k: int, baseline: str) -> Tensor:
    """The weights [..., n] of the mean over n/K maxima, each of which is one sample."""
    maxima = rewards.unflatten(-1, (-1, k)).amax(-1)
    return advantages(maxima, estimator="reinforce", baseline=baseline).repeat_interleave(k, -1)
