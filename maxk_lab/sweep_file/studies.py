"""The catalogue of study kinds: one row and one folder each. Imports none of the kinds.

A kind is a package of these files and what they import beside them. Nothing outside imports them:
they are found through the row and loaded when they are used, so that planning imports no torch and
reporting no trainer. What plans has its signatures in the protocol below. A kind may lack `answer`,
`charts` and `recommend`. examples/silent_groups is a kind of 100 lines.

| file           | what the frame looks up in it                                                   |
|----------------|---------------------------------------------------------------------------------|
| `spec`         | what `Spec` has; `evaluation(unit, cells)`: the patterns of the files in the    |
|                | cache of a run that bundles keep, if there are any                              |
| `work`         | `measure(unit, cells, *, cache, event)`: the `Measured` of every cell, in a     |
|                | worker; `cache` is a folder for what others can use                             |
| `table`        | `key(cell)`: its row, whose name is the `path` of the key;                      |
|                | `pool(cells, done, *, level, alpha)`: `Pooled` rows of the planned cells, whose |
|                | finished records `done` has by their ids;                                       |
|                | `estimates(row)`: its numbers by name, with a reason where one has no value;    |
|                | `judge(claim, matching, alpha)`: the verdict on a claim about complete rows, or |
|                | on pairs or lists of them, if the row has `claims`. Optional:                   |
|                | `sorted_rows(rows)`: the rows in the order of a report;                         |
|                | `judged(pooled, *, level, alpha)`: the rows with verdicts;                      |
|                | `compare` with the same arguments: lines of `comparisons`                       |
| `answer`       | `facts(pooled, origin)`: what the template says, with the `table` and `title`   |
|                | of the short table                                                              |
| `answer.md.j2` | the sentences; a line `---`, then the notes of the short table. Without         |
|                | `answer` it has the `estimates` of each row by its name                         |
| `charts`       | `charts(pooled, origin)`: the figures                                           |
| `recommend`    | `ask(plan, *, budget, objective, stage, biased)`: the question that a sweep can |
|                | answer; `answers(pooled, question)`: a recommendation for each of its places    |
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

# The name of a step and how far it is, e.g. "cells", {"done": 1, "of": 4}.
Event = Callable[[str, dict[str, Any]], None]
# The id of a cell, and its metrics or the reason why there are none.
Measured = tuple[str, dict[str, Any] | Exception]
# A location in a sweep file, and what is wrong there.
Problem = tuple[Iterable[int | str], str]
GRID_AXES = ("estimator", "baseline", "n", "k")


@dataclass(frozen=True, kw_only=True)
class StudyRow(Row):
    """A kind of study: `name` is its key in a sweep file, `implementation` its package.

    `axes` are those of its grid points that claims may speak of; `varied` says whether it is made
    at every combination of what a sweep varies. `claims` are the kinds of claims that speak of it
    unless their measure is of another kind. `files` names the settings that are paths, such as
    `evaluate.data`, each with the `module:function` that hashes what is there for an environment:
    a resolved sweep has {"path", "sha256"} in their place. `exact` kinds compute their numbers
    from no samples; a report shows them first. One that `recommends` has a module `recommend`, too,
    and answers the verb of this name. `block` and `record` are the models of its block in a sweep
    file and of a finished record, each as `module:class` of its package. Two blocks may share a
    package.
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
        """Return the points of the grid that are not measured in this environment, with why."""

    def check(self, study: Any, variants: Sequence[Variant]) -> Iterable[Problem]:
        """Return what is wrong with a study of valid shape in these variants of its place."""


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
            # Its points have no samples: their n is their K, and they take no baseline.
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
