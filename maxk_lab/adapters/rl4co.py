"""RL4CO: Max@K for any of its models with REINFORCE; `MaxKPOMO` is for POMO."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

from maxk_lab.training.pomo import MaxKSampling, PomoSettings  # isort: split

from rl4co.envs import RL4COEnvBase
from rl4co.models.rl.reinforce.baselines import get_reinforce_baseline
from rl4co.models.rl.reinforce.reinforce import REINFORCE
from rl4co.models.zoo.pomo import POMO
from rl4co.models.zoo.symnco import SymNCO
from rl4co.models.zoo.symnco.losses import invariance_loss
from tensordict import TensorDict
from torch import Tensor

from maxk_lab.adapters.measuring import Measuring
from maxk_lab.errors import LabError
from maxk_lab.own.sketch import matching


def with_maxk(model: type[REINFORCE]) -> type[MaxKSampling]:
    """Return the class of an RL4CO model that trains for Max@K.

        model = with_maxk(AttentionModel)(env, num_samples=16, k=8, baseline="subloo")

    num_samples: n, the i.i.d. samples of each instance. `k`, `estimator`, `baseline`, the other
    options, the log and the validation are as in `MaxKPOMO`. measuring: what to measure during the
    training. All further arguments go to the model. SymNCO keeps its augmentations and its
    invariance loss; a group is the samples of one augmentation. A model outside of maxk-lab's
    catalogue encodes each sample separately, so that samples of MatNet are i.i.d., too.

    Raises `LabError` for a model with its own training step, and the errors of `MaxKPOMO`.
    """
    if not issubclass(model, SymNCO | POMO):
        for method in ("shared_step", "calculate_loss"):
            if getattr(model, method, None) is not getattr(REINFORCE, method):
                raise LabError(
                    f"{model.__name__} has its own {method}, which i.i.d. samples would replace: "
                    "with_maxk takes POMO, SymNCO and models with the step of REINFORCE"
                )
    return _made(model)  # type: ignore[arg-type]  # RL4CO has no types


@cache  # so that a model has one class
def _made(model: Any) -> type[MaxKSampling]:
    base = _WithMaxKSymNCO if issubclass(model, SymNCO) else _WithMaxK
    names = {"__doc__": base.__doc__, "__module__": model.__module__, "_base": model}
    return type(f"MaxK{model.__name__}", (base, model), names)


def _empty(model: Any) -> Any:
    made = with_maxk(model)
    return made.__new__(made)


class _WithMaxK(MaxKSampling):
    """A model of RL4CO with i.i.d. samples of every instance and Max@K weights."""

    measuring: Measuring | None = None
    _base: Any

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the class by its RL4CO class."""
        return _empty, (self._base,), self.__dict__

    def __init__(
        self,
        env: RL4COEnvBase,
        *args: Any,
        num_samples: int,
        baseline: str | None = None,
        measuring: Measuring | None = None,
        **kwargs: Any,
    ) -> None:
        settings, options = PomoSettings.split(kwargs, baseline)
        if settings.start != "iid":
            raise LabError(f"start must be iid, got {settings.start}")
        settings.check_size(num_samples)
        if measuring is not None:
            measuring.begin(num_samples, settings.k)
        super().__init__(env, *args, **options)
        if not hasattr(self.policy, "train_decode_type"):
            raise LabError(f"a {type(self.policy).__name__} cannot sample i.i.d.")
        self.measuring = measuring
        if measuring is not None and measuring.parameters is not None:
            matching(self.policy, measuring.parameters)  # a wrong name is an error before training
        # The weights contain the baseline already.
        self.baseline = get_reinforce_baseline("no")
        self.prepare(settings, num_samples)

    def calculate_loss(
        self,
        td: TensorDict,
        batch: TensorDict,
        policy_out: dict[str, Any],
        reward: Tensor | None = None,
        log_likelihood: Tensor | None = None,
    ) -> dict[str, Any]:
        """Add `loss` and the other outputs of `MaxKPOMO`, and log the measures of the groups."""
        out = super().calculate_loss(td, batch, policy_out, reward, log_likelihood)
        if reward is not None and self.measuring and self.measuring.due(self.global_step):
            begun = time.perf_counter()
            self.log_dict(
                self.measuring.metrics(
                    reward, begun=begun, log_probs=log_likelihood, model=self.policy
                )
            )
        return out


class _WithMaxKSymNCO(_WithMaxK):
    """SymNCO with groups of i.i.d. samples of every augmentation, and its invariance loss."""

    def _sample(self, td: TensorDict, n: int, phase: str, **options: Any) -> dict[str, Any]:
        if phase == "train":
            td = self.augment(td)
        return super()._sample(td, n, phase, **options)

    def calculate_loss(
        self,
        td: TensorDict,
        batch: TensorDict,
        policy_out: dict[str, Any],
        *sampled: Tensor | None,
        **named: Tensor | None,
    ) -> dict[str, Any]:
        """Add `loss` and the other outputs of `MaxKPOMO`; the loss includes the invariance loss."""
        out = super().calculate_loss(td, batch, policy_out, *sampled, **named)
        if self.num_augment > 1:
            # If every sample has an encoding, one of the encodings is enough.
            projected = out["proj_embeddings"][: len(td) * self.num_augment]
            out["loss_inv"] = invariance_loss(projected, self.num_augment)
            out["loss"] = out["loss"] + self.alpha * out["loss_inv"]
        return out
