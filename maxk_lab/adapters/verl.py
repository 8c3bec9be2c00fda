"""verl: the advantage estimator `maxk`, which verl loads through its plug-in entry point.

    algorithm.adv_estimator=maxk +algorithm.maxk_k=8 +algorithm.maxk_baseline=subloo
    algorithm.norm_adv_by_std_in_grpo=False

verl hides errors of plug-ins. So only verl is imported before the first call.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from torch import Tensor
from verl.trainer.ppo.core_algos import register_adv_est

from maxk_lab.errors import LabError, LabWarning

OPTIONS = ("maxk_k", "maxk_estimator", "maxk_baseline", "maxk_small_groups")


@register_adv_est("maxk")  # type: ignore[untyped-decorator]  # verl has no types
def maxk_advantages(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Any = None,
    config: Mapping[str, Any] = MappingProxyType({}),
    **unused: Any,
) -> tuple[Tensor, Tensor]:
    """Return Max@K advantages and returns, both [rows, T], from verl's arguments.

    A reward is the sum of a row of `token_level_rewards` [rows, T]. Rows with the same `index` (the
    uid of a prompt) are a group, in any order and of any size. config: verl's node `algorithm`.
    `maxk_k`, `maxk_estimator` and `maxk_baseline` are as in `maxk_lab.advantages`;
    `maxk_small_groups=zero` gives advantages of 0 to groups too small for the pair. Raises
    `LabError` without uids, for `norm_adv_by_std_in_grpo`, and the errors of `grouped_advantages`.
    Warns of repeated rows, a result of padding.
    """
    from maxk_lab.adapters.groups import grouped_advantages

    options = {name: config[name] for name in config if name.startswith("maxk")}
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        raise LabError(f"algorithm.{unknown[0]} is none of {', '.join(OPTIONS)}")
    if index is None:
        raise LabError("adv_estimator maxk needs the uid of every row in non_tensor_batch")
    if config.get("norm_adv_by_std_in_grpo"):
        raise LabError(
            "norm_adv_by_std_in_grpo=True divides advantages by their deviation, which bends the "
            "gradient: set algorithm.norm_adv_by_std_in_grpo=False"
        )
    if padded := _padded(token_level_rewards, response_mask, index):
        warnings.warn(
            f"uid {padded[0]} has more rows than most groups, and repeats rows ({len(padded)} such "
            "groups): padding of the batch counts as samples; choose a batch size that needs none",
            LabWarning,
            stacklevel=2,
        )
    if config.get("use_kl_in_reward"):
        warnings.warn(
            "use_kl_in_reward puts the KL inside the maximum: the objective is E[max(R - beta KL)] "
            "at a fixed penalty; actor_rollout_ref.actor.use_kl_loss=True keeps it outside",
            LabWarning,
            stacklevel=2,
        )
    advantages = grouped_advantages(
        token_level_rewards.sum(-1),
        index,
        lengths=response_mask.sum(-1),
        **{name.removeprefix("maxk_"): value for name, value in options.items()},
    )
    spread = advantages.unsqueeze(-1) * response_mask
    return spread, spread


def _padded(rewards: Tensor, mask: Tensor, index: Any) -> list[Any]:
    """Return the uids of groups whose surplus rows repeat other rows, as in verl's padding.

    Surplus rows exceed the size of more than half of the groups. Rows [T] are equal if rewards and
    mask are.
    """
    sizes = Counter(index)
    ((usual, groups),) = Counter(sizes.values()).most_common(1) or [(0, 0)]
    larger = {uid for uid, size in sizes.items() if size > usual and 2 * groups > len(sizes)}
    different: dict[Any, set[Any]] = {uid: set() for uid in larger}
    for row, uid in enumerate(index):
        if uid in larger:
            different[uid].add((*rewards[row].tolist(), *mask[row].tolist()))
    return [uid for uid, rows in different.items() if len(rows) <= usual]
