"""Rows of a file: JSON lines, JSON, CSV and Parquet, compressed or not."""

from __future__ import annotations

import csv
import gzip
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any

from maxk_lab.errors import LabError, first_line, shown

SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
Row = dict[str, Any]
Places = Iterator[tuple[str, Row | None]]
_UNREADABLE = (OSError, ValueError, OverflowError, EOFError, RecursionError, zlib.error)


def files_in(path: Path) -> list[Path]:
    """Return a file, or the files of a folder that may hold rows, in numeric order of names."""
    if path.is_file():
        return [path]
    if not path.is_dir():  # a pipe cannot be read twice
        reason = "is no file" if path.exists() else "does not exist"
        raise LabError(f"{path.absolute()} {reason}")
    try:
        inside = sorted(path.iterdir())
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}") from None
    files = [file for file in inside if _suffix(file) and not file.name.startswith(".")]
    if not files:
        folders = ", ".join(each.name for each in inside if each.is_dir())
        also = f"; it has the folders {folders}" if folders else ""
        raise LabError(f"{path} has no {', '.join(SUFFIXES)} file{also}")
    return sorted(files, key=lambda file: natural(file.name))


def natural(text: str) -> list[Any]:
    """Return a sort key by which 9 comes before 10."""
    pieces = re.split("([0-9]{1,18})", text)
    return [int(piece) if i % 2 else piece for i, piece in enumerate(pieces)]


def read_rows(path: Path) -> Places:
    """Yield (place, row) for every row of a file; the row is None if it cannot be read.

    A JSON document that is no list is one row. The content determines the format. Raises `LabError`
    for any other format.
    """
    try:
        with path.open("rb") as file:
            start = file.read(4)
        if start == b"PAR1":
            yield from _parquet(path)
        elif start == b"PK\3\4":
            advice = "inspect log convert --to json for inspect_ai; Excel can save as CSV"
            raise LabError(f"{path} is an archive, turn it into JSON or CSV: {advice}")
        else:
            with _opened(path, start) as text:
                yield from _texts(path, text)
    except LabError:
        raise
    except _UNREADABLE as error:
        raise LabError(f"cannot read {path}: {first_line(error)}") from None


@contextmanager
def _opened(path: Path, start: bytes) -> Iterator[IO[str]]:
    """Open a text file, compressed or not, in the encoding of its byte order mark."""
    opened: Any = gzip.open if start[:2] == b"\x1f\x8b" else open
    with opened(path, "rb") as file:
        mark = file.read(2)
    encoding = "utf-16" if mark in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    with opened(path, "rt", encoding=encoding, errors="surrogateescape", newline="") as text:
        yield text


def _texts(path: Path, text: IO[str]) -> Places:
    start = text.read(2**16)
    text.seek(0)
    if "\0" in start:
        raise LabError(f"{path} is not JSON, CSV or Parquet")
    is_json = start.lstrip()[:1] in ("{", "[") or _suffix(path) in SUFFIXES[:3]
    return _json(text) if is_json else _csv(path, text)


def _json(text: IO[str]) -> Places:
    """Yield the rows of JSON lines, or of one JSON document over several lines."""
    first = next((line for line in text if line.strip()), "")
    text.seek(0)
    if _parsed(first) is None and (document := _parsed(text.read())) is not None:
        yield from _listed("", document)
        return
    text.seek(0)
    for number, line in enumerate(text, start=1):
        if line.strip():
            yield from _listed(f"line {number}", _parsed(line))


def _parsed(text: str) -> Any:
    """Return a JSON object or list; None for any other text."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict | list) else None


def _csv(path: Path, text: IO[str]) -> Places:
    """Yield the rows of a table; the header determines the separator, and spaces after it."""
    header = re.sub('"[^"]*"', "", next((line for line in text if line.strip()), ""))
    text.seek(0)
    separator = max(",;\t|", key=header.count)
    if separator not in header:  # a table of one column may have texts with spaces
        separator = " " if " " in header.strip() else "\t"
    spaced = bool(re.search(f"[{separator}] ", header))
    csv.field_size_limit(2**31 - 1)
    table = csv.reader(text, delimiter=separator, skipinitialspace=spaced, strict=True)
    try:
        names = next((fields for fields in table if "".join(fields).strip()), [])
        names = [name.strip() for name in names]
        _check_names(path, names)
        for fields in table:
            row = {name: field or None for name, field in zip(names, fields, strict=False)}
            if fields:
                yield f"line {table.line_num}", None if any(fields[len(names) :]) else row
    except csv.Error as error:
        raise LabError(f"cannot read {path}, line {table.line_num}: {error}") from None


def _check_names(path: Path, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise LabError(f"{path} has two columns {shown(name)}")


def _parquet(path: Path) -> Places:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        extra = "the optional extra: pip install 'maxk-lab[parquet]'"
        raise LabError(f"reading {path} needs {extra}") from None
    try:
        with parquet.ParquetFile(path) as file:
            _check_names(path, file.schema_arrow.names)
            rows = chain.from_iterable(batch.to_pylist() for batch in file.iter_batches(10_000))
            for number, row in enumerate(rows, start=1):
                yield f"row {number}", row
    except ArrowException as error:
        raise LabError(f"cannot read {path}: {first_line(error)}") from None


def _listed(place: str, document: Any) -> Places:
    """Yield a JSON object, or the objects of a list."""
    if isinstance(document, list):
        for number, row in enumerate(document, start=1):
            inside = f"{place}, row {number}" if place else f"row {number}"
            yield inside, row if isinstance(row, dict) else None
    else:
        yield place or "row 1", document


def _suffix(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")
