"""The hybrid's weights as they were trained with, and taken for a gradient of the mean, J_1."""

from torch import Tensor

from maxk_lab import advantages
from maxk_lab.estimators.rows import estimator


def hybrid(rewards: Tensor, k: int, weight_normalization: str = "none") -> Tensor:
    """The weights of hybrid[0.5], z-scored within the group where that is asked for."""
    return advantages(
        rewards,
        estimator="hybrid[0.5]",
        baseline="none",
        k=k,
        weight_normalization=weight_normalization,
    )


@estimator(where=lambda n, k: n >= 8, fixed_k=1)
def for_the_mean(rewards: Tensor, k: int) -> Tensor:
    """The weights of hybrid[0.5] at K = 8, whatever K is asked for."""
    return hybrid(rewards, 8)


@estimator(where=lambda n, k: n >= 8, fixed_k=1)
def zscored_for_the_mean(rewards: Tensor, k: int) -> Tensor:
    """The weights of hybrid[0.5] at K = 8, z-scored, whatever K is asked for."""
    return hybrid(rewards, 8, "zscore")


@estimator(where=lambda n, k: 2 <= k <= n)
def zscored(rewards: Tensor, k: int) -> Tensor:
    """The weights of hybrid[0.5], z-scored as `weight_normalization: zscore` trains with them."""
    return hybrid(rewards, k, "zscore")
