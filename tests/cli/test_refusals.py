"""What the system refuses is told in a line; what may be a bug keeps its traceback."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest
from click.testing import Result

from maxk_lab.cli.refusals import refusal
from maxk_lab.sweeps.run import find


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            PermissionError(errno.EACCES, "Permission denied", "results/x"),
            "results/x: Permission denied",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (
            OSError(errno.ENAMETOOLONG, "File name too long", "a" * 300),
            f"{'a' * 80} … {'a' * 30} (300 letters): File name too long",
        ),
        (MemoryError(), "out of memory"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "x"), None),
        (OSError("of a library's own"), None),
    ],
)
def test_refusals(error: OSError | MemoryError, told: str | None) -> None:
    assert refusal(error) == told


@pytest.mark.parametrize(
    ("number", "code", "told"),
    [(errno.EMFILE, 2, "error: Too many open files\n"), (errno.ENOENT, 1, "")],
)
def test_a_verb_ends_with_what_the_system_refused(
    lab: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    code: int,
    told: str,
) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(find, "find_runs", refuse)
    done = lab("list", "runs")
    assert (done.exit_code, done.stderr) == (code, told)
    assert isinstance(done.exception, SystemExit if told else OSError)
