"""Names that a report gives: of the environment of a cell, what a sweep varies, and a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Self

from maxk_lab.environments.words import describe_environment, distinguishing_parameters
from maxk_lab.estimators.method import Method
from maxk_lab.sweep_file.studies import GRID_AXES
from maxk_lab.visible import visible_line

# (key of the sweep file, value), e.g. (("environment.arms", 8), ("policy.embed_dim", 64)),
# in the file's order.
Setting = tuple[tuple[str, Any], ...]


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
    study: str = field(default="", compare=False)

    @classmethod
    def of(cls, cell: Mapping[str, Any], **own: Any) -> Self:
        """The key of a cell; `own` are fields of a kind of its own, or other values."""
        axes = {axis: cell[axis] for axis in GRID_AXES}
        shared = {
            "environment": environment_label(cell),
            "setting": setting_of(cell),
            "plain": environment_words(cell),
            "study": cell.get("study", ""),
        }
        return cls(**axes | shared | own)

    @property
    def path(self) -> str:
        """`weights/maxk/centred/n16/k8`."""
        return self.named(self.study)

    @property
    def method(self) -> Method:
        """The estimator with the baseline at K."""
        return Method.parse(self.estimator, self.baseline, self.k)

    def named(self, first: str, setting: str | None = None) -> str:
        """The name of the row below `first`, in logs, messages and trackers.

        That is the kind of study, or the stage; `setting` are other words for what varies.
        """
        words = setting_words(self.setting) if setting is None else setting
        point = (self.estimator, self.baseline, f"n{self.n}", f"k{self.k}")
        return "/".join(filter(None, (first, words, *point)))


def environment_label(cell: Mapping[str, Any]) -> str:
    """`tsp(num_loc=20)`: the environment of a cell with the parameters that tell it from others.

    Without those that the sweep varies: they are the cell's setting.
    """
    varied, telling = _varied(cell), distinguishing_parameters(cell["environment"])
    inside = ", ".join(
        f"{name}={visible_line(str(value))}"
        for name, value in telling.items()
        if name not in varied
    )
    return (
        f"{cell['environment']['name']}({inside})" if inside else str(cell["environment"]["name"])
    )


def _varied(cell: Mapping[str, Any]) -> set[str]:
    return {key.removeprefix("environment.") for key in cell.get("setting", {})}


def environment_words(cell: Mapping[str, Any]) -> str:
    """`TSP with 20 cities`: the environment of a cell for readers, without what the sweep varies.

    One whose row has no plain name, or that is not installed here, is its name with its parameters:
    `knapsack (items 5)`. The folder of a model of the user's own is named beside it.
    """
    words = describe_environment(cell["environment"], without=_varied(cell))
    folder = (cell.get("policy") or {}).get("pretrained")
    if folder and "policy.pretrained" not in cell.get("setting", {}):
        words += f", model {PurePath(str(folder)).name}"
    return visible_line(words)


def setting_of(cell: Mapping[str, Any]) -> Setting:
    """The values of what the sweep varies, in a cell."""
    return tuple(
        (key, tuple(value) if isinstance(value, list) else value)
        for key, value in cell.get("setting", {}).items()
    )


def setting_words(setting: Setting) -> str:
    """`arms=8, distance=0.3`; empty where nothing varies."""
    short = short_names([key for key, _ in setting])
    return ", ".join(f"{short[key]}={spelled(value)}" for key, value in setting)


def plain_setting(setting: Setting) -> str:
    """`arms 8, pomo-100`: what a sweep varies, in words for titles; of a file its name alone."""
    short = short_names([key for key, _ in setting])
    return ", ".join(
        visible_line(PurePath(value).stem)
        if isinstance(value, str) and "/" in value
        else f"{short[key].replace('_', ' ')} {spelled(value)}"
        for key, value in setting
    )


def short_names(keys: list[str]) -> dict[str, str]:
    """The last word of each key, or the whole key where two share it."""
    last = [key.rpartition(".")[2] for key in keys]
    return {
        key: word if last.count(word) == 1 else key for key, word in zip(keys, last, strict=True)
    }


def listed(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def spelled(value: Any) -> str:
    """A value as the sweep file spells it."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(spelled, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else visible_line(str(value))
