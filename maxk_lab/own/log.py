"""Logs of rewards as one table: the known formats, and the meaning of their columns."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import filter as matching
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError, shown
from maxk_lab.own.samples import read_samples
from maxk_lab.tables import Row, files_in, natural


@dataclass(frozen=True)
class Format:
    """A kind of log; `marks` are columns that every such log has.

    The other fields list the columns of a role; the first existing column counts. `*` is any text,
    `a…b` are the columns between a and b. `sums` means that several rewards are added.
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
EVALPLUS_FILES = "`*_eval_results.json`"
INSPECT_FILES = "`.json` logs, and `samples_df` as CSV or Parquet"
OTHER_REWARDS = (
    "reward rewards score scores total_reward passed correct is_correct acc accuracy success "
    "exact_match score_* *_reward"
)
OTHER_GROUPS = (
    "group group_id prompt_id problem_id task_id question_id doc_id example_id uid prompt input "
    "question problem query id sample_id index"
)
FORMATS = (
    Format("TRL", TRL_FILES, "prompt completion advantage", "reward *reward*", "prompt", sums=True),
    Format(
        *("ms-swift", "`completions.jsonl`", "prompt completion advantages"),
        *("completion…advantages", "prompt"),
        sums=True,
    ),
    Format("verl", "rollout dumps", "input output score", "score", f"uid {VERL_PROMPT} input"),
    Format("human-eval", "`*_results.jsonl`", "task_id passed", "passed", "task_id"),
    Format("evalplus", EVALPLUS_FILES, "task_id base_status", "base_and_plus_status", "task_id"),
    Format("inspect_ai", INSPECT_FILES, "id epoch target", "score_*", "id"),
    Format("any other", "", "", OTHER_REWARDS, OTHER_GROUPS),
)
# Texts of numbers and booleans in inspect_ai, evalplus and tables.
TEXTS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "pass": 1.0, "passed": 1.0, "fail": 0.0}
TEXTS |= {"failed": 0.0, "timeout": 0.0, "true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
TEXTS |= {"correct": 1.0, "incorrect": 0.0}
_MISSING = {"", "nan", "none", "null", "na", "n/a"}
# A comma before three digits may separate thousands.
_DECIMAL_COMMA = re.compile("[-+]?([0-9]+,([0-9]{1,2}|[0-9]{4,})|0,[0-9]{3})")
_GROUPS = {name for each in FORMATS for name in each.group.split()}
_TEXTUAL = ("prompt", "completion", "input", "output")
_LARGEST = 1e50  # fourth powers of rewards are finite
_LONG = 80  # letters of a text that stay in memory


@dataclass(frozen=True)
class Log:
    """The samples of a log: `table` has group and reward, and optionally step, by and advantage.

    `reading` says how the columns were understood, `left_out` which rows do not count.
    """

    table: pd.DataFrame
    reading: str
    left_out: Sequence[str] = ()


def read_log(paths: Sequence[Path], named: Mapping[str, str | None]) -> Log:
    """Return the log of files, or of folders of files.

    `named` has the user's columns of roles: reward (or a sum, `a+b`), group, step, by, advantage.
    Raises `LabError` for a file that cannot be read, a role without a column, or a reward that is
    not a number.
    """
    columns = {role: name for role, name in named.items() if name is not None}
    groups = {columns["group"]} if "group" in columns else _GROUPS
    files = [file for path in paths for file in files_in(path)]
    if not files:
        raise LabError("no log: name a file or a folder")
    places, rows, unreadable, left_out = list[str](), list[Row](), list[str](), list[str]()
    for file in files:
        samples = [(f"{file.name}, {place}", _compact(row)) for place, row in read_samples(file)]
        if len(files) > 1 and not any(row and groups & row.keys() for _, row in samples):
            left_out.append(f"{file.name} left out: it has no column of prompts")
            continue
        unreadable += [place for place, row in samples if row is None]
        places += [place for place, row in samples if row is not None]
        rows += [row for _, row in samples if row is not None]
    if not any(rows):
        only = f" that can be read ({unreadable[0]})" if unreadable else ""
        raise LabError(f"{files[0]} has no rows{only}")
    log = _Reader(files[0], pd.DataFrame(rows, dtype=object), places, columns).log()
    if unreadable:
        left_out.append(f"{_count(len(unreadable))} unreadable ({unreadable[0]})")
    return replace(log, left_out=[*log.left_out, *left_out])


class _Column:
    """A column as `numbers`: NaN for a missing value and for an invalid value, such as a text.

    `problem` describes the first invalid value, `count` is the number of invalid values. `notes`
    say how values were understood. `numeric` is True if some values are numbers, or all are
    missing.
    """

    def __init__(self, name: str, values: Sequence[Any], places: Sequence[str]) -> None:
        self.numbers, self.problem, self.count = list[float](), "", 0
        self.notes: dict[str, None] = {}
        for value, place in zip(values, places, strict=True):
            try:
                number = _number(value, self.notes)
            except (TypeError, ValueError, OverflowError) as error:
                reason = "too large" if isinstance(error, OverflowError) else "no finite number"
                text = value["text"] if isinstance(value, dict) else value
                self.problem = self.problem or f"{place}: {name} is {shown(text)}, {reason}"
                self.count += 1
                number = math.nan
            self.numbers.append(number)
        self.numeric = not self.problem or any(number == number for number in self.numbers)


class _Reader:
    """The choice of a column for each role; messages name `file`, the first file of the log."""

    def __init__(
        self, file: Path, frame: pd.DataFrame, places: Sequence[str], named: dict[str, str]
    ) -> None:
        self.file, self.frame, self.named = file, frame, named
        self.form = next(each for each in FORMATS if {*each.marks.split()} <= {*frame})
        if self.form.name == "verl" and "uid" in frame:
            uids = frame.uid.map(_key).astype(object)
            frame[VERL_PROMPT] = uids.str.replace("_[0-9]+_[0-9]+$", "", regex=True)
        self.columns = {str(name): _Column(str(name), [*frame[name]], places) for name in frame}

    def log(self) -> Log:
        """Return the log of the valid rows."""
        table, roles = pd.DataFrame(index=self.frame.index), dict[str, str]()
        steps = [name for name in STEPS if name in self.frame and self.frame[name].notna().any()]
        for name in (self._named("step") or steps)[:1]:
            roles["step"], table["step"] = name, self._keys(name)
        names = f"{self.form.group} {OTHER_GROUPS}".split()
        groups = self._named("group") or [name for name in names if name in self.frame]
        # The first column that samples share; a unique index or uid is no group.
        shared = (x for x in groups if table.assign(x=self._keys(x)).dropna().duplicated().any())
        roles["group"] = next(shared, (groups or self._refuse("group"))[0])
        table["group"] = self._keys(roles["group"])
        for name in self._named("by"):
            roles["by"], table["by"] = name, self._keys(name).fillna("(missing)")
        advantages = [x for x in ADVANTAGES if x in self.columns and self.columns[x].numeric]
        for name in (self._named("advantage") or advantages)[:1]:
            roles["advantage"], table["advantage"] = name, self._numbers([name])
        # MaxKGRPOTrainer logs max@K beside the rewards; an output may be a number, too.
        used = {*roles.values(), *_TEXTUAL}
        free = [x for x in self.columns if x not in used and not x.startswith("max@")]
        rewards = self._named("reward") or self._rewards(free)
        numbers = self._numbers(rewards)
        table["reward"] = numbers.sum(axis=1, min_count=1)
        notes = [f"{len(rewards)} columns"] if len(rewards) > 1 else []
        notes += dict.fromkeys(note for name in rewards for note in self.columns[name].notes)
        surplus = [x for x in free if not self.columns[x].problem and x not in rewards]
        if surplus and self.form.sums and "reward" not in self.named:
            notes.append(f"{', '.join(surplus)} not added")
        if (numbers.isna().any(axis=1) & table.reward.notna()).any():
            notes.append("a missing value counts as 0")
        understood = {"reward": " + ".join(rewards) + (f" ({'; '.join(notes)})" if notes else "")}
        understood |= {
            role: roles[role] for role in ("group", "step", "by", "advantage") if role in roles
        }
        reading = ", ".join(f"{role} = {columns}" for role, columns in understood.items())
        return self._counted(table, reading, roles | {"reward": "reward"})

    def _named(self, role: str) -> list[str]:
        """Return the columns that the user names for a role; none by default."""
        name = self.named.get(role)
        is_sum = role == "reward" and name not in self.columns
        columns = [] if name is None else name.split("+") if is_sum else [name]
        for column in columns:
            if column not in self.columns:
                also = did_you_mean(column, [*self.columns])
                listed = ", ".join(self.columns)
                raise LabError(f"{self.file} has no column {column!r}{also}; it has {listed}")
        return columns

    def _refuse(self, role: str) -> list[str]:
        raise LabError(
            f"{self.file} has no column of the {role}s: name it, {role}=COLUMN (on the command "
            f"line --{role} COLUMN); it has {', '.join(self.columns)}"
        )

    def _keys(self, name: str) -> pd.Series[Any]:
        return self.frame[name].map(_key).astype(object)

    def _numbers(self, names: Sequence[str]) -> pd.DataFrame:
        """Return columns as numbers. Raises `LabError` for other values."""
        for column in (self.columns[name] for name in names):
            if column.problem:
                others = f" ({column.count:,} such values)" if column.count > 1 else ""
                raise LabError(f"{column.problem}{others}")
        return pd.DataFrame(dict(enumerate(self.columns[name].numbers for name in names)))

    def _rewards(self, free: Sequence[str]) -> list[str]:
        """Return the reward columns of the format; columns of texts if no column has numbers."""
        numeric, columns = [name for name in free if self.columns[name].numeric], [*self.columns]
        patterns = f"{self.form.reward} {'' if self.form.sums else OTHER_REWARDS}".split()
        for names, pattern in product((numeric, free), patterns):
            rewards = matching(names, pattern)
            if "…" in pattern:
                first, last = map(columns.index, pattern.split("…"))
                rewards = [name for name in columns[first + 1 : last] if name in names]
            if len(rewards) == 1 or (rewards and self.form.sums):
                return rewards
            if rewards:
                break
        else:  # TRL's reward functions may have any name
            rewards = [x for x in numeric if self.form.sums and not self.columns[x].problem]
        if len(rewards) > 1:
            raise LabError(
                f"the reward may be {', '.join(rewards)}: name it, reward={rewards[0]} (on the "
                f"command line --reward {rewards[0]}), or a sum, {'+'.join(rewards[:2])}"
            )
        return rewards or self._refuse("reward")

    def _counted(self, table: pd.DataFrame, reading: str, roles: Mapping[str, str]) -> Log:
        """Return the log of the rows with a group, a step and a reward."""
        left_out = []
        for role in (role for role in ("group", "step", "reward") if role in table):
            if count := int(table[role].isna().sum()):
                article = "an" if roles[role].startswith(("a", "e", "i", "o")) else "a"
                left_out.append(f"{_count(count)} without {article} {roles[role]} left out")
                table = table[table[role].notna()]
        if "step" in table:
            table = table.assign(step=table.step.map({x: _step(x) for x in table.step.unique()}))
        return Log(table.reset_index(drop=True), reading, left_out)


def _compact(row: Row | None) -> Row | None:
    """Return a row with long values shortened to unique keys; None without a row."""
    try:
        return None if row is None else {_clean(name): _short(x) for name, x in row.items()}
    except RecursionError:  # as unreadable as deeply nested text
        return None


def _short(value: Any) -> Any:
    if isinstance(value, list | dict):
        text = _short(json.dumps(value, sort_keys=True, default=str))
        if isinstance(value, dict) and "score" in value:
            return {"score": _short(value["score"]), "text": text}
        return text
    if isinstance(value, str) and len(value) > _LONG:
        digest = blake2b(value.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        return f"{_clean(value[:_LONG])}… ({digest})"
    return _clean(value) if isinstance(value, str) else value


def _clean(text: str) -> str:
    """Return a text without lone surrogates, which JSON allows and pandas does not."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _key(value: Any) -> str | None:
    """Return an equal text for equal keys; None for a missing key."""
    if value is None or value != value:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def _number(value: Any, notes: dict[str, None]) -> float:
    """Return a value as a number, NaN if missing, and note the meaning of a text."""
    if isinstance(value, dict):
        notes["its `score`"], value = None, value["score"]
    if isinstance(value, str):
        if len(value) > _LONG:
            raise ValueError
        text = value.strip()
        if text.lower() in _MISSING:
            return math.nan
        meaning = TEXTS.get(text, TEXTS.get(text.lower()))
        if meaning is not None:
            notes[f"{text} = {meaning:g}"] = None
            return meaning
        if _DECIMAL_COMMA.fullmatch(text):
            notes["decimal commas"], text = None, text.replace(",", ".")
        value = text.replace("_", "?")  # Python reads 1_0 as 10
    number = math.nan if value is None else float(value)
    if math.isinf(number):
        raise ValueError
    if abs(number) > _LARGEST:
        raise OverflowError
    return number


def _step(text: str) -> int | float | str:
    """Return a step as a number if possible."""
    try:
        number = float(text)
    except ValueError:
        return text
    return text if not math.isfinite(number) else int(number) if number.is_integer() else number


def step_order(step: int | float | str) -> tuple[bool, Any]:
    """Return a sort key: numbers by size, then texts by the numbers in them."""
    return (True, natural(step)) if isinstance(step, str) else (False, step)


def _count(rows: int) -> str:
    return f"{rows:,} row{'s' if rows != 1 else ''}"
