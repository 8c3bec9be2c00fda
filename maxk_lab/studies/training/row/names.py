"""The names of the rows of a training study, and what may be said of their gradients."""

from __future__ import annotations

from collections.abc import Sequence

from maxk_lab.studies.training.row.model import TrainingKey, TrainingRow
from maxk_lab.studies.training.row.settings import training_words

_POMO = ("reinforce", "group_mean")


def methods(rows: Sequence[TrainingRow]) -> list[str]:
    """Names that tell rows of one environment apart: `maxk centred, K = 8, start=multistart`."""
    several_n, several_k = (
        len({getattr(row.key, axis) for row in rows}) > 1 for axis in ("n", "k")
    )
    return [
        ", ".join(
            filter(
                None,
                [
                    pair(row),
                    f"n = {row.key.n}" if several_n else "",
                    f"K = {row.key.k}" if several_k else "",
                    training_words(row.key.setting),
                ],
            )
        )
        for row in rows
    ]


def spoken(rows: Sequence[TrainingRow]) -> dict[TrainingKey, str]:
    """Names for sentences, where those of tables would need a legend: `POMO's loss`.

    Any other is its estimator and baseline as a sweep file writes them, the K that it is trained
    for, and its settings: `maxk subloo for K = 8`.
    """
    several_k = len({row.key.k for row in rows}) > 1
    found = {row.key: _spoken(row, several_k=several_k) for row in rows}
    return found if len(set(found.values())) == len(found) else _written(rows)


def _spoken(row: TrainingRow, *, several_k: bool) -> str:
    return spoken_method(row) + (trained_for(row) if several_k else "")


def spoken_method(row: TrainingRow) -> str:
    """The name of a row in sentences, whatever the K that it is trained for."""
    setting = row.key.setting
    if is_pomo(row) and row.settings.start == "multistart":
        rest = training_words(tuple(each for each in setting if each[0] != "start"))
        return ", ".join(filter(None, ["POMO as shipped (start=multistart)", rest]))
    name = "POMO's loss" if is_pomo(row) else pair(row)
    return ", ".join(filter(None, [name, training_words(setting)]))


def trained_for(row: TrainingRow) -> str:
    """` for K = 8`, and nothing for POMO's loss, which is for the mean."""
    return "" if is_pomo(row) else f" for K = {row.key.k}"


def _written(rows: Sequence[TrainingRow]) -> dict[TrainingKey, str]:
    return dict(zip((row.key for row in rows), methods(rows), strict=True))


def pair(row: TrainingRow) -> str:
    """Estimator and baseline; `reinforce` with `group_mean` is POMO's loss and says so."""
    if is_pomo(row):
        return f"POMO ({' '.join(_POMO)})"
    takes = row.key.method.takes_baseline
    return f"{row.key.estimator} {row.key.baseline}" if takes else row.key.estimator


def is_pomo(row: TrainingRow) -> bool:
    """Whether its loss is that of RL4CO's POMO; with start=multistart it is POMO as shipped."""
    return (row.key.estimator, row.key.baseline) == _POMO
