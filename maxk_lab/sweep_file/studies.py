"""The catalogue of study kinds: one row and one folder for each kind.

Only the row refers to the folder of a kind, and its modules are imported on demand. So planning
imports no torch, and a report imports no trainer. `Spec` below has the signatures for planning. A
kind may lack `answer`, `charts` and `recommend`. examples/silent_groups is a kind of 100 lines.

| file           | what the package uses                                                           |
|----------------|---------------------------------------------------------------------------------|
| `spec`         | the members of `Spec`; optional `evaluation(unit, cells)`: the patterns of the  |
|                | cache files that bundles keep                                                   |
| `work`         | `measure(unit, cells, *, cache, event)`: the `Measured` of every cell, in a     |
|                | worker; `cache` is a folder of files for other cells                            |
| `table`        | `key(cell)`: its row, whose name is the `path` of the key;                      |
|                | `pool(cells, done, *, level, alpha)`: `Pooled` rows of the planned cells, whose |
|                | finished records `done` has by their ids;                                       |
|                | `estimates(row)`: its numbers by name, with a reason for each missing value;    |
|                | `judge(claim, matching, alpha)`: the verdict on a claim about complete rows, or |
|                | on pairs or lists of them, if the row has `claims`. Optional:                   |
|                | `sorted_rows(rows)`: the rows in the order of a report;                         |
|                | `judged(pooled, *, level, alpha)`: the rows with verdicts;                      |
|                | `compare` with the same arguments: lines of `comparisons`                       |
| `answer`       | `facts(pooled, origin)`: the variables of the template, with the `table` and    |
|                | `title` of the short table                                                      |
| `answer.md.j2` | the sentences; a line `---`, then the notes of the short table. Without         |
|                | `answer` it has the `estimates` of each row by its name                         |
| `charts`       | `charts(pooled, origin)`: the figures                                           |
| `recommend`    | `ask(plan, *, budget, objective, stage, biased)`: the question of a sweep;      |
|                | `answers(pooled, question)`: a recommendation for each place                    |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from maxk_lab.catalogue import Catalogue, Row, load

if TYPE_CHECKING:
    from maxk_lab.sweep_file.vary import Variant

# The name of a step and its progress, e.g. "cells", {"done": 1, "of": 4}.
Event = Callable[[str, dict[str, Any]], None]
# The id of a cell, and its metrics or the reason for their absence.
Measured = tuple[str, dict[str, Any] | Exception]
# A location in a sweep file, and the problem there.
Problem = tuple[Iterable[int | str], str]
GRID_AXES = ("estimator", "baseline", "n", "k")


@dataclass(frozen=True, kw_only=True)
class StudyRow(Row):
    """A kind of study: `name` is its key in a sweep file, `implementation` its package.

    `axes` are the axes of its grid points in claims. `varied` is True if the study runs at every
    combination of varied settings. `claims` are its kinds of claims, unless a claim's measure
    belongs to another kind. `files` names the settings that are paths, such as `evaluate.data`,
    each with the `module:function` that hashes the files for an environment; a resolved sweep has
    {"path", "sha256"} instead of the path. `exact` kinds compute their numbers without samples, and
    come first in a report. A kind that `recommends` has a module `recommend`. `block` and `record`
    are the models of its block in a sweep file and of a finished record, each as `module:class` of
    its package. Two blocks may share a package.
    """

    axes: tuple[str, ...] = GRID_AXES
    varied: bool = True
    claims: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    exact: bool = False
    recommends: bool = False
    block: str = "spec:Study"
    record: str = "record:Metrics"

    def load_module(self, name: str) -> Any:
        """Load a module of the kind. Raises `ModuleNotFoundError` if the package lacks it."""
        return import_module(f"{self.implementation}.{name}")

    def has(self, name: str) -> bool:
        """Return whether the kind has a module of this name."""
        return find_spec(f"{self.implementation}.{name}") is not None

    def model(self, name: str) -> Any:
        """Return the model that `block` or `record` names."""
        return load(f"{self.implementation}.{name}")


class Spec(Protocol):
    """The module `spec`: the conditions of a block in a sweep file, and the units of work.

    The field `grid` of the block holds a tuple of models.
    """

    def units(self, study: Any, seeds: Sequence[int], variants: Sequence[Variant]) -> Iterable[Any]:
        """Return the units with their cells, in the order in which they are measured."""

    def left_out(self, study: Any, environment: str) -> list[Any]:
        """Return the points of the grid that cannot run in this environment, with reasons."""

    def check(self, study: Any, variants: Sequence[Variant]) -> Iterable[Problem]:
        """Return the problems of a study of valid shape in these variants of its place."""


STUDIES: Catalogue[StudyRow] = Catalogue(
    "study",
    [
        StudyRow(
            name="gradient",
            meaning="bias, variance and signal-to-noise ratio of gradient estimates "
            "at frozen policies",
            implementation="maxk_lab.studies.gradient",
            axes=(*GRID_AXES, "stage"),
            claims=("unbiased", "biased", "equals", "ratio", "order"),
            recommends=True,
        ),
        StudyRow(
            name="training",
            meaning="Max@K curves on held-out instances of policies trained with each estimator",
            implementation="maxk_lab.studies.training",
            claims=("difference",),
            files={"evaluate.data": "maxk_lab.environments.catalogue:hash_of_data"},
        ),
        StudyRow(
            name="objective",
            meaning="the exact objective along one parameter, and where it is largest",
            implementation="maxk_lab.studies.exact",
            block="spec:Objective",
            record="spec:ObjectiveRecord",
            # Its points have no samples: n is K, and there is no baseline.
            axes=("estimator", "k"),
            varied=False,
            exact=True,
        ),
        StudyRow(
            name="weights",
            meaning="the weights that estimators give to groups of rewards",
            implementation="maxk_lab.studies.exact",
            block="spec:Weights",
            record="spec:WeightsRecord",
            exact=True,
        ),
    ],
)


def in_reading_order() -> list[StudyRow]:
    """Return the kinds in the order of a report: exact kinds, then kinds with samples."""
    return sorted(STUDIES, key=lambda kind: not kind.exact)
