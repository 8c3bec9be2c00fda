"""The key of a row of a grid: the point that the cells of all seeds share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from maxk_lab.estimators.method import Method
from maxk_lab.report.naming import (
    Setting,
    environment_label,
    environment_words,
    row_path,
    setting_of,
    setting_words,
)
from maxk_lab.sweeps.studies import GRID_AXES


@dataclass(frozen=True, kw_only=True)
class GridKey:
    """A method at n samples in an environment, whose label is one such as `tsp(num_loc=20)`.

    `setting` are the values of what the sweep varies; they are not part of that label. `plain` are
    the words for the environment in titles and sentences: `TSP with 20 cities`.
    """

    environment: str
    estimator: str
    baseline: str
    n: int
    k: int
    setting: Setting = ()
    plain: str = field(default="", compare=False)

    @classmethod
    def of(cls, cell: Mapping[str, Any], **own: Any) -> Self:
        """The key of a cell; `own` are fields of a kind of its own, or other values."""
        axes = {axis: cell[axis] for axis in GRID_AXES}
        shared = {
            "environment": environment_label(cell),
            "setting": setting_of(cell),
            "plain": environment_words(cell),
        }
        return cls(**axes | shared | own)

    @property
    def method(self) -> Method:
        """The estimator with the baseline at K."""
        return Method.parse(self.estimator, self.baseline, self.k)

    def named(self, first: str, setting: str | None = None) -> str:
        """The name of the row below `first`; see `row_path`. `setting` are other words for it."""
        return row_path(
            first,
            setting_words(self.setting) if setting is None else setting,
            estimator=self.estimator,
            baseline=self.baseline,
            n=self.n,
            k=self.k,
        )
