"""The catalogue of study kinds: one row and one folder each. Imports none of the kinds.

A kind is a package of at most eight files under the same names. Nothing outside imports them: they
are found through the row and loaded when they are used, so that planning imports no torch and
reporting no trainer. Signatures: `maxk_lab.sweeps.parts` and `maxk_lab.report.parts`.

| file           | what the frame looks up in it                                                   |
|----------------|---------------------------------------------------------------------------------|
| `spec`         | `Study`, the model of the block in a sweep file; `check(block, ...)`; `units`   |
|                | and `left_out`: the plan; `kept`, `evaluation`, `spent`, `SHAPES`: cached files |
| `work`         | `measure(unit, cells, *, cache, event)`: metrics or exception of every cell     |
| `record`       | `Metrics`, the model of a finished record                                       |
| `pool`         | `key(cell)`, `pool(cells, done, ...)`: rows; `estimates(row)`: their numbers    |
| `compare`      | `judge(claim, met, alpha)`; `effect(row, other, measure, level)` of two runs    |
| `facts`        | `facts(pooled, summary)`: what the template says, with the short table          |
| `answer.md.j2` | the sentences; a line `---`, then the notes of the short table                  |
| `charts`       | `charts(found, summary, more)`: the charts that it makes                        |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from maxk_lab.catalogue import Catalogue, Row, imported
from maxk_lab.errors import LabError, first_line

GRID_AXES = ("estimator", "baseline", "n", "k")


@dataclass(frozen=True, kw_only=True)
class StudyRow(Row):
    """A kind of study: `name` is its key in a sweep file, `implementation` its package.

    `axes` are those of its grid points that claims may speak of; `varied` says whether it is made
    at every combination of what a sweep varies. `claims` are the kinds of claims that speak of it
    unless their measure is of another kind. `files` names the settings that are paths, such as
    `evaluate.data`, each with the `module:function` that hashes what is there for an environment:
    a resolved sweep has {"path", "sha256"} in their place. `exact` kinds compute their numbers
    from no samples; a report tells them first. One that `recommends` has a module `recommend`, too,
    and answers the verb of this name. `charts` names those that are made on request alone.
    """

    axes: tuple[str, ...] = GRID_AXES
    varied: bool = True
    claims: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    exact: bool = False
    recommends: bool = False
    charts: tuple[str, ...] = ()

    def part(self, module: str) -> Any:
        """Load a module of the kind. Raises `ModuleNotFoundError` if the package lacks it.

        Raises `LabError` if it is there and cannot be imported, as one of another package.
        """
        path = f"{self.implementation}.{module}"
        try:
            return imported(path)
        except ImportError as error:
            if path.startswith("maxk_lab.") or error.name == path:
                raise
            raise LabError(
                f"study {self.name!r} cannot be used: importing {path} raised "
                f"{type(error).__name__}: {first_line(error)}"
            ) from error


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
            charts=("heat_map", "anatomy"),
        ),
        StudyRow(
            name="training",
            meaning="Max@K curves on held-out instances of policies trained with each estimator",
            implementation="maxk_lab.studies.training",
            claims=("difference",),
            charts=("max_at_k", "time", "log"),
            files={"evaluate.data": "maxk_lab.environments.catalogue:hash_of_data"},
        ),
        StudyRow(
            name="objective",
            meaning="the exact objective along one parameter, and where it is largest",
            implementation="maxk_lab.studies.objective",
            # Its points have no samples: their n is their K, and they take no baseline.
            axes=("estimator", "k"),
            varied=False,
            exact=True,
        ),
        StudyRow(
            name="weights",
            meaning="the weights that estimators give to groups of rewards",
            implementation="maxk_lab.studies.weights",
            exact=True,
        ),
    ],
    "maxk_lab.studies",
)


def on_request() -> list[str]:
    """Return the names of the charts that are made on request alone."""
    return [name for kind in STUDIES for name in kind.charts]


def in_reading_order() -> list[StudyRow]:
    """Return the kinds as a report tells them: the exact ones, then those that rest on samples."""
    return sorted(STUDIES, key=lambda kind: not kind.exact)
