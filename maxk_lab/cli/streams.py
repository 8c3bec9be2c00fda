"""The standard streams of the program, which may be closed, full, or read by nobody."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any, TextIO

from maxk_lab.errors import LabError


class OutputError(LabError):
    """The output cannot be printed: the disk is full where stdout goes."""


class _Out(io.FileIO):
    """A stdout that says once that it cannot be written to. A closed pipe is nobody's mistake."""

    failed = False

    def write(self, data: Any) -> int:
        try:
            return len(data) if self.failed else super().write(data)
        except OSError as error:
            self.failed = True
            if error.errno == errno.EPIPE:
                raise
            raise OutputError(f"the output cannot be written: {error.strerror}") from error


class _Err(io.FileIO):
    """A stderr that takes what nobody can read: messages never end what they are about."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def open_streams() -> None:
    """Make stdout and stderr ready for the program: only stdout can fail, with `OutputError`.

    A stream that is closed leads nowhere from now on. Its number would be that of the next file
    that is opened, and what is printed would go there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    sys.stdout = _text(_Out(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text(_Err(2, "w", closefd=False), sys.stderr)


def _text(raw: io.FileIO, before: TextIO | None) -> io.TextIOWrapper:
    """Return a text stream on `raw`, of the encoding of the one before it.

    What the encoding cannot say, such as half of a pair, is escaped.
    """
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        "utf-8" if before is None else before.encoding,
        "backslashreplace",
        line_buffering=raw.isatty() or raw.fileno() == 2,
    )
