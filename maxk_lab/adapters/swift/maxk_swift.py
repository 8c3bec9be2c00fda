"""ms-swift: the file for `--external_plugins` after which `--rlhf_type grpo` trains for Max@K.

    MAXK_K=8 swift rlhf --rlhf_type grpo --scale_rewards none --num_generations 16 \\
        --external_plugins "$(python -m maxk_lab.adapters.swift)" ...

MAXK_K, MAXK_ESTIMATOR and MAXK_BASELINE are `k`, `estimator` and `baseline` of
`maxk_lab.advantages`; MAXK_MEASURE_EVERY and MAXK_MEASURE_PARAMETERS are `every` and `parameters`
of `Measuring`. The command refuses arguments that it does not know.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from accelerate.utils import gather_object
from swift.rlhf_trainers import GRPOTrainer
from swift.trainers import TrainerFactory
from torch import Tensor

from maxk_lab.adapters.groups import Weighting, warn_of_truncation
from maxk_lab.errors import LabError, LabWarning


class MaxKGRPOTrainer(GRPOTrainer):  # type: ignore[misc]  # ms-swift has no types
    """ms-swift's GRPO with Max@K advantages, configured by environment variables.

    Groups with too few rewards for the pair have advantages of 0. `max@1`, `max@2`, … in the logs
    are means of unbiased estimates of J_K. Raises `LabError` at construction for invalid settings.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, value in {"scale_rewards": "none", "advantage_estimator": "grpo"}.items():
            if getattr(self, name) != value:
                raise LabError(
                    f"--{name} must be {value}, because Max@K advantages replace ms-swift's; "
                    f"got {getattr(self, name)}"
                )
        if self.loss_type == "real":
            raise LabError("--loss_type real uses only the sign of an advantage")
        k, inside = os.environ.get("MAXK_K"), self.kl_in_reward and self.beta != 0
        if k is not None and not k.isdecimal():
            raise LabError(f"MAXK_K must be a whole number, got {k}")
        self.weighting = Weighting.chosen(
            k=None if k is None else int(k),
            estimator=os.environ.get("MAXK_ESTIMATOR", "maxk"),
            baseline=os.environ.get("MAXK_BASELINE"),
            n=self.num_generations,
            centred_by="--kl_in_reward" if inside else "",
        )
        if self.dynamic_sample and self.weighting.keeps_equal_groups(self.num_generations):
            raise LabError(
                "--dynamic_sample true drops groups of equal rewards, but "
                f"{self.weighting.method.baseline.name} has weights other than 0 there: take "
                "centred or subloo, or --dynamic_sample false"
            )
        warn_of_truncation(vars(self.args))
        self.measuring = self._measuring()
        if inside:
            warnings.warn(
                "--kl_in_reward puts the KL inside the maximum: the objective is "
                "E[max(R - beta KL)] at a fixed penalty; without it the KL is a term of "
                "the loss",
                LabWarning,
                stacklevel=2,
            )

    def _measuring(self) -> Any:
        """Return the measurements of the environment variables; None without any."""
        every = os.environ.get("MAXK_MEASURE_EVERY")
        if every is None:
            return None
        # maxk-lab may be installed without the packages of measurements.
        from maxk_lab.adapters.measuring import Measuring

        if not every.isdecimal():
            raise LabError(f"MAXK_MEASURE_EVERY must be a whole number, got {every}")
        if self.dynamic_num_samples or self.template.padding_free or self.kl_in_reward:
            raise LabError(
                "MAXK_MEASURE_EVERY needs one sample per request, without --padding_free and "
                "--kl_in_reward"
            )
        chosen = os.environ.get("MAXK_MEASURE_PARAMETERS")
        measuring = Measuring(every=int(every), parameters=chosen)
        measuring.begin(self.num_generations, self.weighting.method.k)
        measuring.sketch(self.model)
        return measuring

    def _log_probs(self, batches: Any) -> Iterator[Tensor]:
        """Yield the log-probabilities of this process's samples with a graph, by batch."""
        model = self.accelerator.unwrap_model(self.model)
        for inputs in batches:
            batch, texts = inputs["grpo_batch"], inputs["model_inputs"]
            tokens = self._get_per_token_logps_and_entropies(model, texts, batch)[0]
            yield (tokens * batch.completion_mask).sum(1)

    def _compute_advantages(
        self, samples: Any, rewards_per_func: Tensor, batch_encoded_inputs: Any
    ) -> Tensor:
        """Return the advantages [N] of the samples of all processes, after ms-swift's logging."""
        centred = super()._compute_advantages(samples, rewards_per_func, batch_encoded_inputs)
        missing = rewards_per_func.isnan().all(1)
        rewards = (rewards_per_func * self.reward_weights).nansum(1)
        rewards = torch.where(missing, torch.nan, rewards)
        trained = rewards
        if self.kl_in_reward and self.beta != 0:  # rewards with their KL exist only centred
            trained = torch.where(missing, torch.nan, centred)
        mode = "train" if self.model.training else "eval"
        if self.dynamic_num_samples:  # samples of one request count once
            prompts = gather_object([sample.prompt_id for sample in samples])
            requests = gather_object([sample.request_id for sample in samples])
        else:
            n = self.num_generations if mode == "train" else self.num_generations_eval
            prompts = [i // n for i in range(len(rewards))]
            requests = list(range(len(rewards)))
        last = {request: row for row, request in enumerate(requests)}
        rows, groups = list(last.values()), [prompts[row] for row in last.values()]
        advantages = self.weighting.advantages(trained[rows], groups, small_groups="zero")
        places = {request: place for place, request in enumerate(last)}
        ks = self.weighting.curve_ks(max(Counter(groups).values()))
        numbers = self.weighting.metrics(rewards[rows], groups, ks)
        equal = mode == "train" and not self.dynamic_num_samples  # rollouts may set it
        if equal and self.measuring and self.measuring.due(self.state.global_step):
            by_group = rewards.view(-1, self.num_generations)
            chunks = self._log_probs(batch_encoded_inputs)
            numbers |= self.measuring.measure_trainer(
                self.accelerator, self.model, by_group, chunks
            )
        for name, value in numbers.items():
            self._metrics[mode][name].append(value)
        spread: Tensor = advantages[[places[request] for request in requests]]
        return spread


# ms-swift imports the file under a name made from its path.
TrainerFactory.TRAINER_MAPPING["grpo"] = f"{__name__}.MaxKGRPOTrainer"
