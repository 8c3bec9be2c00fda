"""The catalogue of reward functions of completions. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maxk_lab.catalogue import Catalogue, Row, load
from maxk_lab.errors import LabError


@dataclass(frozen=True, kw_only=True)
class RewardRow(Row):
    """A reward function of completions: the columns it reads and whether it gives only 0 and 1."""

    reads: tuple[str, ...] = ()
    binary: bool = False


REWARDS: Catalogue[RewardRow] = Catalogue(
    "reward function",
    [
        RewardRow(
            name="exact_match",
            meaning="1 where the completion is the task's answer, else 0",
            implementation="maxk_lab.environments.language.reward_functions:exact_match",
            reads=("answer",),
            binary=True,
        ),
        RewardRow(
            name="single_symbol",
            meaning="1 where the completion is the one symbol of the answer, then the end; else 0",
            implementation="maxk_lab.environments.language.reward_functions:single_symbol",
            reads=("answer", "truncated"),
            binary=True,
        ),
        RewardRow(
            name="edit_similarity",
            meaning="1 − edit distance to the answer / length of the longer text, in [0, 1]",
            implementation="maxk_lab.environments.language.reward_functions:edit_similarity",
            citation="Levenshtein 1966",
            reads=("answer",),
        ),
        RewardRow(
            name="safe_or_risky",
            meaning=".4 for completions that begin with the safe symbol, 1 for a hashed eighth of "
            "those that begin "
            "with the risky one, else 0",
            implementation="maxk_lab.environments.language.reward_functions:safe_or_risky",
            reads=("safe", "risky"),
        ),
        RewardRow(
            name="finished",
            meaning="1 where the policy ended the completion, 0 where it was cut at max_length",
            implementation="maxk_lab.environments.language.reward_functions:finished",
            reads=("truncated",),
            binary=True,
        ),
        RewardRow(
            name="brevity",
            meaning="1 − length of the completion / max_length",
            implementation="maxk_lab.environments.language.reward_functions:brevity",
            reads=("longest",),
        ),
    ],
    "maxk_lab.rewards",
)


def load_reward_object(name: str) -> Any:
    """The callable behind a catalogue name or a dotted path `package.module:name`.

    Raises `LabError` when there is none.
    """
    if ":" not in name:
        try:
            return load(REWARDS.get(name).implementation)
        except LabError as error:
            raise LabError(f"{error}; or a dotted path package.module:name") from None
    try:
        found = load(name)
    except Exception as error:  # the user's module may raise anything when it is imported
        hint = (
            "looked for among the installed packages and in the folder where maxk-lab was started"
        )
        raise LabError(f"cannot load the reward function {name!r}: {error} ({hint})") from error
    if isinstance(found, type) or not callable(found):
        raise LabError(
            f"the reward function {name!r} must be a function (prompts, completions, **columns) or "
            "a torch module, got "
            f"{'the class ' + found.__name__ if isinstance(found, type) else repr(found)}"
        )
    return found
