"""All tables of a report as blocks: one for each place and group of measures."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from maxk_lab.reports.document import UNDEFINED, Block, exact, marked, sheet
from maxk_lab.reports.naming import listed, short_names, spelled
from maxk_lab.reports.tables import NAME, Tables, wide
from maxk_lab.statistics.intervals import EXACT, Interval
from maxk_lab.statistics.measures import Described, described
from maxk_lab.sweep_file.studies import GRID_AXES

# The most columns of numbers in a table, and the most rows named in a sentence.
_WIDEST, _NAMED = 8, 4
_PLACE = ("study", "environment", "stage")
_SIZES = ("k", "n")
_SIZE_HEADINGS = ("K", "n", "stage")
# The end of headings such as `Max@2`.
_OF_K = re.compile(r"@\d+")


def texts_of(tables: Tables) -> pd.DataFrame:
    """Return one line of texts for each row: its axes, numbers with intervals, and verdicts.

    The axes keep their values. A missing number is `—`; other missing texts are empty.
    """
    estimates = tables.estimates[tables.estimates.measure.notna()]
    columns = ("value", "low", "high", "level", "reason", "about")
    numbers = zip(*(estimates[name] for name in columns), strict=True)
    texts = estimates.assign(text=[_text(Interval(*number)) for number in numbers])
    index = list(NAME)
    by_row = texts.pivot(index=index, columns="measure", values="text").fillna("")
    table = wide(tables).set_index(index)
    words = [name for name in table if name in _WORDS]
    table[words] = table[words].fillna("").map(str)
    axes = [name for name in map(str, table.columns) if is_axis(name)]
    rest = ["seeds", "seeds_finished", "status", *words]
    return table[[*axes, *rest]].join(by_row).reset_index()


_WORDS = ("verdict", "bias", "bias_test", "best_at", "better_at", "worse_at")


def _text(interval: Interval) -> str:
    return exact(interval.value) if interval.question == EXACT else marked(interval)


def is_axis(name: str) -> bool:
    """Return whether a column identifies the row: an axis, or a varied key such as policy.seed."""
    parts = name.split(".")
    varied = len(parts) > 1 and all(word.isidentifier() for word in parts)
    return varied or name in (*GRID_AXES, "environment", "stage", "proxy", "start")


def detail_blocks(tables: Tables, words: Mapping[str, str]) -> Iterator[Block]:
    """Yield all tables; `words` has the name of each environment in titles."""
    lines = texts_of(tables)
    place = [name for name in _PLACE if name in lines]
    for key, rows in lines.groupby(place, sort=False, dropna=False):
        measures = {*tables.estimates.measure.dropna()}
        yield from _groups(rows, words.get(str(key[1]), str(key[1])), measures)
    yield from _undefined(tables.estimates)


def _column(name: str, measures: Collection[str]) -> Described | None:
    """Return the description of a column; an unknown measure has its name only."""
    if (column := described(name)) is None and name in measures:
        return Described(name, "a number of its kind of study", "numbers")
    return column


def _groups(rows: pd.DataFrame, environment: str, measures: Collection[str]) -> Iterator[Block]:
    """Yield a table for each group of measures that these rows have."""
    groups: dict[str, list[Any]] = {}
    for column in filter(None, (_column(name, measures) for name in map(str, rows.columns))):
        if column.group and rows[column.name].fillna("").str.strip(UNDEFINED).any():
            groups.setdefault(column.group, []).append(column)
    for group, columns in groups.items():
        texts = rows[[column.name for column in columns]].fillna("")
        measured = texts.astype(bool).any(axis=1)
        texts = texts[measured]
        keys, same = _key_columns(rows[measured], [column.heading for column in columns])
        where = ", ".join([environment, *same])
        sizes = rows.loc[measured, [name for name in _SIZES if name in rows]]
        breaks = list(sizes.itertuples(index=False, name=None))
        # All K share one meaning.
        caption = dict.fromkeys(f"{_OF_K.sub('@K', c.heading)}: {c.meaning}." for c in columns)
        parts = -(-len(columns) // _WIDEST)
        size = -(-len(columns) // parts)
        for number in range(parts):
            some = columns[number * size : (number + 1) * size]
            place = f" ({number + 1} of {parts})" if parts > 1 else ""
            title = f"{group[:1].upper()}{group[1:]}{place}: {where}"
            headings = {column.name: column.heading for column in some}
            table = keys.join(texts[list(headings)].rename(columns=headings))
            numeric = [*_SIZE_HEADINGS, *(c.heading for c in some if not c.words)]
            yield sheet(title, table, numeric, () if number else caption, breaks)


def _key_columns(rows: pd.DataFrame, numbers: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """Return the axes in which these rows differ, as texts, and words for the equal axes.

    An axis has its whole name if its last word is a heading of the `numbers`.
    """
    axes = [name for name in map(str, rows.columns) if is_axis(name) and name != "environment"]
    words = short_names(axes) | {"k": "K"}
    headings = {name: name if word in numbers else word for name, word in words.items()}
    keys: dict[str, pd.Series[str]] = {}
    same: list[str] = []
    for name in axes:
        values = rows[name].astype(object).where(rows[name].notna(), "")
        texts = values.map(spelled)
        if texts.nunique() > 1 or (len(rows) == 1 and name in ("estimator", "baseline")):
            keys[headings[name]] = texts
        elif texts.iloc[0]:
            method = name in ("estimator", "baseline")
            same.append(texts.iloc[0] if method else f"{headings[name]} = {texts.iloc[0]}")
    if (rows.seeds != rows.seeds_finished).any():
        keys["seeds"] = rows.seeds_finished.map(str) + "/" + rows.seeds.map(str)
    return pd.DataFrame(keys, index=rows.index), same


def _undefined(estimates: pd.DataFrame) -> Iterator[Block]:
    """Yield the table of numbers without a value or an interval, by reason."""
    unknown = estimates[estimates.low.isna()]
    items = []
    for reason, lines in unknown.groupby("reason", sort=False):
        rows = listed(list(dict.fromkeys(lines.row)), _NAMED)
        measures = listed(list(dict.fromkeys(lines.measure.dropna())), _NAMED) or "all numbers"
        items.append(f"{reason}: {measures} of {rows}")
    if items:
        yield Block("Numbers without a value or an interval", items=tuple(items))


def chosen_table(
    tables: Tables, columns: Sequence[str], words: Mapping[str, str], level: float
) -> Block:
    """Return the table of the chosen columns, with a column K if the rows differ in K."""
    lines = texts_of(tables)
    every = list(map(str, lines.columns))
    if measured := [name for name in columns if not is_axis(name)]:
        lines = lines[lines[measured].astype(bool).any(axis=1)]
    differing = [name for name in every if is_axis(name) and lines[name].map(str).nunique() > 1]
    names = list(columns)
    if "k" in differing and "k" not in names:
        axes = sum(is_axis(name) for name in names)
        names.insert(axes, "k")
    hidden = [name for name in differing if name not in names]
    table = lines[names].astype(object).where(lines[names].notna(), "").map(spelled)
    headings = ["K" if name == "k" else name.replace("_", " ") for name in names]
    numeric = [heading for name, heading in zip(names, headings, strict=True) if name not in _TEXTS]
    environments = ", ".join(words.get(each, each) for each in lines.environment.unique())
    single_k = f", K = {lines.k.iloc[0]}" if "k" not in names and len(lines) else ""
    rest = f"; the rows differ in {', '.join(hidden)}, too" if hidden else ""
    intervals = bool(table.map(lambda text: " [" in text).to_numpy().any())
    brackets = f"; {level:.0%} confidence intervals in brackets" * intervals
    caption = f"{environments}{single_k}{brackets}{rest}."
    return sheet("Chosen columns", table.set_axis(headings, axis=1), numeric, [caption])


_TEXTS = ("environment", "estimator", "baseline", "study", "row", "status", *_WORDS)
