"""The row of the training study, and the conditions that its block of a sweep file must meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maxk_lab.environments.catalogue import (
    capability_refusal,
    data_refusal,
    instances_in,
    optimum_refusal,
)
from maxk_lab.errors import LabError
from maxk_lab.seeds import derive_seed
from maxk_lab.studies.training.grid import Study, TrainingConditions, TrainingGrid, conditions
from maxk_lab.studies.training.grid import left_out as left_out
from maxk_lab.studies.training.grid import units as units
from maxk_lab.sweeps.spec.blocks import Block
from maxk_lab.sweeps.spec.checks import at_first, check_entries
from maxk_lab.sweeps.spec.source import Source, TreePath, entry_path
from maxk_lab.sweeps.spec.variation import Resolved, Variant
from maxk_lab.training.refusals import batch_problems, evaluation_problems, step_problems
from maxk_lab.training.settings import EvaluationSettings


def check(
    block: Block, resolved: Resolved | None, found: Sequence[Variant] | None, source: Source
) -> None:
    """Note grids that cannot run, and settings that fit neither each other nor the environment."""

    def conditions_of(entry: TrainingGrid, name: str | None) -> TrainingConditions:
        return conditions(block.study and block.study.of_entry(entry), name)

    check_entries(block, found, source, conditions_of)
    study: Study | None = block.study
    if study is None:
        return
    _check_settings(study, source)

    def check_in(variant: Variant) -> None:
        _check_settings_in(study, variant.environment, variant.policy, source)

    at_first(found, source, check_in)


@dataclass(frozen=True)
class _Entry:
    """An entry of the grid, the study with the settings that hold for it, and its place."""

    grid: TrainingGrid
    study: Study
    path: TreePath

    def at(self, *setting: str) -> TreePath:
        """Return the place where a setting, or its block, is given: for this entry, or for all."""
        own = setting[0] in self.grid.overrides.given()
        return (*self.path, "with", *setting) if own else ("training", *setting)


def _entries(study: Study, source: Source) -> list[_Entry]:
    return [
        _Entry(grid, study.of_entry(grid), entry_path(source, "training", number))
        for number, grid in enumerate(study.grid)
    ]


def _check_settings(study: Study, source: Source) -> None:
    """Note settings that contradict each other, or that do not fit the training study's grid."""
    entries = _entries(study, source)
    for path, sharing in _by_batch(entries).items():
        sizes = [n for entry in sharing for n in entry.grid.n]
        for _, message in batch_problems(sharing[0].study.batch, sizes):
            source.add(path, message)
    for entry in entries:
        axes = entry.grid.estimator, entry.grid.baseline, min(entry.grid.n)
        for setting, message in step_problems(entry.study, *axes):
            source.add(entry.at(*setting), message)
        _check_schedule(entry, source)
    points = [
        point for entry in entries for point in conditions(entry.study, None).points(entry.grid)[0]
    ]
    largest = max((point["k"] for point in points), default=1)
    fewest = min(entry.study.steps for entry in entries)
    for setting, message in evaluation_problems(study, largest, fewest):
        source.add(("training", *setting), message)


def _by_batch(entries: list[_Entry]) -> dict[TreePath, list[_Entry]]:
    """Group the entries by the place of their `batch`, which must suit them all."""
    found: dict[TreePath, list[_Entry]] = {}
    for entry in entries:
        found.setdefault(entry.at("batch"), []).append(entry)
    return found


def _check_settings_in(
    study: Study, environment: Mapping[str, Any], policy: Mapping[str, Any], source: Source
) -> None:
    """Note settings that the environment or its policy has nothing for."""
    for entry in _entries(study, source):
        _check_kl(entry, environment, source)
        _check_start(entry, environment, source)
    _check_device(study, environment["name"], source)
    _check_evaluation(study, environment, policy, source)


def _check_kl(entry: _Entry, environment: Mapping[str, Any], source: Source) -> None:
    """Note a KL term under a nucleus, which is infinite as soon as the two nuclei differ."""
    top_p = environment.get("top_p", 1.0)
    if entry.study.kl.place != "none" and top_p < 1:
        source.add(
            entry.at("kl", "place"),
            f"needs top_p = 1, got {top_p}: a token outside the reference's nucleus has an "
            "infinite KL term",
        )


def _check_start(entry: _Entry, environment: Mapping[str, Any], source: Source) -> None:
    reason = capability_refusal(environment["name"], "multistart")
    if entry.study.start == "multistart" and reason is not None:
        source.add(entry.at("start"), f"multistart: {reason}")


def _check_device(study: Study, name: str, source: Source) -> None:
    if study.device != "cuda":
        return
    reason = capability_refusal(name, "cuda")
    execution = source.tree.get("execution")
    if reason is None and isinstance(execution, Mapping) and execution.get("gpus") == 0:
        reason = "execution.gpus is 0, so that no unit sees a device"
    if reason is not None:
        source.add(("training", "device"), f"cuda: {reason}")


def _check_evaluation(
    study: Study, environment: Mapping[str, Any], policy: Mapping[str, Any], source: Source
) -> None:
    """Note extras, temperatures, instances in files and optima that the environment has not."""
    evaluate, name = study.evaluate, environment["name"]
    path: TreePath = ("training", "evaluate")
    for number, extra in enumerate(evaluate.extras):
        forced = extra in ("multistart", "multistart_augmentation")
        reason = capability_refusal(name, "multistart" if forced else "greedy")
        if reason is not None:
            source.add((*path, "extras", str(number)), f"{extra}: {reason}")
    if evaluate.temperatures != (1.0,):
        reason = capability_refusal(name, "tempered")
        if reason is not None:
            source.add((*path, "temperatures"), reason)
    if evaluate.data is not None:
        reason = capability_refusal(name, "files") or data_refusal(name, evaluate.data.path)
        if reason is None:
            _check_data(evaluate, environment, policy, source)
        else:
            source.add((*path, "data"), reason)
    reason = optimum_refusal(name, {**environment, **policy}, evaluate.reference)
    if reason is not None:
        source.add((*path, "reference"), reason)


def _check_data(
    evaluate: EvaluationSettings,
    environment: Mapping[str, Any],
    policy: Mapping[str, Any],
    source: Source,
) -> None:
    """Note files of instances that cannot be read, or that hold fewer than are asked for."""
    assert evaluate.data is not None
    path: TreePath = ("training", "evaluate")
    try:
        there = instances_in(environment, policy, evaluate.data.path)
    except LabError as error:
        source.add((*path, "data"), str(error))
        return
    # The default is the most that are read; a resolved sweep file has it written out.
    default = EvaluationSettings.model_fields["instances"].default
    if there < evaluate.instances != default:
        source.add(
            (*path, "instances"),
            f"must be at most {there}, the instances in {evaluate.data.path}, "
            f"got {evaluate.instances}",
        )


def _check_schedule(entry: _Entry, source: Source) -> None:
    """Note ends of a schedule, which nothing reads, where the same place says that K is fixed."""
    given: Any = entry.grid.overrides.given()
    block = given["k_schedule"] if "k_schedule" in given else entry.study.k_schedule.model_dump()
    if entry.study.k_schedule.kind != "fixed":
        return
    defaults = {
        name: field.default for name, field in type(entry.study.k_schedule).model_fields.items()
    }
    for name in ("first", "until"):
        if block.get(name, defaults[name]) != defaults[name]:
            source.add(
                entry.at("k_schedule", name), "is read by the kinds linear and step only, got fixed"
            )


# Nothing goes because the plan has no cell for it: a trained policy costs hours, and another sweep
# may begin with it.
SHAPES: tuple[str, ...] = ()


def kept(unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the patterns of the files that the unit can use, with those of these cells."""
    files = evaluation(unit, cells)
    for cell in cells:
        files += [checkpoint_file(cell["id"]), snapshot_file(cell["id"], "*")]
    return files


def evaluation(unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the patterns of the held-out instances and of their optima."""
    instances = instances_stem(unit["training"]["evaluate"]["instances"], evaluation_seed(unit))
    return [f"{instances}-*", reference_file(unit["environment"]["name"], "*", "*")]


def spent(unit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return no pattern: trained policies are of use when all is measured."""
    return []


def evaluation_seed(unit: Mapping[str, Any]) -> int:
    """Return the seed of the held-out instances and of the samples on them."""
    return derive_seed("evaluation", unit["environment"], unit["seed"])


def checkpoint_file(cell_id: str) -> str:
    """Return the name of the last checkpoint of a cell, which holds the trained policy, too."""
    return f"training-{cell_id}.pt"


def snapshot_file(cell_id: str, step: int | str) -> str:
    """Return the name of a cell's policy as it was after `step` steps."""
    return f"policy-{cell_id}-{step}.pt"


def instances_stem(count: int, seed: int) -> str:
    """Return what the name of the file of held-out instances begins with, before their hash."""
    return f"instances-{seed:016x}-{count}"


def reference_file(environment: str, method: str, instances: str) -> str:
    """Return the name of the file with the optima of instances of this hash."""
    return f"reference-{environment}-{method}-{instances}.json"
