"""What a report calls the rows of a training study: their labels, and what may be said of their gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxk_lab.estimators.method import Method
from maxk_lab.fields import Model
from maxk_lab.report.naming import Setting, short_names, spelled
from maxk_lab.training.settings import StepSettings

if TYPE_CHECKING:
    from maxk_lab.studies.training.rows.model import TrainingRow

# The blocks of a sweep file that make another environment or start, not another way of training.
_PLACES = ("environment", "policy")
_POMO = ("reinforce", "group_mean")
BIASED = "biased"
UNBIASED = "unbiased"
OTHER_OBJECTIVE = "other objective"
SCHEDULED = "scheduled K"
# Beside `unbiased` where it holds of the pair only: a setting that all rows share bends the gradient.
BENT = "†"


def place_setting(setting: Setting) -> Setting:
    """The part of a setting that makes another environment or policy: only rows that share it are compared."""
    return tuple((key, value) for key, value in setting if key.partition(".")[0] in _PLACES)


def unusual(setting: Setting) -> Setting:
    """The rest, how this row is trained, where it is not as it is by default."""
    rest = ((key, value) for key, value in setting if key.partition(".")[0] not in _PLACES)
    return tuple((key, value) for key, value in rest if not _is_default(key, value))


def place_words(environment: str, setting: Setting) -> str:
    """`tsp, num_loc=20`: the environment, whose label has its name, with what else of it is varied."""
    varied = [(key, value) for key, value in place_setting(setting) if key != "environment.name"]
    short = short_names([key for key, _ in varied])
    return ", ".join([environment, *(f"{short[key]}={spelled(value)}" for key, value in varied)])


def training_words(setting: Setting) -> str:
    """`start=multistart, k_schedule(kind=linear, first=2)`: what is not as it is by default; empty where all is."""
    blocks: dict[str, list[str]] = {}
    for key, value in unusual(setting):
        block, _, name = key.rpartition(".")
        blocks.setdefault(block, []).append(f"{name}={spelled(value)}")
    return ", ".join(
        f"{block}({', '.join(words)})" if block else ", ".join(words)
        for block, words in blocks.items()
    )


def path_words(setting: Setting) -> str:
    """Everything of a setting that tells a row from others, for its name in logs and messages."""
    place = place_setting(setting)
    short = short_names([key for key, _ in place])
    return ", ".join(
        [
            *(f"{short[key]}={spelled(value)}" for key, value in place),
            *filter(None, [training_words(setting)]),
        ]
    )


def methods(rows: Sequence[TrainingRow]) -> list[str]:
    """What tells the rows of one environment apart, e.g. `maxk centred, K = 8, start=multistart`."""
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


def pair(row: TrainingRow) -> str:
    """Estimator and baseline; `reinforce` with `group_mean` is POMO's loss and says so."""
    if is_pomo(row):
        return f"POMO ({' '.join(_POMO)})"
    takes = Method.parse(row.key.estimator).takes_baseline
    return f"{row.key.estimator} {row.key.baseline}" if takes else row.key.estimator


def is_pomo(row: TrainingRow) -> bool:
    """Its loss is that of RL4CO's POMO; with start=multistart it is POMO as shipped."""
    return (row.key.estimator, row.key.baseline) == _POMO


def derived(row: TrainingRow) -> str:
    """What is known of the gradient without measuring: of the pair by the catalogue, and of the settings of this row.

    What biases all rows alike stands below the table instead, but for a start or a K that make another objective, and for amp.
    """
    if row.settings.get("start", "iid") != "iid":
        return OTHER_OBJECTIVE
    if row.settings.get("k_schedule", {}).get("kind", "fixed") != "fixed":
        return SCHEDULED
    own = {key.partition(".")[0] for key, _ in row.key.setting}
    bent = biasing({name: value for name, value in row.settings.items() if name in own})
    return (
        UNBIASED if row.catalogued_unbiased and not bent and not row.settings.get("amp") else BIASED
    )


def derived_words(row: TrainingRow) -> str:
    """`derived` for a reader, who must not take the gradient of a step for unbiased where a shared setting bends it."""
    word = derived(row)
    return word + BENT if word == UNBIASED and row.measures and biasing(row.settings) else word


def biasing(settings: Mapping[str, Any]) -> list[str]:
    """The settings of a training that bias the gradient of Max@K whatever the estimator, or change what it is the gradient of."""
    loss, kl, scale = (
        settings.get("loss", {}),
        settings.get("kl", {}),
        settings.get("reward_scale", 1),
    )
    wrong = {
        "normalize_advantages": settings.get("normalize_advantages", False),
        f"weight_normalization {settings.get('weight_normalization')}": settings.get(
            "weight_normalization", "none"
        )
        != "none",
        "min_gap_scale": settings.get("min_gap_scale") is not None,
        f"aggregation {loss.get('aggregation')}": loss.get("aggregation", "seq_sum")
        in ("seq_mean", "token_mean"),
        "inner_epochs above 1": settings.get("inner_epochs", 1) > 1,
        f"max_grad_norm {settings.get('max_grad_norm')}": settings.get("max_grad_norm") is not None,
        f"truncated {settings.get('truncated')}": settings.get("truncated", "keep") != "keep",
        "amp": settings.get("amp", False),
        f"reward_clip {settings.get('reward_clip')}": settings.get("reward_clip") is not None,
        f"kl in the {kl.get('place')}": kl.get("place", "none") != "none",
        f"entropy_bonus {settings.get('entropy_bonus')}": settings.get("entropy_bonus", 0) != 0,
        f"reward_scale {scale} (scale only)": scale != 1,
    }
    return [name for name, is_so in wrong.items() if is_so]


def _is_default(key: str, value: Any) -> bool:
    """Whether a setting of the training is what it is where a sweep file does not give it."""
    default: Any = StepSettings()
    for name in key.split("."):
        default = getattr(default, name, None) if isinstance(default, Model) else None
    return bool(default == value)
