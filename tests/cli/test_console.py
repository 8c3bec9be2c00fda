"""Words for the console."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from rich.text import Text

import maxk_lab.cli
from maxk_lab.cli.console import (
    complain,
    console,
    duration,
    emit_json,
    estimate,
    print_fields,
    print_line,
    print_table,
    refusal,
    say,
    warn,
)
from maxk_lab.execution.records import RunDirectory
from maxk_lab.sweep_file.load import load_spec


@pytest.mark.parametrize(
    ("write", "seconds", "words"),
    [
        (duration, -1, "0 s"),
        (duration, 59.6, "1 min 00 s"),
        (duration, 3599, "59 min 59 s"),
        (duration, 7500, "2 h 05 min"),
        (estimate, 2.0, "about 10 s"),
        (estimate, 42.0, "about 40 s"),
        (estimate, 59.9, "about 1 min"),
        (estimate, 200, "about 3 min"),
        (estimate, 3590, "about 1 h 00 min"),
    ],
)
def test_a_time_is_no_finer_than_it_is_known(
    write: Callable[[float], str], seconds: float, words: str
) -> None:
    assert write(seconds) == words


def test_a_table_cuts_nothing_and_keeps_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [["日本 ĝ", "[bold]x[/bold]", "1"], ["a", "y" * 300, "2"], ["", "z\nz", "3"]]
    print_table(["one", "two", "three"], rows)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == f"日本 ĝ  [bold]x[/bold]{' ' * 288}1"
    assert lines[2] == f"a       {'y' * 300}  2"
    assert [lines[0].index("three"), lines[3].index("3")] == [310, 310]
    assert "z z" in lines[3]


def test_fields_that_say_nothing_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    inner = {"b": [], "words": ["one line", "another"], "longer": True, "list": [1, 2]}
    print_fields({"a": None, "text": "two\nlines", "inner": inner, "none": {}})
    assert capsys.readouterr().out.splitlines() == [
        "text  two",
        "      lines",
        "inner",
        "  words   one line",
        "          another",
        "  longer  yes",
        "  list    1 2",
    ]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "x/y"), "x/y: Permission denied"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (MemoryError(), "out of memory"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "x"), None),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), None),
        (OSError("of a library's own"), None),
    ],
)
def test_a_refusal_is_a_line_and_what_may_be_a_bug_is_none(
    error: OSError | MemoryError, told: str | None
) -> None:
    assert refusal(error) == told


def test_all_that_is_printed_goes_through_the_console() -> None:
    """There nothing in a text acts."""
    printing = {
        path.name
        for path in Path(maxk_lab.cli.__file__).parent.rglob("*.py")
        if re.search(r"typer\.echo|rich\.markup|Console\(", path.read_text("utf-8"))
    }
    assert printing == {"console.py"}


def test_no_text_acts_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Nor is any taken for markup, or for the code of an emoji."""
    text = "[/b][red]:smile: \x1b[2J \u202e"
    shown = "[/b][red]:smile: \\x1b[2J \\u202e"
    console().print(Text(text))
    console().print(text)
    print_table(["one"], [[text]])
    print_fields({text: text})
    print_line(text)
    say(text)
    warn(text)
    complain(text)
    emit_json([text])
    told = capsys.readouterr()
    assert told.out.count(shown) == 6
    assert told.err.count(shown) == 3
    assert "\\u001b[2J \\u202e" in told.out
    assert not {"\x1b", "\u202e"} & set(told.out + told.err)


def test_a_description_is_one_line(lab: Callable[..., Result], sweep: str) -> None:
    """The words of a sweep are no fields of what `show` prints of its run."""
    forged = 'description="words\\n  done  999\\n\\nforged"'
    RunDirectory("results/tiny").write_spec(load_spec(sweep, [forged]))
    told = [" ".join(line.split()) for line in lab("show", "tiny").stdout.splitlines()]
    (line,) = (line for line in told if "999" in line or "forged" in line)
    assert "words done 999 forged" in line
