"""The catalogue of reward functions of completions. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maxk_lab.catalogue import Catalogue, Row
from maxk_lab.environments.named_functions import check_function, load_function
from maxk_lab.ranges import ANYWHERE, SHARES, Range

_TAKES = "(prompts, completions, **columns) or a torch module"


@dataclass(frozen=True, kw_only=True)
class RewardRow(Row):
    """A reward function of completions: the columns it reads, and the range of its values."""

    reads: tuple[str, ...] = ()
    binary: bool = False
    within: Range = ANYWHERE

    @property
    def range(self) -> Range:
        """The range that its values do not leave."""
        return SHARES if self.binary else self.within


def _row(name: str, meaning: str, **settings: Any) -> RewardRow:
    """A row of a function that gives values in [0, 1]."""
    home = "maxk_lab.environments.language.reward_functions"
    return RewardRow(
        name=name, meaning=meaning, implementation=f"{home}:{name}", within=SHARES, **settings
    )


REWARDS: Catalogue[RewardRow] = Catalogue(
    "reward function",
    [
        _row(
            "exact_match",
            "1 where the completion is the task's answer, else 0",
            reads=("answer",),
            binary=True,
        ),
        _row(
            "single_symbol",
            "1 where the completion is the one symbol of the answer, then the end; else 0",
            reads=("answer", "truncated"),
            binary=True,
        ),
        _row(
            "edit_similarity",
            "1 − edit distance to the answer / length of the longer text, in [0, 1]",
            citation="Levenshtein 1966",
            reads=("answer",),
        ),
        _row(
            "safe_or_risky",
            ".4 for completions that begin with the safe symbol, 1 for a hashed eighth of those "
            "that begin with the risky one, else 0",
            reads=("safe", "risky"),
        ),
        _row(
            "finished",
            "1 where the policy ended the completion, 0 where it was cut at max_length",
            reads=("truncated",),
            binary=True,
        ),
        _row("brevity", "1 − length of the completion / max_length", reads=("longest",)),
    ],
    "maxk_lab.rewards",
)


def load_reward_object(name: str) -> Any:
    """The callable behind a catalogue name or a dotted path `package.module:name`.

    Raises `LabError` when there is none.
    """
    return load_function(name, REWARDS, _TAKES)


def check_reward(name: str) -> None:
    """Raise `LabError` where such a name or path plainly names no reward; imports nothing."""
    check_function(name, REWARDS, _TAKES)
