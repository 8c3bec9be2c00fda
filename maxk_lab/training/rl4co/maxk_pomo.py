"""RL4CO's POMO with Max@K weights.

The same Lightning module has another loss, truly i.i.d. samples and a Max@K validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from rl4co.envs import RL4COEnvBase
from rl4co.models.zoo.pomo import POMO
from rl4co.utils.ops import unbatchify
from rl4co.utils.pylogger import get_pylogger
from tensordict import TensorDict
from torch import Tensor, nn

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError
from maxk_lab.estimators import maxk_curve
from maxk_lab.fields import Model, NotNegative
from maxk_lab.training.rl4co.checkpoints import PlainCheckpoints
from maxk_lab.training.rl4co.rollouts import decision_counts, iid_samples
from maxk_lab.training.rl4co.weighting import PomoWeighting, baseline_of
from maxk_lab.training.settings import Start

log = get_pylogger(__name__)

_PHASES = ("train", "val", "test")


class _Step(Model):
    """The settings of a step that POMO has no place for."""

    start: Start
    entropy_bonus: NotNegative


class MaxKPOMO(PlainCheckpoints, POMO):  # type: ignore[misc]  # RL4CO has no types
    """POMO whose loss is −mean over instances of Σ_i w_i log π(τ_i).

    The weights w are those of any pair of the catalogue. A script for POMO changes its import,
    `from maxk_lab.training import MaxKPOMO as POMO`. Besides POMO's arguments there are:

        k                     the K of Max@K: what training is for and what validation reports
        num_samples           n, the samples per instance; by default num_starts, or as many as
                              POMO takes starts
        start                 iid (default): n samples of the policy, its own first action
                              included. multistart: POMO's forced first actions. That is another
                              objective: its samples are not identically distributed, the first
                              decision is not trained, and no weighting is unbiased for J_K
        estimator, baseline   names of the catalogue, `maxk` and `centred` by default. `reinforce`
                              with `group_mean` is POMO's own loss; RL4CO's word for this baseline,
                              `shared`, is understood
        variance_reduction    none, sample_loo or subloo: the baseline under its older name
        k_schedule            {kind: fixed | linear | step, first, until}: the K of every
                              optimisation step (`training.schedule`)
        entropy_bonus         times the mean over trajectories of the entropies summed over their
                              steps, added to what is maximised
        weight_normalization, min_gap_scale, stable_sort   as in `maxk_lab.estimators.advantages`
        val_samples           how many i.i.d. samples of each instance validation and test draw

    `reward_scale` is RL4CO's and scales the advantages n w. Validation and test log `max@1`,
    `max@2`, `max@4`, … and `max@k`: the unbiased estimate from i.i.d. samples, whatever `start` is.
    `val/reward` is that at k, so that existing monitors choose by the objective; `val/max_reward`
    is the best of val_samples. No augmentation is applied.

    Raises `LabError` for settings that are wrong by themselves and `ValueError` where n samples are
    too few.
    """

    train_metrics: list[str]
    val_metrics: list[str]
    test_metrics: list[str]

    def __init__(
        self,
        env: RL4COEnvBase,
        policy: nn.Module | None = None,
        policy_kwargs: Mapping[str, Any] | None = None,
        baseline: str | None = None,
        num_augment: int = 1,
        *,
        num_starts: int | None = None,
        k: int = 8,
        num_samples: int | None = None,
        start: str = "iid",
        estimator: str = "maxk",
        variance_reduction: str | None = None,
        k_schedule: Mapping[str, Any] | None = None,
        entropy_bonus: float = 0.0,
        weight_normalization: str = "none",
        min_gap_scale: float | None = None,
        stable_sort: bool = True,
        val_samples: int = 64,
        **kwargs: Any,
    ) -> None:
        weighting = PomoWeighting.from_mapping(
            {
                "estimator": estimator,
                "baseline": baseline_of(estimator, baseline, variance_reduction),
                "k": k,
                "k_schedule": dict(k_schedule or {}),
                "weight_normalization": weight_normalization,
                "min_gap_scale": min_gap_scale,
                "stable_sort": stable_sort,
            }
        )
        weighting.check()
        step = _Step.from_mapping({"start": start, "entropy_bonus": entropy_bonus})
        if val_samples < k:
            raise LabError(f"val_samples must be at least {k}, got {val_samples}")
        if None not in (num_samples, num_starts) and num_samples != num_starts:
            raise LabError(f"give num_samples or num_starts, got {num_samples} and {num_starts}")
        n = num_starts if num_samples is None else num_samples
        if n is not None:
            weighting.check_size(n)
        super().__init__(
            env, policy, dict(policy_kwargs or {}), num_augment=num_augment, num_starts=n, **kwargs
        )
        self.weighting = weighting
        self.start = step.start
        self.entropy_bonus = step.entropy_bonus
        self.val_samples = val_samples
        rows = {row.name: row for row in ENVIRONMENTS}
        # An encoding per sample is right in every environment, one for all samples only where the
        # decoder can take it.
        self.shared_encoding = env.name in rows and "shared_encoding" in rows[env.name].supports
        self.train_metrics = [*self.train_metrics, "rho_hat", "rho_hat_multistart", "k"]
        self.val_metrics = [*self.val_metrics, *self._curve_names()]
        self.test_metrics = [*self.test_metrics, *self._curve_names()]
        if start == "iid":
            for phase in _PHASES:  # POMO has just forced the first action of them all
                kind = f"{phase}_decode_type"
                setattr(self.policy, kind, getattr(self.policy, kind).removeprefix("multistart_"))
        self._tell(num_augment)

    def _tell(self, num_augment: int) -> None:
        """Log all that a user of POMO may not expect."""
        if self.start == "multistart":
            log.warning(f"start multistart trains for {self.target}")
        if self.left_out:
            names = ", ".join(sorted(set(self.left_out)))
            log.warning(
                f"no plain values, so not kept in checkpoints: {names}; "
                "give them again when loading"
            )
        if num_augment > 1:
            log.warning(
                f"num_augment {num_augment} is not applied: "
                "the estimate of Max@K is of the policy's own samples"
            )

    @property
    def target(self) -> str:
        """The aim of a training step, in words."""
        aim = f"{self.weighting.estimator} at K = {self.weighting.k}"
        if self.start == "iid":
            return f"{aim} of i.i.d. samples"
        return (
            f"{aim} of forced first actions, another objective: "
            "the samples are not i.i.d. and no estimate is unbiased"
        )

    @property
    def unbiased(self) -> bool:
        """Whether a step follows an unbiased estimate of its objective's gradient.

        RL4CO's gradient clipping is left aside.
        """
        scaled = isinstance(self.advantage_scaler.scale, str)
        return (
            self.start == "iid"
            and self.weighting.unbiased
            and not scaled
            and self.entropy_bonus == 0
        )

    def calculate_loss(
        self,
        td: TensorDict,
        batch: TensorDict,
        policy_out: dict[str, Any],
        reward: Tensor | None = None,
        log_likelihood: Tensor | None = None,
    ) -> dict[str, Any]:
        """Add `loss`, `rho_hat` and `k` to `policy_out`, and return it.

        With forced starts there is `rho_hat_multistart`, no estimate of ρ, in its place. reward,
        log_likelihood: [batch, n], unbatchified, higher is better; by default those of
        `policy_out`. The weights carry no gradient. Where the settings need them, `policy_out` has
        the `length` [batch, n] and the `entropy` of every trajectory. Raises `ValueError` for other
        shapes, and where the pair cannot weight n samples.
        """
        reward = policy_out["reward"] if reward is None else reward
        log_likelihood = policy_out["log_likelihood"] if log_likelihood is None else log_likelihood
        if reward.dim() != 2 or reward.shape != log_likelihood.shape:
            raise ValueError(
                "reward and log_likelihood must be unbatchified, both [batch, n], got shapes "
                f"{list(reward.shape)} and {list(log_likelihood.shape)}"
            )
        k, n = self.weighting.k_at(self.global_step), reward.shape[1]
        with torch.no_grad():
            reward = reward.detach()
            lengths = {"length": policy_out["length"]} if "length" in policy_out else {}
            weights = self.weighting.weights(reward, k, lengths)
            if self.advantage_scaler.scale is not None:
                weights = self.advantage_scaler(n * weights) / n
            value = self.weighting.value(reward, k).mean()
        loss = -(weights.detach() * log_likelihood).sum(-1).mean()
        policy_out["reinforce_loss"] = loss
        if self.entropy_bonus > 0:
            loss = loss - self.entropy_bonus * policy_out["entropy"].mean()
        rho_hat = "rho_hat" if self.start == "iid" else "rho_hat_multistart"
        policy_out.update({"loss": loss, rho_hat: value, "k": float(k)})
        return policy_out

    def shared_step(
        self, batch: Any, batch_idx: int, phase: str, dataloader_idx: int | None = None
    ) -> dict[str, Any]:
        """Take one batch of training, validation or test, and return its loss and metrics.

        They are logged as RL4CO does; the loss is None but in training.
        """
        td = self.env.reset(batch)
        out = self._training_rollouts(td, batch) if phase == "train" else self._estimate(td, phase)
        metrics = self.log_metrics(out, phase, dataloader_idx=dataloader_idx)
        return {"loss": out.get("loss"), **metrics}

    def _training_rollouts(self, td: TensorDict, batch: Any) -> dict[str, Any]:
        n = self.env.get_num_starts(td) if self.num_starts is None else self.num_starts
        self.weighting.check_size(n)
        initial = td.clone() if self.weighting.needs_lengths else None
        entropy = {"return_entropy": True} if self.entropy_bonus > 0 else {}
        if self.start == "iid":
            out = self._sample(td, n, "train", **entropy)
        else:
            out = self.policy(td, self.env, phase="train", num_starts=n, **entropy)
        if initial is not None:
            out["length"] = unbatchify(decision_counts(self.env, initial, out["actions"], n), n)
        reward, log_likelihood = unbatchify(out["reward"], n), unbatchify(out["log_likelihood"], n)
        self.calculate_loss(td, batch, out, reward, log_likelihood)
        out["max_reward"] = reward.amax(-1)
        return out

    def _estimate(self, td: TensorDict, phase: str) -> dict[str, Any]:
        """Return unbiased Max@K estimates of every instance, from val_samples i.i.d. samples."""
        out = self._sample(td, self.val_samples, phase)
        curve = maxk_curve(unbatchify(out["reward"], self.val_samples))
        of = {f"max@{k}": curve[:, k - 1] for k in self._curve_ks()}
        return {"reward": of[f"max@{self.weighting.k}"], "max_reward": curve[:, -1], **of}

    def _curve_ks(self) -> list[int]:
        return sorted({*(2**i for i in range(self.val_samples.bit_length())), self.weighting.k})

    def _curve_names(self) -> list[str]:
        return [f"max@{k}" for k in self._curve_ks()]

    def _sample(self, td: TensorDict, n: int, phase: str, **options: Any) -> dict[str, Any]:
        shared = self.shared_encoding
        return iid_samples(self.policy, self.env, td, n, phase, shared_encoding=shared, **options)
