"""The trainer: steps, evaluations and checkpoints. An interruption changes no number."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from maxk_lab.environments.environment import Environment
from maxk_lab.files import save_atomically
from maxk_lab.leaving import Leaving
from maxk_lab.seeds import derive_seed
from maxk_lab.training.evaluation import Decoded, max_curves, resolve_device
from maxk_lab.training.settings import Settings, Weighting, check
from maxk_lab.training.step import Step


@dataclass(frozen=True)
class HeldOutRewards:
    """The rewards [I, samples] of held-out samples after `step` steps, `seconds` of training.

    `ways` has the rewards of the other decodings, by set of instances, if they were measured.
    """

    step: int
    seconds: float
    rewards: Tensor
    ways: Mapping[str, Decoded] = field(default_factory=dict)

    @cached_property
    def curves(self) -> Tensor:
        """ρ̂(samples, K) of every instance, K = 1..samples: [I, samples]."""
        return max_curves(self.rewards)


@dataclass
class Trainer:
    """A policy in training: optimiser, anchor, number of steps, log and evaluations.

    `about`, plain JSON with the policy's origin, is in every written file; a checkpoint with
    another origin is refused. The data of a step follow from `stream`, `seed` and the step's
    number.
    """

    one_step: Step
    policy: nn.Module
    optimizer: torch.optim.Adam
    anchor: nn.Module | None
    seed: int
    about: Mapping[str, Any] = field(default_factory=dict)
    stream: str = "step"
    steps: int = 0
    seconds: float = 0.0
    log: dict[str, list[float]] = field(default_factory=dict)
    evaluations: list[HeldOutRewards] = field(default_factory=list)

    @classmethod
    def start(
        cls,
        one_step: Step,
        policy: nn.Module,
        *,
        seed: int,
        about: Mapping[str, Any] | None = None,
        stream: str = "step",
    ) -> Trainer:
        """Return a trainer before its first step, with the policy on the device of the settings.

        Raises `LabError` with all problems of the training.
        """
        settings = one_step.settings
        check(settings, one_step.weighting)
        _ = one_step.drawn_from  # raises if forced starts are impossible
        policy.to(resolve_device(settings.device, one_step.environment))
        optimizer = torch.optim.Adam(policy.parameters(), lr=settings.learning_rate)
        needs_anchor = settings.kl.place != "none"
        anchor = copy.deepcopy(policy).requires_grad_(False) if needs_anchor else None
        return cls(one_step, policy, optimizer, anchor, seed, about or {}, stream)

    def advance(self) -> None:
        """Take one step with the data of its number."""
        start = time.perf_counter()
        schedule = self.one_step.settings.k_schedule
        k = schedule.at(self.steps, self.one_step.weighting.k)
        seed = derive_seed(self.stream, self.seed, self.steps)
        try:
            one_step = self.one_step.at(k)
            metrics = one_step.take(self.policy, self.optimizer, self.anchor, seed=seed)
        except FloatingPointError as error:
            raise FloatingPointError(f"{error} at step {self.steps}") from error
        if schedule.kind != "fixed":
            metrics["k"] = one_step.weighting.method.k
        for name, value in metrics.items():
            self.log.setdefault(name, []).append(value)
        self.steps += 1
        self.seconds += time.perf_counter() - start

    def state(self) -> dict[str, Any]:
        """Return the state that `torch.save` must keep to resume with equal numbers."""
        return {
            **self.about,
            "policy": self.policy.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "steps": self.steps,
            "seconds": self.seconds,
            "log": self.log,
            "evaluations": [asdict(evaluation) for evaluation in self.evaluations],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Resume from a saved state. Raises `ValueError` for a state with another origin."""
        if {name: state[name] for name in self.about} != self.about:
            raise ValueError(f"the checkpoint must be about {dict(self.about)}")
        self.policy.load_state_dict(state["policy"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.steps, self.seconds = state["steps"], state["seconds"]
        self.log = {name: list(values) for name, values in state["log"].items()}
        self.evaluations = [HeldOutRewards(**evaluation) for evaluation in state["evaluations"]]

    @property
    def final_evaluations(self) -> list[HeldOutRewards]:
        """The evaluations that the final numbers are averaged over."""
        settings = self.one_step.settings
        steps = settings.evaluate.final_steps(settings.steps)
        return [evaluation for evaluation in self.evaluations if evaluation.step in steps]

    def save(self, path: Path) -> None:
        """Write a checkpoint."""
        save_atomically(path, partial(torch.save, self.state()))

    def keep_policy(self, path: Path) -> None:
        """Write the current policy."""
        state = {**self.about, "policy": self.policy.state_dict(), "step": self.steps}
        save_atomically(path, partial(torch.save, state))


def warm_up(
    environment: Environment,
    policy: nn.Module,
    *,
    steps: int,
    batch: int,
    n: int,
    learning_rate: float,
    clip: float,
    seed: int,
) -> Trainer:
    """Return the trainer of a gradient study's policy: REINFORCE with a leave-one-out mean.

    A step draws n trajectories on each of `batch` instances, and clips its gradient at `clip`.
    """
    settings = Settings(
        steps=steps,
        batch=batch * n,
        learning_rate=learning_rate,
        max_grad_norm=clip,
        device="cpu",
    )
    one_step = Step(environment, settings, Weighting("reinforce", "centred", n, 1))
    return Trainer.start(one_step, policy, seed=seed, stream="warmup")


def train(
    trainer: Trainer,
    *,
    evaluate: Callable[[nn.Module, int], tuple[Tensor, Mapping[str, Decoded]]] | None = None,
    checkpoint: Path | None = None,
    snapshot: Callable[[int], Path] | None = None,
    on_step: Callable[[int, int], None] = lambda step, steps: None,
    leaving: Callable[[], bool] = lambda: False,
) -> None:
    """Train to the last step, from the current step of `trainer`.

    `evaluate(policy, step)` returns the rewards of held-out samples, [I, samples], at step 0, every
    `evaluate.every` steps and at the end, and the rewards of other decodings by set of instances.
    Without `evaluate` there are no evaluations. The checkpoint is written every `checkpoint_every`
    steps and at the end. The policy is written to `snapshot(step)` at the steps of `snapshots`,
    before the checkpoint of the step. `on_step(step, steps)` is called after every step. Raises
    `Leaving`, after a checkpoint, if `leaving()` returns True.
    """
    settings = trainer.one_step.settings
    evaluated = settings.evaluate.after(settings.steps) if evaluate else ()
    while True:
        step = trainer.steps
        last = step >= settings.steps
        if evaluate and step in evaluated and step not in [e.step for e in trainer.evaluations]:
            rewards, ways = evaluate(trainer.policy, step)
            trainer.evaluations.append(HeldOutRewards(step, trainer.seconds, rewards, ways))
        if snapshot is not None and step in settings.snapshots:
            trainer.keep_policy(snapshot(step))
        if checkpoint is not None and (last or step % settings.checkpoint_every == 0):
            trainer.save(checkpoint)
        if last:
            return
        trainer.advance()
        on_step(trainer.steps, settings.steps)
        if leaving():
            if checkpoint is not None:
                trainer.save(checkpoint)
            raise Leaving
