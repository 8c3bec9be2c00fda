"""Logs of trainings as tables of rewards: JSON lines, CSV and Parquet, TRL's and verl's dumps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError

# What a log may call the columns that are read, the first that is there.
NAMES = {
    "reward": ("reward", "score", "rewards", "scores"),
    "group": ("group", "group_id", "prompt_id", "uid", "index", "prompt", "input", "question"),
    "step": ("step", "global_step", "training_step"),
    "advantage": ("advantage", "advantages"),
    "norm": ("norm", "grad_norm", "score_norm"),
}
# Columns of TRL's logs of completions that are no reward function.
_TRL = ("step", "prompt", "completion", "advantage")
# Rows that are read at a time.
_ROWS = 200_000


@dataclass
class Log:
    """A log, file by file; `columns` says which column is read as what.

    `damaged` counts lines that could not be read so far, `summed` names reward functions of TRL
    whose sum is the reward.
    """

    paths: Sequence[Path]
    columns: dict[str, str]
    damaged: int = 0
    summed: tuple[str, ...] = field(default=())

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Tables of at most `_ROWS` rows with the columns reward, group, step, advantage, norm.

        Those that a log does not have are left out.
        """
        for path in self.paths:
            for table in self._tables(path):
                yield self._as_asked(table, path)

    def _tables(self, path: Path) -> Iterator[pd.DataFrame]:
        try:
            if path.suffix == ".csv":
                yield from pd.read_csv(path, chunksize=_ROWS)
            elif path.suffix == ".parquet":
                yield from _parquet(path)
            else:
                yield from self._json_lines(path)
        except (OSError, ValueError, pd.errors.ParserError) as error:
            raise LabError(f"cannot read {path}: {error}") from error

    def _json_lines(self, path: Path) -> Iterator[pd.DataFrame]:
        with path.open(encoding="utf-8", errors="replace") as lines:
            while block := list(islice(lines, _ROWS)):
                try:
                    rows = json.loads(f"[{','.join(block)}]")
                except ValueError:  # a damaged line, as the last one of a run that was killed
                    rows = [row for line in block if (row := _row(line)) is not None]
                    self.damaged += sum(bool(line.strip()) for line in block) - len(rows)
                yield pd.DataFrame(rows)

    def _as_asked(self, table: pd.DataFrame, path: Path) -> pd.DataFrame:
        found = {}
        for name, column in self.columns.items():
            if column in table:
                found[name] = table[column]
            elif name == "reward" and self.summed:
                found[name] = table[list(self.summed)].sum(axis=1, min_count=1)
            else:
                raise LabError(f"{path} has no column {column!r}")
        for name in ("reward", "advantage", "norm"):
            if name in found:
                found[name] = pd.to_numeric(found[name], errors="coerce").astype(float)
        return pd.DataFrame(found)


def open_log(paths: Sequence[Path], asked: Mapping[str, str | None] | None = None) -> Log:
    """Open a log: files, or folders of them, in the order of the numbers in their names.

    `asked` names columns of the log, by `NAMES`. Raises `LabError` where there is no file, or no
    column of rewards or groups.
    """
    files = [file for path in paths for file in _files(path)]
    first = next(iter(Log(files, {})._tables(files[0])), pd.DataFrame())
    there = [str(column) for column in first.columns]
    columns: dict[str, str] = {}
    summed: tuple[str, ...] = ()
    for name, usual in NAMES.items():
        wanted = (asked or {}).get(name)
        if wanted is not None and wanted not in there:
            also = did_you_mean(wanted, there)
            raise LabError(f"{files[0]} has no column {wanted!r}{also}; it has {', '.join(there)}")
        column = wanted or next((one for one in usual if one in there), None)
        if column is not None:
            columns[name] = column
    if "reward" not in columns and {"prompt", "completion"} <= set(there):
        numbers = first.select_dtypes("number").columns
        summed = tuple(str(one) for one in numbers if one not in _TRL)
        if summed:
            columns["reward"] = " + ".join(summed)
    for name in ("reward", "group"):
        if name not in columns:
            raise LabError(
                f"{files[0]} has no column of the {name}s: name it, {name}=COLUMN (on the command "
                f"line --{name} COLUMN); it has {', '.join(there) or 'no columns'}"
            )
    return Log(files, columns, summed=summed)


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise LabError(f"there is no file {path}")
    if not path.is_dir():
        return [path]
    found = [file for file in path.iterdir() if file.suffix in (".jsonl", ".csv", ".parquet")]
    if not found:
        raise LabError(f"{path} has no .jsonl, .csv or .parquet file")
    return sorted(found, key=lambda file: (_number(file.stem), file.name))


def _number(stem: str) -> int:
    digits = "".join(letter for letter in stem if letter.isdigit())
    return int(digits) if digits else 0


def _row(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _parquet(path: Path) -> Iterator[pd.DataFrame]:
    try:
        from pyarrow import parquet
    except ImportError:
        extra = "the optional extra: pip install 'maxk-lab[parquet]'"
        raise LabError(f"reading {path} needs {extra}") from None
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(_ROWS):
            yield batch.to_pandas()
