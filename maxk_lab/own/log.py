"""Logs of rewards as one table: the formats that are read, and what their columns mean."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import filter as matching
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pandas as pd

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError, shown
from maxk_lab.own.samples import read_samples
from maxk_lab.tables import files_in, natural


@dataclass(frozen=True)
class Format:
    """A kind of log, recognised by its `marks`: columns that every such log has.

    The other fields list the columns of a role; the first that exists counts. `*` is any text,
    `a…b` are the columns between a and b. `sums`: several rewards are added.
    """

    name: str
    files: str
    marks: str
    reward: str
    group: str
    sums: bool = False


STEPS = ("step", "global_step", "training_step", "gen_step")
ADVANTAGES = ("advantage", "advantages")


# verl 0.9 numbers the samples of a prompt in their uid: PROMPT_ROLLOUT_OUTPUT.
VERL_PROMPT = "PROMPT_of_uid"
TRL_FILES = "`completions/*.parquet` and its tables in W&B"
INSPECT_FILES = "`.json` logs, and `samples_df` as CSV or Parquet"
TRL, *_, OTHER = FORMATS = (
    Format("TRL", TRL_FILES, "prompt completion advantage", "reward *reward*", "prompt", sums=True),
    Format(
        *("ms-swift", "`completions.jsonl`", "prompt completion advantages"),
        *("completion…advantages", "prompt"),
        sums=True,
    ),
    Format("verl", "rollout dumps", "input output score", "score", f"uid {VERL_PROMPT} input"),
    Format("human-eval", "`*_results.jsonl`", "task_id passed", "passed", "task_id"),
    Format(
        "evalplus",
        "`*_eval_results.json`",
        "task_id base_status",
        "base_and_plus_status",
        "task_id",
    ),
    Format("inspect_ai", INSPECT_FILES, "id epoch target", "score_*", "id"),
    Format(
        *("any other", "", ""),
        "reward rewards score scores total_reward passed correct is_correct acc accuracy success "
        "score_* *_reward",
        "group group_id prompt_id problem_id task_id question_id uid prompt input question problem "
        "query id sample_id index",
    ),
)
# Texts that mean a number, as inspect_ai, evalplus and tables of booleans write them.
TEXTS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "pass": 1.0, "passed": 1.0, "fail": 0.0}
TEXTS |= {"failed": 0.0, "timeout": 0.0, "true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
TEXTS |= {"correct": 1.0, "incorrect": 0.0}
_MISSING = {"", "nan", "none", "null", "na", "n/a"}
_GROUPS = {name for each in FORMATS for name in each.group.split()}
_KEYS = _GROUPS | {*STEPS}
_NUMBERS = {*ADVANTAGES, *(name for each in FORMATS for name in each.reward.split())}
_ROWS = 50_000  # rows in memory as objects


@dataclass(frozen=True)
class Log:
    """The samples of a log: `table` [group, reward] and [step, advantage] where a log has them.

    `reading` says how the columns were understood, `left_out` what does not count. `missing` are
    samples without a reward, `damaged` rows that cannot be read.
    """

    table: pd.DataFrame
    reading: str
    left_out: list[str]
    missing: int
    damaged: int


def read_log(paths: Sequence[Path], named: Mapping[str, str | None]) -> Log:
    """Read files, or folders of them, as one log.

    `named` names the column of a role: reward (or a sum, `a+b`), group, step, advantage. Raises
    `LabError` for a file that cannot be read, a role without a column, a reward that is no number.
    """
    columns = _Columns({role: name for role, name in named.items() if name is not None})
    files = [file for path in paths for file in files_in(path)]
    for file in files:
        columns.read(file, alone=len(files) == 1)
    return columns.log(files[0])


class _Columns:
    """The columns of files: `keys`, which are texts, and `numbers`, a row for each sample."""

    def __init__(self, named: dict[str, str]) -> None:
        self.named = named
        self.needed = {*named.values(), *named.get("reward", "").split("+")}
        self.groups = {named["group"]} if "group" in named else _GROUPS
        self.names: dict[str, None] = {}  # of all columns, in their order
        self.keys, self.numbers = [pd.DataFrame()], [pd.DataFrame()]
        self.texts: set[str] = set()  # columns that are neither
        self.bad: dict[str, tuple[str, int]] = {}  # by column: the first bad value, their number
        self.notes: dict[str, dict[str, None]] = {}  # by column: how it was understood
        self.left_out: list[str] = []
        self.damaged: list[str] = []
        self.interned: dict[str, str] = {}

    def read(self, file: Path, alone: bool) -> None:
        """Read a file; it is left out where it has no prompts and there are other files."""
        rows, begun = read_samples(file), False
        while block := list(islice(rows, _ROWS)):
            places = [f"{file.name}, {place}" for place, row in block if row is not None]
            samples = [row for _, row in block if row is not None]
            names = {_clean(name): name for name in chain.from_iterable(samples)}
            if not (alone or begun or self.groups & names.keys()):
                self.left_out.append(f"{file.name} left out: it has no column of prompts")
                return
            begun = True
            self.damaged += [f"{file.name}, {place}" for place, row in block if row is None]
            self.names |= dict.fromkeys(names)
            keys, numbers = {}, {}
            for name, raw in names.items():
                values = [row.get(raw) for row in samples]
                if name in _KEYS or name in self.needed:
                    keys[name] = [self._key(value) for value in values]
                if (column := self._as_numbers(name, values, places)) is not None:
                    numbers[name] = column
            index = range(len(samples))
            self.keys.append(pd.DataFrame(keys, index=index, dtype=object))
            self.numbers.append(pd.DataFrame(numbers, index=index, dtype=float))

    def _key(self, value: Any) -> str | None:
        """Return a text that equal keys share; None for a missing key."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        try:
            is_text = isinstance(value, str)
            text = value if is_text else json.dumps(value, sort_keys=True, default=str)
        except (RecursionError, TypeError):  # TypeError: keys of several types in one map
            raise LabError(f"a key cannot be compared: {shown(value)}") from None
        return self.interned.setdefault(text, _clean(text))

    def _as_numbers(
        self, name: str, values: Sequence[Any], places: Sequence[str]
    ) -> list[float] | None:
        """Return a column as numbers, NaN for a missing one; None for a column of texts."""
        numbers = []
        for value, place in zip(values, places, strict=True):
            try:
                numbers.append(self._number(name, value))
            except (TypeError, ValueError, OverflowError):
                if name not in self.needed and not any(matching([name], x) for x in _NUMBERS):
                    self.texts.add(name)
                    return None
                first, count = self.bad.get(name, (f"{place}: {name} is {shown(value)}", 0))
                self.bad[name] = first, count + 1
                numbers.append(math.nan)
        return numbers

    def _number(self, name: str, value: Any) -> float:
        notes = self.notes.setdefault(name, {})
        if isinstance(value, dict) and "score" in value:
            notes["its `score`"], value = None, value["score"]
        if value is None:
            return math.nan
        if isinstance(value, str):
            text = value.strip()
            if text.lower() in _MISSING:
                return math.nan
            meaning = TEXTS.get(text, TEXTS.get(text.lower()))
            if meaning is not None:
                notes[f"{text} = {meaning:g}"] = None
                return meaning
            if re.fullmatch("[-+]?[0-9]+,[0-9]+", text):
                notes["decimal commas"], text = None, text.replace(",", ".")
            value = text.replace("_", "?")  # Python reads 1_0 as 10
        number = float(value)
        if math.isinf(number):
            raise ValueError
        return number

    def log(self, file: Path) -> Log:
        """Choose the columns of all roles; `file` is the first, which messages name."""
        if not self.names:
            damaged = f" that can be read ({self.damaged[0]})" if self.damaged else ""
            raise LabError(f"{file} has no rows{damaged}")
        keys = pd.concat(self.keys, ignore_index=True)
        numbers = pd.concat(self.numbers, ignore_index=True)
        numbers = numbers.drop(columns=self.texts & {*numbers})
        form = next(each for each in FORMATS if {*each.marks.split()} <= self.names.keys())
        if form.name == "verl" and "uid" in keys:
            keys[VERL_PROMPT] = keys.uid.str.replace("_[0-9]+_[0-9]+$", "", regex=True)
        table, roles = pd.DataFrame(index=keys.index), {}
        steps = [name for name in STEPS if name in keys and keys[name].notna().any()]
        for name in (self._named("step", file) or steps)[:1]:
            roles["step"], table["step"] = name, keys[name]
        groups = [name for name in f"{form.group} {OTHER.group}".split() if name in keys]
        groups = self._named("group", file) or groups or self._refuse("group", file)
        # The first whose keys samples share: an index, or a uid of samples, is no group.
        shared = (x for x in groups if table.assign(x=keys[x]).dropna().duplicated().any())
        roles["group"] = next(shared, groups[0])
        table["group"] = keys[roles["group"]]
        texts = {name for name in self.bad if name in numbers and numbers[name].isna().all()}
        advantages = [name for name in ADVANTAGES if name in numbers and name not in texts]
        for name in (self._named("advantage", file) or advantages)[:1]:
            roles["advantage"], table["advantage"] = name, numbers[name]
        # MaxKGRPOTrainer logs max@K beside the rewards.
        free = [
            str(x) for x in numbers if x not in roles.values() and not str(x).startswith("max@")
        ]
        rewards = self._named("reward", file)
        rewards = rewards or self._rewards(form, [name for name in free if name not in texts])
        rewards = rewards or self._rewards(form, free) or self._refuse("reward", file)
        for name in (*rewards, roles.get("advantage", "")):
            if name in self.bad:
                value, count = self.bad[name]
                also = f" ({count:,} such values)" if count > 1 else ""
                raise LabError(f"{value}, no finite number{also}")
        table["reward"] = numbers[rewards].sum(axis=1, min_count=1)
        if (numbers[rewards].isna().any(axis=1) & table.reward.notna()).any():
            self.notes[rewards[0]]["a missing value counts as 0"] = None
        return self._counted(table, roles, rewards)

    def _named(self, role: str, file: Path) -> list[str]:
        """Return the columns that the user names for a role; none if the user does not."""
        name = self.named.get(role)
        is_sum = role == "reward" and name not in self.names
        columns = [] if name is None else name.split("+") if is_sum else [name]
        for column in columns:
            if column not in self.names:
                also = did_you_mean(column, [*self.names])
                listed = ", ".join(self.names)
                raise LabError(f"{file} has no column {column!r}{also}; it has {listed}")
        return columns

    def _refuse(self, role: str, file: Path) -> list[str]:
        raise LabError(
            f"{file} has no column of the {role}s: name it, {role}=COLUMN (on the command line "
            f"--{role} COLUMN); it has {', '.join(self.names)}"
        )

    def _rewards(self, form: Format, free: list[str]) -> list[str]:
        """Return the columns that the format calls rewards, of the free columns of numbers."""
        names, columns = list(self.names), list[str]()
        for pattern in f"{form.reward} {'' if form.sums else OTHER.reward}".split():
            if "…" in pattern and not columns:
                first, last = map(names.index, pattern.split("…"))
                columns = [name for name in names[first:last] if name in free]
            columns = columns or matching(free, pattern)
        choices = columns if columns or not form.sums else free
        if len(choices) > 1 and not (columns and form.sums):
            raise LabError(
                f"the reward may be {', '.join(choices)}: name it, reward={choices[0]} (on the "
                f"command line --reward {choices[0]}), or a sum, {'+'.join(choices[:2])}"
            )
        if form.sums and choices and (others := [name for name in free if name not in choices]):
            self.notes[choices[0]][f"{', '.join(others)} not added"] = None
        return choices

    def _counted(self, table: pd.DataFrame, roles: dict[str, str], rewards: list[str]) -> Log:
        """Return the log of the rows that count, and what is said of it."""
        left_out = list(self.left_out)
        for role in ("group", "step"):
            if role in roles and (count := int(table[role].isna().sum())):
                article = "an" if roles[role][0] in "aeio" else "a"
                left_out.append(f"{_rows(count)} without {article} {roles[role]} left out")
                table = table[table[role].notna()]
        if missing := int(table.reward.isna().sum()):
            left_out.append(f"{_rows(missing)} without a reward left out")
        if self.damaged:
            left_out.append(f"{_rows(len(self.damaged))} unreadable ({self.damaged[0]})")
        if "step" in table:
            table = table.assign(step=table.step.map({x: _step(x) for x in table.step.unique()}))
        notes = [f"{len(rewards)} columns"] if len(rewards) > 1 else []
        notes += dict.fromkeys(note for name in rewards for note in self.notes.get(name, ()))
        names = {"reward": " + ".join(rewards) + (f" ({'; '.join(notes)})" if notes else "")}
        order = ("reward", "group", "step", "advantage")
        roles = roles | names
        reading = ", ".join(f"{role} = {roles[role]}" for role in order if role in roles)
        rows = table[table.reward.notna()].reset_index(drop=True)
        return Log(rows, reading, left_out, missing, len(self.damaged))


def _clean(text: str) -> str:
    """Return a text without halves of characters, which JSON may hold and pandas does not."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _step(text: str) -> int | float | str:
    """Return a step as a number where it is one."""
    try:
        number = float(text)
    except ValueError:
        return text
    return text if not math.isfinite(number) else int(number) if number.is_integer() else number


def step_order(step: int | float | str) -> tuple[bool, Any]:
    """Return a sort key: numbers by their size, then texts by the numbers in them."""
    return (True, natural(step)) if isinstance(step, str) else (False, step)


def _rows(count: int) -> str:
    return f"{count:,} row{'s' if count != 1 else ''}"
