"""The samples of a log: rows of a file, also from nested JSON objects."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from maxk_lab.tables import Places, Row, read_rows

# Columns that may hold a reward or a list of rewards, and columns of a sample.
_REWARD = re.compile("rewards?|scores?|.*_reward|passed|correct|is_correct")
_SAMPLE = re.compile(f"{_REWARD.pattern}|completion|output|advantages?")


def read_samples(path: Path) -> Places:
    """Yield (place, row) for every sample of a file; the row is None if it cannot be read."""
    for place, document in read_rows(path):
        rows = [None] if document is None else _rows_of(document)
        for number, row in enumerate(rows, start=1):
            inside = place if len(rows) == 1 else f"{place}, sample {number}"
            yield inside, _scored(row) if isinstance(row, dict) else None


def _rows_of(document: Row) -> list[Any]:
    """The rows of a JSON object: of a table, of a step or of a prompt, or the object itself."""
    names, data, tasks = (document.get(key) for key in ("columns", "data", "eval"))
    if isinstance(names, list) and isinstance(data, list):  # W&B, and pandas
        return [dict(zip(map(str, names), row, strict=False)) for row in data if _is_list(row)]
    columns, lists = [*document.values()], {x: y for x, y in document.items() if _is_list(y)}
    if not any(map(_SAMPLE.fullmatch, document)):
        if isinstance(tasks, dict) and tasks and all(map(_is_list, tasks.values())):
            return [row for rows in tasks.values() for row in rows]  # evalplus
        tables = [rows for rows in lists.values() if _is_table(rows)]
        if tables:  # inspect_ai, and rows of a step or of a prompt
            scalars = {x: y for x, y in document.items() if not isinstance(y, list | dict)}
            return [scalars | row for row in max(tables, key=len)]
    are_dicts = len(columns) > 1 and all(isinstance(column, dict) for column in columns)
    if are_dicts and all(column.keys() == columns[0].keys() for column in columns):  # pandas
        if not any(map(_REWARD.fullmatch, document)):
            return columns
        return [{name: document[name][row] for name in document} for row in columns[0]]
    rewards = [column for name, column in document.items() if _REWARD.fullmatch(name)]
    if len(lists) == len(columns) > 1:  # a step of ms-swift
        length = len(columns[0])
    elif rewards and all(map(_is_list, rewards)):  # a prompt with the rewards of its samples
        length = len(rewards[0])
    else:
        return [document]
    scalars = {name: value for name, value in document.items() if name not in lists}
    lists = {name: column for name, column in lists.items() if len(column) == length}
    rows = zip(*lists.values(), strict=True)
    return [scalars | dict(zip(lists, row, strict=True)) for row in rows]


def _is_list(value: Any) -> bool:
    """Return whether a value is a list, but not a conversation."""
    is_chat = isinstance(value, list) and any(isinstance(x, dict) and "role" in x for x in value)
    return isinstance(value, list) and not is_chat


def _is_table(rows: list[Any]) -> bool:
    """Return whether a list holds samples: objects with a reward or an output."""
    names = {name for row in rows if isinstance(row, dict) for name in row}
    return all(isinstance(row, dict) for row in rows) and any(map(_SAMPLE.fullmatch, names))


def _scored(row: Row) -> Row:
    """Return a row with a column for each scorer of inspect_ai, and evalplus's verdict."""
    scores = row.get("scores")
    if isinstance(scores, dict):
        scored = {name: x for name, x in scores.items() if isinstance(x, dict)}
        row = row | {f"score_{name}": x["value"] for name, x in scored.items() if "value" in x}
    if "base_status" in row:
        both = row["base_status"], row.get("plus_status")
        row = row | {"base_and_plus_status": all(status in ("pass", None) for status in both)}
    return row
