"""TRL's RLOO and GRPO trainers with the advantages of any pair of the catalogue.

TRL has no hook for advantages. Both trainers compute them in `_generate_and_score_completions`, the
last place before groups are shuffled. The adapter replaces them there. Verified with
TRL 1.16.0, 1.13.0 and 1.10.0.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.dropout import _DropoutNd
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from maxk_lab.adapters.groups import Weighting, grouped_curve, warn_of_truncation
from maxk_lab.adapters.measuring import Measuring
from maxk_lab.errors import LabError, LabWarning


class _MaxKTrainer:
    """The two replaced steps of both TRL trainers, and the checks before them."""

    _default: type[Any]
    # Refused arguments: name, allowed values, and the effect of any other value.
    _refused: tuple[tuple[str, tuple[Any, ...], str], ...]
    _kl_in_reward = False

    def __init__(
        self,
        model: Any,
        reward_funcs: Any,
        args: Any = None,
        *more: Any,
        k: int | None = None,
        estimator: str = "maxk",
        baseline: str | None = None,
        measuring: Measuring | None = None,
        **options: Any,
    ) -> None:
        args = self._default() if args is None else args
        for name, allowed, does in self._refused:
            value = getattr(args, name, allowed[0])
            if value not in allowed:
                raise LabError(f"{name}={value!r} {does}: set it to {allowed[0]!r}")
        self._centred_by_trl = self._kl_in_reward and args.beta != 0
        by = "TRL's KL penalty in the reward (beta > 0)" if self._centred_by_trl else ""
        self.weighting = Weighting.chosen(
            k=k,
            estimator=estimator,
            baseline=baseline,
            n=args.num_generations,
            lengths=() if not args.mask_truncated_completions else None,
            centred_by=by,
        )
        if self._centred_by_trl:
            warnings.warn(
                f"beta={args.beta} puts the KL penalty into the reward: the objective is "
                "E[max of K (R − beta KL)] at a fixed penalty; with beta=0, or "
                "GRPO's KL in the loss, E[max of K R]",
                LabWarning,
                stacklevel=3,
            )
        more_options = args.generation_kwargs
        warn_of_truncation(vars(args) | (more_options if isinstance(more_options, dict) else {}))
        if measuring is not None:
            measuring.begin(args.num_generations, self.weighting.method.k)
            if by:
                raise LabError(f"measuring needs the level of the rewards, which {by} takes away")
        self.measuring = measuring
        self._by_function: Tensor | None = None
        self._dropout_checked = False
        super().__init__(model, reward_funcs, args, *more, **options)  # type: ignore[call-arg]
        if measuring is not None:
            trainer: Any = self
            measuring.sketch(trainer.model)  # a wrong name is an error before training

    def _calculate_rewards(self, *args: Any, **options: Any) -> Tensor:
        """Return TRL's rewards [N, functions] of all processes, and keep them."""
        rewards: Tensor = super()._calculate_rewards(*args, **options)  # type: ignore[misc]
        self._by_function = rewards
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        """Return TRL's batch with Max@K advantages, also in the log of completions."""
        batch = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
        trainer: Any = self
        training = trainer.model.training
        if training and not self._dropout_checked:
            self._dropout_checked = True
            _warn_of_dropout(trainer.model)
        n = trainer.num_generations if training else trainer.num_generations_eval
        local = batch["advantages"]
        scored, rewards = self._own_rewards(), self._rewards(trainer.accelerator.gather(local), n)
        groups = torch.arange(len(rewards)) // n
        lengths = trainer.accelerator.gather(batch["completion_mask"].sum(1))
        advantages = self.weighting.advantages(
            rewards, groups, lengths=lengths, small_groups="zero"
        )
        begin = trainer.accelerator.process_index * len(local)
        batch["advantages"] = advantages[begin : begin + len(local)].to(local)
        numbers = self._log(advantages, scored, groups)
        if training and self.measuring and self.measuring.due(trainer.state.global_step):
            chunks = None if "pixel_values" in batch else self._log_probs(batch)
            numbers |= self.measuring.measure_trainer(
                trainer.accelerator, trainer.model, rewards.view(-1, n), chunks
            )
        for name, value in numbers.items():
            trainer._metrics["train" if training else "eval"][name].append(value)
        return batch

    def _own_rewards(self) -> Tensor:
        """Return the rewards [N] of all processes without KL, NaN if every function gave None."""
        trainer: Any = self
        by_function = self._by_function
        assert by_function is not None
        rewards = (by_function * trainer.reward_weights.to(by_function)).nansum(1)
        limits = getattr(trainer, "reward_clip_range", None)
        if limits:
            rewards = rewards.clamp(*limits)
        missing: Tensor = by_function.isnan().all(1)
        return torch.where(missing, torch.nan, rewards)

    def _rewards(self, advantages: Tensor, n: int) -> Tensor:
        """Return the trained rewards [N], NaN for a missing reward.

        With a KL penalty TRL has only its advantages, R_i minus the mean of the m − 1 other rewards
        of the group. This is m/(m − 1) times R_i minus the mean of the group.
        """
        rewards = self._own_rewards()
        if not self._centred_by_trl:
            return rewards
        missing = rewards.isnan()
        scored = (~missing).view(-1, n).sum(1, keepdim=True).double()
        rewards = (advantages.view(-1, n).double() * (scored - 1) / scored).flatten()
        return rewards.masked_fill(missing, torch.nan)

    def _log(self, advantages: Tensor, rewards: Tensor, groups: Tensor) -> dict[str, float]:
        """Write advantages and the unbiased Max@K of groups into TRL's log; return its numbers."""
        trainer: Any = self
        logged = trainer._logs["advantages"]
        for _ in range(min(len(advantages), len(logged))):
            logged.pop()
        logged.extend(advantages.tolist())
        # TRL makes one table of all batches, so each needs the same columns.
        ks = self.weighting.curve_ks(max(trainer.num_generations, trainer.num_generations_eval))
        curve = grouped_curve(rewards, groups, ks)
        for k, values in zip(ks, curve.T, strict=True):
            trainer._logs["extra"][f"max@{k}"].extend(values[groups].tolist())
        return self.weighting.metrics(rewards, groups, ks)

    def _log_probs(self, batch: Any) -> Iterator[Tensor]:
        """Yield the log-probabilities of completions with a graph, a batch of the device each."""
        trainer: Any = self
        completions, mask = batch["completion_ids"], batch["completion_mask"]
        tokens = torch.cat([batch["prompt_ids"], completions], 1)
        attention = torch.cat([batch["prompt_mask"], mask], 1)
        mask = mask * batch.get("tool_mask", 1)
        for at in torch.split(torch.arange(len(tokens)), trainer.args.per_device_train_batch_size):
            log_probs = trainer._get_per_token_logps_and_entropies(
                trainer.accelerator.unwrap_model(trainer.model),
                tokens[at],
                attention[at],
                completions.shape[1],
            )[0]
            yield (log_probs * mask[at]).sum(1)


def _warn_of_dropout(model: torch.nn.Module) -> None:
    """Warn of modules of a model in training mode that drop values."""
    for name, module in model.named_modules():
        # Many attention layers hold their rate as a number.
        share = (
            module.p if isinstance(module, _DropoutNd) else vars(module).get("attention_dropout")
        )
        if module.training and isinstance(share, float) and share > 0:
            warnings.warn(
                f"{name} drops {share:g} of its inputs while training: two passes over a "
                "completion differ, so ratios are not 1 at the first step and TRL clips them; set "
                "disable_dropout=True in the configuration",
                LabWarning,
                stacklevel=4,
            )
            return


class MaxKRLOOTrainer(_MaxKTrainer, RLOOTrainer):  # type: ignore[misc]
    """`RLOOTrainer` for the best of `k`: use `MaxKRLOOTrainer(…, k=8)` instead.

    The loss is per sequence, with clipping if a batch takes several steps. `estimator` and
    `baseline` are names of the catalogue that need only rewards, or lengths; `reinforce` with
    `centred` is TRL's own step. measuring: what to measure during the training. The logs have
    `max@K`, the unbiased estimates, and the Max@K advantages.

    Raises `LabError` for K too large for `num_generations` and for normalised advantages. With
    `beta` > 0 the penalty is inside the maximum: it warns, and raises `LabError` for a row that is
    not shift-invariant. It also warns of dropout and of truncated samples (`top_p` < 1).
    """

    _default = RLOOConfig
    _kl_in_reward = True
    _refused = (
        ("normalize_advantages", (False,), "divides the advantages by their deviation afterwards"),
    )


class MaxKGRPOTrainer(_MaxKTrainer, GRPOTrainer):  # type: ignore[misc]
    """`GRPOTrainer` for the best of `k`: use `MaxKGRPOTrainer(…, k=8)` instead.

    Like `MaxKRLOOTrainer`, with GRPO's losses and its KL outside the reward. `scale_rewards="none"`
    is required; estimator `grpo` scales. The loss `luspo` with token ratios has the gradient of
    sequences; docs/adapters.md has the factors of the other losses.
    """

    _default = GRPOConfig
    _refused = (
        ("scale_rewards", ("none", False), "divides rewards by their deviation"),
        (
            "multi_objective_aggregation",
            ("sum_then_normalize",),
            "divides the rewards of every function by their deviation",
        ),
    )
