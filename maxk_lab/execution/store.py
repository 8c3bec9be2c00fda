"""The store: the records of a run as lines of append-only files, each with one writer.

A segment is a file that one process appends records to, and nobody else. Cells are deterministic,
so two records of one cell do no harm: every reader takes the same of them, the largest by attempt,
then the one that is done, then by the name of the segment. A copy of segments, or the segments of
two halves of a run put together, are therefore read without further ado.

A line is `<crc32> <head>\\t<body>`: the head says what a reader of many records asks for, and both
are JSON. What has no end of line yet is being written, or was when its writer was killed.
"""

from __future__ import annotations

import json
import os
import secrets
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import PositiveInt, StringConstraints, TypeAdapter, ValidationError
from pydantic_core import from_json

from maxk_lab.errors import RefusedError, warn
from maxk_lab.files import StorageError, sync_folder

Status = Literal["done", "failed"]
SUFFIX = ".jsonl"


class Head(NamedTuple):
    """The facts of a record that need no reading of all of it, and where the record lies.

    `attempt` counts how often its cell was measured, from 1; `seconds` is what it took. The line
    begins at `offset` of the segment and has `length` bytes; `checksum` is the CRC-32 of it.
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
        """The larger one of two records of a cell counts, for every reader."""
        return self.attempt, self.status == "done", self.segment, self.offset


_HEAD = TypeAdapter(Head)


def head_of(line: bytes) -> Head:
    """Return the head of a line as it is written. Raises `ValueError` if it is unreadable."""
    text = line[9:-1]
    if line[8:9] != b" " or line[-1:] != b"\n" or line[:8] != b"%08x" % zlib.crc32(text):
        raise ValueError("its checksum does not fit its content")
    try:
        head = _HEAD.validate_json(text.partition(b"\t")[0], strict=True)
    except ValidationError:
        raise ValueError("it has no head of a record") from None
    return head._replace(checksum=int(line[:8], 16))


def line_of(head: Mapping[str, Any], body: Mapping[str, Any]) -> bytes:
    """Return the line of a record. Raises `ValueError` or `TypeError` for what JSON cannot hold."""
    text = _json(head) + b"\t" + _json(body)
    return b"%08x %s\n" % (zlib.crc32(text), text)


def body_of(line: bytes) -> Any:
    """Return the body of a line whose checksum was looked at. Raises `ValueError`."""
    return from_json(line[9:-1].partition(b"\t")[2], allow_inf_nan=False)


def unreadable_line(path: Path, line: int, error: Exception) -> str:
    """Return the warning on a line that is no record of this version of maxk-lab."""
    return (
        f"{path}:{line}: unreadable record: {error}; its cell counts as missing; "
        "delete the line and run the sweep again"
    )


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


@dataclass
class _Read:
    """The lines of a segment that were read, up to `end`."""

    end: int = 0
    lines: int = 0


class Store:
    """The records below a folder of segments, as one reader sees them.

    `heads` are those of the records that count by the ids of their cells, as of the last `look`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.heads: dict[str, Head] = {}
        self._read: dict[str, _Read] = {}

    def look(self) -> list[Head]:
        """Read what was appended since the last look; return the heads that count since then.

        Warns of lines that cannot be read. Raises `RefusedError` where the folder cannot be read.
        """
        try:
            names = sorted(one for one in os.listdir(self.folder) if one.endswith(SUFFIX))
        except FileNotFoundError:
            names = []
        except OSError as error:
            raise RefusedError(f"{self.folder} cannot be read: {error.strerror}") from error
        counted: dict[str, Head] = {}
        if not self._read.keys() <= set(names):
            # A segment has gone, and what it had does not count any more.
            counted, self.heads, self._read = self.heads, {}, {}
        changed: dict[str, Head] = {}
        unreadable: list[str] = []
        for head in (head for name in names for head in self._news(name, unreadable)):
            best = self.heads.get(head.id)
            if best is None or head.rank > best.rank:
                self.heads[head.id] = changed[head.id] = head
        if unreadable:
            more = f" (and {len(unreadable) - 1} more)" if len(unreadable) > 1 else ""
            warn(f"{unreadable[0]}{more}")
        return [head for head in changed.values() if counted.get(head.id) != head]

    def read(self, head: Head) -> bytes:
        """Return the line of a record. Raises `OSError`, or `ValueError` where it has changed."""
        with (self.folder / head.segment).open("rb") as file:
            line = os.pread(file.fileno(), head.length, head.offset)
        if head_of(line).checksum != head.checksum:
            raise ValueError("it was replaced while it was read")
        return line

    def _news(self, name: str, unreadable: list[str]) -> Iterator[Head]:
        """Yield the heads of a segment since the last look; add a message for each unreadable line.

        It is opened each time, for only so a network shows what is new.
        """
        read = self._read.setdefault(name, _Read())
        try:
            with (self.folder / name).open("rb") as file:
                file.seek(read.end)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    read.lines += 1
                    try:
                        head = head_of(line)
                        yield head._replace(segment=name, offset=read.end, length=len(line))
                    except ValueError as error:
                        unreadable.append(unreadable_line(self.folder / name, read.lines, error))
                    read.end += len(line)
        except FileNotFoundError:
            pass  # it has just gone, as the next look tells
        except OSError as error:
            unreadable.append(str(error))


class Segment:
    """A segment of this process, which appends to it, alone. The first record makes it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder
        self._file: int | None = None

    def append(self, lines: bytes) -> None:
        """Append whole lines, and have them on the disk.

        Raises `StorageError` where they cannot be written; what is torn then is followed by nothing
        more, and counts for nobody.
        """
        try:
            if self._file is None or not self._is_in_place(self._file):
                self.close()
                self._file = self._begun()
            left = memoryview(lines)
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
            in_place = self._is_in_place(self._file)
        except OSError as error:
            self.close()
            reason = error.strerror or error
            raise StorageError(f"{self._folder} cannot be written to: {reason}") from error

        if not in_place:  # somebody removed it while this was written
            self.append(lines)

    def close(self) -> None:
        """Close it; the next record begins another one."""
        if self._file is not None:
            file, self._file = self._file, None
            os.close(file)

    def _is_in_place(self, file: int) -> bool:
        try:
            return self._path.stat().st_ino == os.fstat(file).st_ino
        except FileNotFoundError:
            return False

    def _begun(self) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        # Later ones come after earlier ones.
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self._path = self._folder / f"{now}-{secrets.token_hex(4)}{SUFFIX}"
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o644)
        sync_folder(self._folder)
        return file
