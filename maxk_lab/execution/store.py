"""The store: the records of a run as lines of append-only files, each with one writer.

A segment is a file to which one process appends records. Cells are deterministic, so a second
record of a cell does no harm. The record that counts has the largest attempt; ties go to a done
record, then to the last segment by name. Segments of several machines can share a folder.

A line is `<crc32> <head>\\t<body>`, both JSON. A last line without newline is incomplete.
"""

from __future__ import annotations

import json
import os
import secrets
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import PositiveInt, StringConstraints, TypeAdapter, ValidationError
from pydantic_core import from_json

from maxk_lab.errors import RefusedError, warn
from maxk_lab.files import StorageError, sync_folder

Status = Literal["done", "failed"]
SUFFIX = ".jsonl"


class Head(NamedTuple):
    """The index entry of a record: its cell, attempt and status, and the place of its line.

    `attempt` counts the measurements of the cell from 1; `seconds` is the time since the previous
    record of its unit, or since its start. The line begins at `offset` of the segment and has
    `length` bytes and the CRC-32 `checksum`.
    """

    id: Annotated[str, StringConstraints(pattern="^[0-9a-f]{16}$")]
    attempt: PositiveInt
    status: Status
    seconds: float
    checksum: int = 0
    segment: str = ""
    offset: int = 0
    length: int = 0

    @property
    def rank(self) -> tuple[int, bool, str, int]:
        """The order of records of a cell; the largest counts."""
        return self.attempt, self.status == "done", self.segment, self.offset


_HEAD = TypeAdapter(Head)


def head_of(line: bytes) -> Head:
    """Return the head of a line. Raises `ValueError` if the line is unreadable."""
    text = line[9:-1]
    if line[8:9] != b" " or line[-1:] != b"\n" or line[:8] != b"%08x" % zlib.crc32(text):
        raise ValueError("its checksum does not fit its content")
    try:
        head = _HEAD.validate_json(text.partition(b"\t")[0], strict=True)
    except ValidationError:
        raise ValueError("it has no head of a record") from None
    return head._replace(checksum=int(line[:8], 16))


def line_of(head: Mapping[str, Any], body: Mapping[str, Any]) -> bytes:
    """Return the line of a record. Raises `ValueError` or `TypeError` if JSON cannot hold it."""
    text = _json(head) + b"\t" + _json(body)
    return b"%08x %s\n" % (zlib.crc32(text), text)


def body_of(line: bytes) -> Any:
    """Return the body of a line whose checksum is right. Raises `ValueError`."""
    return from_json(line[9:-1].partition(b"\t")[2], allow_inf_nan=False)


def unreadable_line(path: Path, line: int, error: Exception) -> str:
    """Return the warning about an unreadable line."""
    return (
        f"{path}:{line}: unreadable record: {error}; its cell counts as missing; "
        "delete the line and run the sweep again"
    )


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


class Store:
    """A reader of a folder of segments.

    `heads` has the head of the record that counts, by cell id, as of the last refresh.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.heads: dict[str, Head] = {}
        # How many bytes and lines of each segment were read.
        self._read: dict[str, tuple[int, int]] = {}

    def refresh(self) -> list[Head]:
        """Read the lines appended since the last refresh; return the heads that now count.

        Warns about unreadable lines. Raises `RefusedError` if the folder cannot be read.
        """
        try:
            names = sorted(name for name in os.listdir(self.folder) if name.endswith(SUFFIX))
        except FileNotFoundError:
            names = []
        except OSError as error:
            raise RefusedError(f"{self.folder} cannot be read: {error.strerror}") from error
        before: dict[str, Head] = {}
        if not self._read.keys() <= set(names):
            # A segment is gone, and its records no longer count.
            before, self.heads, self._read = self.heads, {}, {}
        changed: dict[str, Head] = {}
        unreadable: list[str] = []
        for head in (head for name in names for head in self._new_heads(name, unreadable)):
            best = self.heads.get(head.id)
            if best is None or head.rank > best.rank:
                self.heads[head.id] = changed[head.id] = head
        if unreadable:
            more = f" (and {len(unreadable) - 1} more)" if len(unreadable) > 1 else ""
            warn(f"{unreadable[0]}{more}")
        return [head for head in changed.values() if before.get(head.id) != head]

    def read(self, head: Head) -> bytes:
        """Return the line of a record. Raises `OSError`, or `ValueError` if it has changed."""
        with (self.folder / head.segment).open("rb") as file:
            line = os.pread(file.fileno(), head.length, head.offset)
        if head_of(line).checksum != head.checksum:
            raise ValueError("it was replaced while it was read")
        return line

    def _new_heads(self, name: str, unreadable: list[str]) -> Iterator[Head]:
        """Yield the new heads of a segment; add a message for each unreadable line.

        The file is opened each time: a network file system hides new lines from an open file.
        """
        end, lines = self._read.setdefault(name, (0, 0))
        try:
            with (self.folder / name).open("rb") as file:
                file.seek(end)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    lines += 1
                    try:
                        yield head_of(line)._replace(segment=name, offset=end, length=len(line))
                    except ValueError as error:
                        unreadable.append(unreadable_line(self.folder / name, lines, error))
                    end += len(line)
                    self._read[name] = end, lines
        except FileNotFoundError:
            pass  # it was removed just now; the next refresh notices
        except OSError as error:
            unreadable.append(str(error))


class Segment:
    """A segment of this process, its only writer. The first record creates the file."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder
        self._file: int | None = None

    def append(self, lines: bytes) -> None:
        """Append complete lines, and flush them to the disk.

        Raises `StorageError` if they cannot be written; nothing is appended after a torn line.
        """
        try:
            if self._file is None or not self._is_in_place(self._file):
                self.close()
                self._file = self._create()
            rest = memoryview(lines)
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
            in_place = self._is_in_place(self._file)
        except OSError as error:
            self.close()
            reason = error.strerror or error
            raise StorageError(f"{self._folder} cannot be written to: {reason}") from error
        if not in_place:  # somebody removed it meanwhile
            self.append(lines)

    def close(self) -> None:
        """Close the file; the next record creates another one."""
        if self._file is not None:
            file, self._file = self._file, None
            os.close(file)

    def _is_in_place(self, file: int) -> bool:
        try:
            return self._path.stat().st_ino == os.fstat(file).st_ino
        except FileNotFoundError:
            return False

    def _create(self) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        # Later segments sort behind earlier ones.
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self._path = self._folder / f"{now}-{secrets.token_hex(4)}{SUFFIX}"
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o644)
        sync_folder(self._folder)
        return file
