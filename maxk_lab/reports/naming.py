"""Names in a report: of a row, its environment, its settings and its bias."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Self

from maxk_lab.environments.words import describe_environment, distinguishing_parameters
from maxk_lab.estimators.method import Method
from maxk_lab.fields import start_words
from maxk_lab.sweep_file.studies import GRID_AXES
from maxk_lab.visible import visible_line

# (key of the sweep file, value), e.g. (("environment.arms", 8), ("policy.embed_dim", 64)), in the
# order of the file.
Setting = tuple[tuple[str, Any], ...]


# The bias by formula; a measurement can overrule it.
UNBIASED, NOT_PROVED, BIASED = "unbiased (proved)", "not proved", "biased"


@dataclass(frozen=True, kw_only=True)
class GridKey:
    """A method at n samples in an environment, such as `tsp(num_loc=20)`.

    `setting` has the values that the sweep varies; `environment` does not repeat them. `words` are
    for titles and sentences: `TSP with 20 cities`.
    """

    environment: str
    estimator: str
    baseline: str
    n: int
    k: int
    setting: Setting = ()
    words: str = field(default="", compare=False)
    study: str = field(default="", compare=False)

    @classmethod
    def of(cls, cell: Mapping[str, Any], **more: Any) -> Self:
        """Return the key of a cell; `more` are fields of the kind of study, or other values."""
        axes = {axis: cell[axis] for axis in GRID_AXES}
        shared = {
            "environment": environment_label(cell),
            "setting": setting_of(cell),
            "words": environment_words(cell),
            "study": cell.get("study", ""),
        }
        return cls(**axes | shared | more)

    @property
    def bias_state(self) -> str:
        """Unbiased (proved), not proved or biased, by the formula of the method."""
        if self.method.is_unbiased:
            return UNBIASED
        return BIASED if self.method.is_derived else NOT_PROVED

    @property
    def path(self) -> str:
        """The path `weights/maxk/centred/n16/k8`."""
        return self.named(self.study)

    @property
    def method(self) -> Method:
        """The estimator with the baseline at K."""
        return Method.parse(self.estimator, self.baseline, self.k)

    def named(self, first: str, setting: str | None = None) -> str:
        """Return the name of the row below `first`: the kind of study, or the stage.

        `setting` replaces the words for the values that the sweep varies.
        """
        words = setting_words(self.setting) if setting is None else setting
        point = (self.estimator, self.baseline, f"n{self.n}", f"k{self.k}")
        return "/".join(filter(None, (first, words, *point)))


def environment_label(cell: Mapping[str, Any]) -> str:
    """Return `tsp(num_loc=20)`: the environment of a cell with its distinguishing parameters.

    Parameters that the sweep varies are left out: they belong to the setting.
    """
    varied, parameters = _varied(cell), distinguishing_parameters(cell["environment"])
    inside = ", ".join(
        f"{name}={visible_line(str(value))}"
        for name, value in parameters.items()
        if name not in varied
    )
    name = str(cell["environment"]["name"])
    return f"{name}({inside})" if inside else name


def _varied(cell: Mapping[str, Any]) -> set[str]:
    return {key.removeprefix("environment.") for key in cell.get("setting", {})}


def environment_words(cell: Mapping[str, Any]) -> str:
    """Return `TSP with 20 cities`: the environment of a cell in words, without varied parameters.

    An environment without words is its name with its parameters: `knapsack (items 5)`. A user's
    model is named by its folder.
    """
    words = describe_environment(cell["environment"], without=_varied(cell))
    folder = (cell.get("policy") or {}).get("pretrained")
    if folder and "policy.pretrained" not in cell.get("setting", {}):
        words += f", model {PurePath(str(folder)).name}"
    return visible_line(words)


def setting_of(cell: Mapping[str, Any]) -> Setting:
    """Return the values that the sweep varies, in a cell."""
    return tuple(
        (key, tuple(value) if isinstance(value, list) else value)
        for key, value in cell.get("setting", {}).items()
    )


def setting_words(setting: Setting) -> str:
    """Return `arms=8, distance=0.3`; empty if the sweep varies nothing."""
    short = short_names([key for key, _ in setting])
    return ", ".join(f"{short[key]}={spelled(value)}" for key, value in setting)


def plain_setting(setting: Setting) -> str:
    """Return `arms 8, pomo-100`: the varied values for titles; a file is its name."""
    short = short_names([key for key, _ in setting])
    setting = tuple((key, start_words(value)) for key, value in setting)
    return ", ".join(
        visible_line(PurePath(value).stem)
        if isinstance(value, str) and "/" in value
        else f"{short[key].replace('_', ' ')} {spelled(value)}"
        for key, value in setting
    )


def short_names(keys: list[str]) -> dict[str, str]:
    """Return the last word of each key, or the whole key if two keys share their last word."""
    last = [key.rpartition(".")[2] for key in keys]
    return {
        key: word if last.count(word) == 1 else key for key, word in zip(keys, last, strict=True)
    }


def listed(names: Sequence[str], most: int) -> str:
    """Return `a, b and 3 more`: the first names, and the number of further names."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def spelled(value: Any) -> str:
    """Return a value as the sweep file spells it."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(spelled, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else visible_line(str(value))
