"""The hybrid's weights as they were trained with, and taken for a gradient of the mean, J_1."""

from torch import Tensor

from maxk_lab import advantages
from maxk_lab.estimators.rows import estimator


@estimator(where="8 <= n", fixed_k=1)
def for_the_mean(rewards: Tensor, k: int) -> Tensor:
    """The weights of hybrid[0.5] at K = 8, whatever K is asked for."""
    return advantages(rewards, estimator="hybrid[0.5]", baseline="none", k=8)


@estimator(where="8 <= n", fixed_k=1)
def zscored_for_the_mean(rewards: Tensor, k: int) -> Tensor:
    """Those z-scored within the group, as `weight_normalization: zscore` trains with them."""
    return zscored(rewards, 8)


@estimator(where="2 <= K <= n")
def zscored(rewards: Tensor, k: int) -> Tensor:
    """The weights of hybrid[0.5], z-scored within the group."""
    weights = advantages(
        rewards, estimator="hybrid[0.5]", baseline="none", k=k, weight_normalization="zscore"
    )
    return weights
