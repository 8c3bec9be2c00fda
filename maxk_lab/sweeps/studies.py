"""The catalogue of study kinds: one row and one folder each. Imports nothing of the kinds themselves.

A kind is a package that holds the same modules under the same names. Nothing outside it imports them by name: they are
found through the row and loaded when they are used, so that planning imports no torch and reporting no trainer.

| module      | what the frame looks up in it                                                                   |
|-------------|---------------------------------------------------------------------------------------------------|
| `schema`    | `Study`, the pydantic model of the block in a sweep file                                           |
| `plan`      | the units of work of a study, its grid points, and how much work a unit is                        |
| `checks`    | what the block must satisfy beyond its shape                                                      |
| `worker`    | `measure(unit, cells, *, cache, event)`: (cell id, metrics or exception) of every cell of a unit  |
| `record`    | `Metrics`, the pydantic model of what a finished record holds, for reading                        |
| `rows`      | records pooled to the rows of a report                                                            |
| `columns`   | the columns of these rows, the same in every format                                               |
| `section`   | the part of the report that the kind fills                                                        |
| `figures`   | the figures that it draws                                                                         |
| `claims`    | verdicts on the claims that speak of its rows                                                     |
| `payload`   | what a tracker is told about its records                                                          |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from maxk_lab.catalogue import Catalogue, Row

GRID_AXES = ("estimator", "baseline", "n", "k")


@dataclass(frozen=True, kw_only=True)
class StudyRow(Row):
    """A kind of study. `name` is its key in a sweep file, `implementation` the package that holds its modules.

    `axes` are those of its grid points that claims may speak of; `varied` says whether it is made at every combination
    of what a sweep varies. `claims` are the kinds of claims that speak of it unless their measure is of another kind.
    `files` names the settings that are paths, such as `evaluate.data`, each with the `module:function` that hashes what
    is there: a resolved sweep has {"path", "sha256"} in their place.
    """

    axes: tuple[str, ...] = GRID_AXES
    varied: bool = True
    claims: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    def part(self, module: str) -> Any:
        """Load a module of the kind, e.g. `schema`. Raises `ModuleNotFoundError` if the package lacks it."""
        return import_module(f"{self.implementation}.{module}")


STUDIES: Catalogue[StudyRow] = Catalogue(
    "study",
    [
        StudyRow(
            name="gradient",
            meaning="bias, variance and signal-to-noise ratio of gradient estimates at frozen policies",
            implementation="maxk_lab.studies.gradient",
            axes=(*GRID_AXES, "stage"),
            claims=("unbiased", "biased", "equals", "ratio", "order"),
        ),
        StudyRow(
            name="training",
            meaning="Max@K curves on held-out instances of policies trained with each estimator",
            implementation="maxk_lab.studies.training",
            claims=("difference",),
            files={"evaluate.data": "maxk_lab.environments.instance_files:hash_of_data"},
        ),
        StudyRow(
            name="objective",
            meaning="the exact objective along one parameter, and where it is largest",
            implementation="maxk_lab.studies.objective",
            # Its points have no samples: their n is their K, and they take no baseline.
            axes=("estimator", "k"),
            varied=False,
        ),
        StudyRow(
            name="weights",
            meaning="the weights that estimators give to groups of rewards",
            implementation="maxk_lab.studies.weights",
        ),
    ],
    "maxk_lab.studies",
)
