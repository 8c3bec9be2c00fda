"""The setting of a trained row: the part that makes another place, and the part in words."""

from __future__ import annotations

from typing import Any

from maxk_lab.fields import Model
from maxk_lab.report.naming import Setting, setting_words, spelled
from maxk_lab.training.settings import StepSettings

# What is known of the gradient of a row.
BIASED = "biased"
UNBIASED = "unbiased"
OTHER_OBJECTIVE = "other objective"
SCHEDULED = "scheduled K"
# The blocks of a sweep file that make another environment or start, not another way of training.
_PLACES = ("environment", "policy")


def place_setting(setting: Setting) -> Setting:
    """The part that makes another environment or policy: only rows that share it are compared."""
    return tuple((key, value) for key, value in setting if key.partition(".")[0] in _PLACES)


def unusual(setting: Setting) -> Setting:
    """The rest, how this row is trained, where it is not as it is by default."""
    rest = ((key, value) for key, value in setting if key.partition(".")[0] not in _PLACES)
    return tuple((key, value) for key, value in rest if not _is_default(key, value))


def plain_place(words: str, setting: Setting) -> str:
    """`TSP with 20 cities, embed_dim=64`: an environment in words, and what varies of policies."""
    varied = tuple((key, value) for key, value in setting if key.startswith("policy."))
    return ", ".join(filter(None, (words, setting_words(varied))))


def training_words(setting: Setting) -> str:
    """`start=multistart, k_schedule(kind=linear, first=2)`: all that is not as it is by default."""
    blocks: dict[str, list[str]] = {}
    for key, value in unusual(setting):
        block, _, name = key.rpartition(".")
        blocks.setdefault(block, []).append(f"{name}={spelled(value)}")
    return ", ".join(
        f"{block}({', '.join(words)})" if block else ", ".join(words)
        for block, words in blocks.items()
    )


def path_words(setting: Setting) -> str:
    """All of a setting that tells a row from others, for its name in logs and messages."""
    words = (setting_words(place_setting(setting)), training_words(setting))
    return ", ".join(filter(None, words))


def _is_default(key: str, value: Any) -> bool:
    """Whether the value is that of a sweep file which does not give it."""
    default: Any = StepSettings()
    for name in key.split("."):
        default = getattr(default, name, None) if isinstance(default, Model) else None
    return bool(default == value)


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
