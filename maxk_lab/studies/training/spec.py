"""The row of the training study, and the conditions of its block in a sweep file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from maxk_lab.environments.catalogue import (
    capability_refusal,
    data_refusal,
    instances_in,
    optimum_refusal,
)
from maxk_lab.errors import LabError
from maxk_lab.planning.identity import environment_key
from maxk_lab.seeds import derive_seed
from maxk_lab.studies.training.grid import Study, TrainingConditions, TrainingGrid, conditions
from maxk_lab.studies.training.grid import left_out as left_out
from maxk_lab.studies.training.grid import units as units
from maxk_lab.sweep_file.grids import first_problems, grid_problems
from maxk_lab.sweep_file.studies import Problem
from maxk_lab.sweep_file.vary import Variant
from maxk_lab.training.settings import (
    EvaluationSettings,
    batch_problems,
    evaluation_problems,
    step_problems,
)

_Path = tuple[int | str, ...]
_EVALUATE: _Path = ("training", "evaluate")


def check(study: Study, variants: Sequence[Variant]) -> Iterator[Problem]:
    """Yield grids that cannot run, and settings that contradict each other or the environment."""

    def conditions_of(entry: TrainingGrid, environment: str) -> TrainingConditions:
        return conditions(study.with_entry(entry), environment)

    yield from grid_problems("training", study.grid, variants, conditions_of)
    entries = [_Entry(grid, study.with_entry(grid), i) for i, grid in enumerate(study.grid)]
    yield from _problems(study, entries)
    yield from first_problems(variants, partial(_problems_in, study, entries))


@dataclass(frozen=True)
class _Entry:
    """An entry of the grid with its number, and the study with the settings of its points."""

    grid: TrainingGrid
    study: Study
    number: int

    def place(self, *setting: str) -> _Path:
        """Return the location of a setting, or of its block: in the entry, or in the study."""
        inside = setting[0] in self.grid.overrides.settings()
        return (
            ("training", "grid", self.number, "with", *setting)
            if inside
            else ("training", *setting)
        )


def _problems(study: Study, entries: Sequence[_Entry]) -> Iterator[Problem]:
    """Yield settings that contradict each other, or that do not fit the training study's grid."""
    # A batch must suit all entries with this setting.
    batches: dict[_Path, list[_Entry]] = {}
    for entry in entries:
        batches.setdefault(entry.place("batch"), []).append(entry)
    for path, sharing in batches.items():
        sizes = [n for entry in sharing for n in entry.grid.n]
        yield from ((path, message) for _, message in batch_problems(sharing[0].study.batch, sizes))
    for entry in entries:
        axes = entry.grid.estimator, entry.grid.baseline, min(entry.grid.n)
        for setting, message in step_problems(entry.study, *axes):
            yield entry.place(*setting), message
        yield from _unread_schedule(entry)
    points = [
        point for entry in entries for point in conditions(entry.study, None).points(entry.grid)[0]
    ]
    largest = max((point["k"] for point in points), default=1)
    fewest = min(entry.study.steps for entry in entries)
    for setting, message in evaluation_problems(study, largest, fewest):
        yield ("training", *setting), message


def _unread_schedule(entry: _Entry) -> Iterator[Problem]:
    """Yield ends of a schedule that are unused because K is fixed."""
    schedule, settings = entry.study.k_schedule, entry.grid.overrides.settings()
    block = settings.get("k_schedule", schedule.model_dump())
    for name in ("first", "until") if schedule.kind == "fixed" else ():
        default = type(schedule).model_fields[name].default
        if block.get(name, default) != default:
            message = "is read by the kind step only, got fixed"
            yield entry.place("k_schedule", name), message


def _problems_in(study: Study, entries: Sequence[_Entry], variant: Variant) -> Iterator[Problem]:
    """Yield settings that the environment or its policy does not support."""
    environment, policy, evaluate = variant.environment, variant.policy, study.evaluate
    name = environment["name"]
    for entry in entries:
        reason = capability_refusal(name, "multistart")
        if entry.study.start == "multistart" and reason is not None:
            yield entry.place("start"), f"multistart: {reason}"
    if study.device == "cuda":
        reason = capability_refusal(name, "cuda")
        if reason is not None:
            yield ("training", "device"), f"cuda: {reason}"
    for number, extra in enumerate(evaluate.extras):
        forced = extra in ("multistart", "multistart_augmentation")
        reason = capability_refusal(name, "multistart" if forced else "greedy")
        if reason is not None:
            yield (*_EVALUATE, "extras", number), f"{extra}: {reason}"
    reason = capability_refusal(name, "tempered")
    if evaluate.temperatures != (1.0,) and reason is not None:
        yield (*_EVALUATE, "temperatures"), reason
    if evaluate.data is not None:
        yield from _problems_of_data(evaluate, evaluate.data.path, environment, policy)
    reason = optimum_refusal(name, {**environment, **policy}, evaluate.reference)
    if reason is not None:
        yield (*_EVALUATE, "reference"), reason


def _problems_of_data(
    evaluate: EvaluationSettings,
    path: str,
    environment: Mapping[str, Any],
    policy: Mapping[str, Any],
) -> Iterator[Problem]:
    """Yield instance files that cannot be read, or that hold too few instances."""
    name = environment["name"]
    reason = capability_refusal(name, "files") or data_refusal(name, path)
    if reason is not None:
        yield (*_EVALUATE, "data"), reason
        return
    try:
        count = instances_in(environment, policy, path)
    except LabError as error:
        yield (*_EVALUATE, "data"), str(error)
        return
    # A resolved sweep has the default written out, so it limits the number and is no request.
    default = EvaluationSettings.model_fields["instances"].default
    if count < evaluate.instances != default:
        message = f"must be at most {count}, the instances in {path}, got {evaluate.instances}"
        yield (*_EVALUATE, "instances"), message


def evaluation(unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the patterns of the held-out instances and of their optima."""
    instances = instances_stem(unit["training"]["evaluate"]["instances"], evaluation_seed(unit))
    return [f"{instances}-*", reference_file(unit["environment"]["name"], "*", "*")]


def evaluation_seed(unit: Mapping[str, Any]) -> int:
    """Return the seed of the held-out instances and of the samples on them."""
    return derive_seed("evaluation", environment_key(unit["environment"]), unit["seed"])


def checkpoint_file(cell_id: str) -> str:
    """Return the name of the last checkpoint of a cell, which also holds the trained policy."""
    return f"training-{cell_id}.pt"


def snapshot_file(cell_id: str, step: int | str) -> str:
    """Return the name of a cell's policy after `step` steps."""
    return f"policy-{cell_id}-{step}.pt"


def instances_stem(count: int, seed: int) -> str:
    """Return the prefix of the name of the file of held-out instances."""
    return f"instances-{seed:016x}-{count}"


def reference_file(environment: str, method: str, instances: str) -> str:
    """Return the name of the file with the optima of instances of this hash."""
    return f"reference-{environment}-{method}-{instances}.json"
