"""The point of a sweep that the short table and the distances in the answer are taken at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from maxk_lab.report.naming import Setting
from maxk_lab.studies.gradient.row.model import GradientRow
from maxk_lab.studies.gradient.row.order import is_oracle

# As many places stand side by side.
PLACES = 3
Place = tuple[str, Setting, int]


@dataclass(frozen=True)
class Focus:
    """A size (n, K), and the environments, settings and stages that are shown of it.

    `compared`: some unbiased methods have variances there that can be compared.
    """

    n: int
    k: int
    places: tuple[Place, ...]
    all_places: int
    compared: bool = True

    def has(self, row: GradientRow) -> bool:
        """Whether the row is of this size and of a place that is shown."""
        return (row.key.n, row.key.k) == (self.n, self.k) and place_of(row) in self.places

    @property
    def words(self) -> tuple[str, ...]:
        """How the size and the places were chosen."""
        rule = "the middle K (of those above 1, where there are any), then the largest n"
        if self.compared:
            rule = (
                "the size (with K > 1 where there is one) at which the variances of most unbiased "
                "methods can be compared; of several the middle K, then the largest n"
            )
        lines = [f"Shown is n = {self.n} and K = {self.k}: {rule}."]
        if self.all_places > len(self.places):
            lines.append(f"Of {self.all_places} places, the first, the middle and the last.")
        return tuple(lines)


def place_of(row: GradientRow) -> Place:
    """The environment, setting and stage of a row."""
    return row.key.environment, row.key.setting, row.key.stage


def focus(rows: Sequence[GradientRow]) -> Focus:
    """The focus of these rows, which are not empty; `Focus.words` has the rule."""
    met = [row for row in rows if row.key.k > 1] or list(rows)
    compared = Counter({(row.key.n, row.key.k): 0 for row in met})
    compared.update((row.key.n, row.key.k) for row in met if _compared(row))
    most = max(compared.values())
    sizes = [size for size, count in compared.items() if count == most]
    ks = sorted({k for _, k in sizes})
    k = ks[len(ks) // 2]
    n = max(n for n, at in sizes if at == k)
    found = list(dict.fromkeys(place_of(row) for row in rows if (row.key.n, row.key.k) == (n, k)))
    shown = found
    if len(found) > PLACES:
        shown = [found[0], found[len(found) // 2], found[-1]]
    return Focus(n, k, tuple(shown), len(found), most > 0)


def _compared(row: GradientRow) -> bool:
    """Whether its variance is the least of its group, or is compared with that in pairs."""
    if not row.catalogued_unbiased or is_oracle(row) or row.units is None:
        return False
    return row.over_least is None or row.over_least.mean.known
