"""The trainer: steps, evaluations and checkpoints, such that an interrupted training goes on to the same numbers."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from maxk_lab.seeds import derive_seed
from maxk_lab.training.settings import check
from maxk_lab.training.step import Step


@dataclass(frozen=True)
class Evaluation:
    """The Max@K curves after `step` steps, which had taken `seconds` of training."""

    step: int
    seconds: float
    curves: Tensor


@dataclass
class Trainer:
    """A policy under training: its optimiser and reference, the steps taken, what they logged and the evaluations."""

    method: Step
    policy: nn.Module
    optimizer: torch.optim.Adam
    reference: nn.Module | None
    seed: int
    steps: int = 0
    seconds: float = 0.0
    log: dict[str, list[float]] = field(default_factory=dict)
    evaluations: list[Evaluation] = field(default_factory=list)

    @classmethod
    def start(cls, method: Step, policy: nn.Module, *, seed: int) -> Trainer:
        """No step taken. Raises `LabError` with everything that forbids training with these settings."""
        check(method.settings, method.weighting)
        optimizer = torch.optim.Adam(policy.parameters(), lr=method.settings.learning_rate)
        needs_reference = method.settings.kl.place != "none"
        reference = copy.deepcopy(policy).requires_grad_(False) if needs_reference else None
        return cls(method, policy, optimizer, reference, seed)

    def advance(self) -> None:
        """One step, with the data of its number; a moving reference is renewed before it."""
        start = time.perf_counter()
        kl = self.method.settings.kl
        if self.reference is not None and kl.reference == "moving" and self.steps % kl.reference_every == 0:
            self.reference.load_state_dict(self.policy.state_dict())
        try:
            metrics = self.method.take(
                self.policy, self.optimizer, self.reference, seed=derive_seed("step", self.seed, self.steps)
            )
        except FloatingPointError as error:
            raise FloatingPointError(f"{error} at step {self.steps}") from error
        for name, value in metrics.items():
            self.log.setdefault(name, []).append(value)
        self.steps += 1
        self.seconds += time.perf_counter() - start

    def state(self) -> dict[str, Any]:
        """What `torch.save` needs to go on from here to the same numbers."""
        return {
            "policy": self.policy.state_dict(),
            "reference": None if self.reference is None else self.reference.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "steps": self.steps,
            "seconds": self.seconds,
            "log": self.log,
            "evaluations": [vars(evaluation) for evaluation in self.evaluations],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self.policy.load_state_dict(state["policy"])
        if self.reference is not None:
            self.reference.load_state_dict(state["reference"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.steps, self.seconds = state["steps"], state["seconds"]
        self.log = {name: list(values) for name, values in state["log"].items()}
        self.evaluations = [Evaluation(**evaluation) for evaluation in state["evaluations"]]

    def save(self, path: Path) -> None:
        """Write a checkpoint whole or not at all; it needs no fsync, for without it the training starts again."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        torch.save(self.state(), partial)
        partial.replace(path)


def train(
    trainer: Trainer,
    *,
    evaluate: Callable[[nn.Module, int], Tensor],
    checkpoint: Path | None = None,
    on_step: Callable[[int, int], None] = lambda step, steps: None,
) -> None:
    """Train to the last step, going on from where `trainer` is.

    `evaluate(policy, step)` gives the curves at step 0, every `evaluate.every` steps and at the end. The checkpoint is written
    every `checkpoint_every` steps and at the end, `on_step(step, steps)` called after every step.
    """
    settings = trainer.method.settings
    while True:
        last = trainer.steps >= settings.steps
        due = last or trainer.steps % settings.evaluate.every == 0
        if due and trainer.steps not in [evaluation.step for evaluation in trainer.evaluations]:
            curves = evaluate(trainer.policy, trainer.steps)
            trainer.evaluations.append(Evaluation(trainer.steps, trainer.seconds, curves))
        if checkpoint is not None and (last or trainer.steps % settings.checkpoint_every == 0):
            trainer.save(checkpoint)
        if last:
            return
        trainer.advance()
        on_step(trainer.steps, settings.steps)
