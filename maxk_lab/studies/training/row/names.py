"""The names of the rows of a training study, and what may be said of their gradients."""

from __future__ import annotations

from collections.abc import Sequence

from maxk_lab.studies.training.row.model import TrainingKey, TrainingRow
from maxk_lab.studies.training.row.settings import training_words
from maxk_lab.training.settings import StepSettings

_POMO = ("reinforce", "group_mean")
BIASED = "biased"
UNBIASED = "unbiased"
OTHER_OBJECTIVE = "other objective"
SCHEDULED = "scheduled K"
# Beside `unbiased` where it holds of the pair only: a setting that all rows share bends the
# gradient.
BENT = "†"


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


def labels(rows: Sequence[TrainingRow]) -> list[str]:
    """`methods` where nothing else says what is derived of a row: a biased one says so."""
    said = (" (biased)" if derived(row) == BIASED else "" for row in rows)
    return [name + bias for name, bias in zip(methods(rows), said, strict=True)]


def by_path(rows: Sequence[TrainingRow]) -> dict[str, str]:
    """The `methods` of these rows by their paths."""
    return dict(zip((row.key.path for row in rows), methods(rows), strict=True))


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


def derived(row: TrainingRow) -> str:
    """The word for the gradient, known of the pair by the catalogue and of this row's settings.

    A setting that biases all rows alike stands below the table instead, but for a start or a K that
    make another objective.
    """
    if row.settings.start != "iid":
        return OTHER_OBJECTIVE
    if row.settings.k_schedule.kind != "fixed":
        return SCHEDULED
    own = {key.partition(".")[0] for key, _ in row.key.setting} & set(StepSettings.model_fields)
    bent = biasing(StepSettings.model_validate({name: getattr(row.settings, name) for name in own}))
    return UNBIASED if row.catalogued_unbiased and not bent else BIASED


def derived_words(row: TrainingRow) -> str:
    """`derived` for a reader, marked where a setting that all rows share bends the gradient."""
    word = derived(row)
    return word + BENT if word == UNBIASED and row.measures and biasing(row.settings) else word


def biasing(settings: StepSettings) -> list[str]:
    """The settings that bias the gradient of Max@K for any estimator, or change its objective."""
    scale, normal = settings.reward_scale, settings.weight_normalization
    clip, aggregation = settings.reward_clip, settings.loss.aggregation
    wrong = {
        "normalize_advantages": settings.normalize_advantages,
        f"weight_normalization {normal}": normal != "none",
        "min_gap_scale": settings.min_gap_scale is not None,
        f"aggregation {aggregation}": aggregation in ("seq_mean", "token_mean"),
        "inner_epochs above 1": settings.inner_epochs > 1,
        f"max_grad_norm {settings.max_grad_norm}": settings.max_grad_norm is not None,
        f"truncated {settings.truncated}": settings.truncated != "keep",
        f"reward_clip {list(clip or ())}": clip is not None,
        f"kl in the {settings.kl.place}": settings.kl.place != "none",
        f"entropy_bonus {settings.entropy_bonus}": settings.entropy_bonus != 0,
        f"reward_scale {scale} (scale only)": scale != 1,
    }
    return [name for name, is_so in wrong.items() if is_so]
