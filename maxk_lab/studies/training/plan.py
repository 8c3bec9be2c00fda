"""The units of a training study: one policy each, so that workers train them side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.studies.training.grid import meaning_of, training_points
from maxk_lab.studies.training.schema import Study
from maxk_lab.sweeps.plan.cells import Unit
from maxk_lab.sweeps.plan.grid import Skipped
from maxk_lab.sweeps.plan.needs import Need
from maxk_lab.sweeps.spec.variation import Variant
from maxk_lab.training.settings import AUGMENTATIONS

# Cost of one trajectory step in training (large batches) and in evaluating (no gradient).
TRAINING_COST = 0.045
EVALUATION_COST = 0.04
# Cost of a step of the optimiser, however small its batch.
OPTIMIZER_COST = 100.0


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingUnit(Unit):
    """One policy to train, which is one cell."""

    study: ClassVar[str] = "training"
    told: ClassVar[tuple[str, ...]] = ("environment", "policy", "training", "seed")
    training: Mapping[str, Any]

    def meaning(self) -> dict[str, Any]:
        """Return the part of the unit that tells its cell from others."""
        return super().meaning() | {"training": meaning_of(self.training)}

    def work(self) -> dict[str, float]:
        """Return the work of the steps and of the trajectories, each weighted with its cost.

        Multistart decodes one trajectory from each of about as many first actions as there are
        decisions.
        """
        settings, decisions = self.training, self.decisions
        evaluate = settings["evaluate"]
        times = 1 + math.ceil(settings["steps"] / evaluate["every"])
        extra = {
            "greedy": 1,
            "augmentation": AUGMENTATIONS,
            "multistart": decisions + evaluate["samples"],
            "multistart_augmentation": decisions * AUGMENTATIONS,
        }
        extras = sum(extra[name] for name in evaluate.get("extras", ()))
        tempered = len(evaluate.get("temperatures", (1.0,))) * evaluate["samples"]
        # Held-out samples at temperature 1 are there anyway.
        ending = evaluate["instances"] * (extras + tempered - evaluate["samples"])
        ending += evaluate.get("tuning", 0) * (extras + tempered)
        evaluated = evaluate["instances"] * times * evaluate["samples"]
        evaluated += evaluate.get("last", 1) * ending
        steps = settings["steps"] * settings["inner_epochs"]
        per_step = OPTIMIZER_COST + TRAINING_COST * decisions * settings["batch"]
        return {"training": per_step * steps + EVALUATION_COST * decisions * evaluated}

    @property
    def label(self) -> str:
        """A few words for people, e.g. `toy_llm, maxk/centred n=16 k=8, seed 1`."""
        points = ", ".join(f"{c.estimator}/{c.baseline} n={c.n} k={c.k}" for c in self.cells)
        return f"{self.place}, {points}, seed {self.seed}"

    def memory(self) -> Sequence[Need]:
        """Return a step with its backward pass, and the rollouts of an evaluation."""
        settings, evaluate, each = self.training, self.training["evaluate"], self.footprint
        sizes = self.sizes
        # Gradients, and two moments of each, besides the parameters themselves.
        step = settings["batch"] * each.taught + 4 * each.policy
        found = [
            Need(
                step,
                f"a step of {settings['batch']:,} trajectories with its backward pass",
                {"training.batch": settings["batch"], **sizes},
            )
        ]
        tempered = max(evaluate["samples"], 1) * (each.sampled + 3 * 8)
        for name in ("instances", "tuning"):
            count = evaluate.get(name, 0)
            # Instances of the user's own may be fewer.
            if count and not (name == "instances" and evaluate.get("data")):
                found.append(
                    Need(
                        count * (each.instance + tempered),
                        f"the evaluation of {count:,} × {evaluate['samples']:,} trajectories",
                        {
                            f"training.evaluate.{name}": count,
                            "training.evaluate.samples": evaluate["samples"],
                            **sizes,
                        },
                    )
                )
        return found

    def lengths(self) -> Mapping[str, float]:
        """Return the settings that its work grows with."""
        evaluate = self.training["evaluate"]
        return {
            "training.steps": self.training["steps"] / 100,
            "training.batch": self.training["batch"],
            "training.inner_epochs": self.training["inner_epochs"],
            "training.evaluate.instances": evaluate["instances"],
            "training.evaluate.samples": evaluate["samples"],
            **self.sizes,
        }

    @property
    def on_device(self) -> bool:
        """Whether it trains on a CUDA device where there is one."""
        places = "cuda" in ENVIRONMENTS.get(self.environment["name"]).supports
        return places and bool(self.training.get("device", "auto") != "cpu")

    def check_machine(self) -> None:
        """Raise `LabError` where the training asks for a CUDA device and there is none.

        Imports torch where it does.
        """
        super().check_machine()
        if self.training.get("device") == "cuda":
            from maxk_lab.training.evaluation import resolve_device

            resolve_device("cuda")


def left_out(study: Study, environment: str) -> list[Skipped]:
    """Return the points of the grid that are not measured in this environment."""
    return list(training_points(study, environment)[1])


def units(study: Study, seeds: Sequence[int], found: Sequence[Variant]) -> Iterator[TrainingUnit]:
    """Yield all settings and points of a seed before the next seed.

    An unfinished sweep then has whole seeds to compare.
    """
    for seed, variant in product(seeds, found):
        for training in training_points(study, variant.environment["name"])[0]:
            unit = TrainingUnit(
                environment=variant.environment,
                policy=variant.policy,
                seed=seed,
                training=training.settings,
                setting={**variant.setting, **training.setting},
            )
            yield unit.with_points([training.point])
