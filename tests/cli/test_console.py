"""Words for the console."""

import errno
import re
from pathlib import Path

import pytest
from rich.text import Text

import maxk_lab.cli
from maxk_lab.cli import console
from maxk_lab.execution.records import RunDirectory
from maxk_lab.sweep_file.load import load_spec


@pytest.mark.parametrize(
    ("write", "value", "words"),
    [
        (console.duration, -1, "0 s"),
        (console.duration, 59.6, "1 min 00 s"),
        (console.duration, 3599, "59 min 59 s"),
        (console.duration, 7500, "2 h 05 min"),
        (console.estimate, 2.0, "about 10 s"),
        (console.estimate, 42.0, "about 40 s"),
        (console.estimate, 59.9, "about 1 min"),
        (console.estimate, 200, "about 3 min"),
        (console.estimate, 3590, "about 1 h 00 min"),
        (console.refusal, OSError(errno.EACCES, "Permission denied", "x"), "x: Permission denied"),
        (console.refusal, OSError(errno.ENOSPC, "No space left"), "No space left"),
        (console.refusal, MemoryError(), "out of memory"),
        # These may be bugs.
        (console.refusal, FileNotFoundError(errno.ENOENT, "No such file or directory", "x"), None),
        (console.refusal, BrokenPipeError(errno.EPIPE, "Broken pipe"), None),
        (console.refusal, OSError("of a library's own"), None),
    ],
)
def test_a_time_is_rounded_and_a_refusal_is_a_line(write, value, words):
    assert write(value) == words


def test_a_table_cuts_nothing_and_empty_fields_are_left_out(capsys):
    rows = [["日本 ĝ", "[bold]x[/bold]", "1"], ["a", "y" * 300, "2"], ["", "z\nz", "3"]]
    console.print_table(["one", "two", "three"], rows)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == f"日本 ĝ  [bold]x[/bold]{' ' * 288}1"
    assert lines[2] == f"a       {'y' * 300}  2"
    assert [lines[0].index("three"), lines[3].index("3")] == [310, 310]
    assert "z z" in lines[3]
    inner = {"b": [], "words": ["one line", "another"], "longer": True, "list": [1, 2]}
    console.print_fields({"a": None, "text": "two\nlines", "inner": inner, "none": {}})
    assert capsys.readouterr().out.splitlines() == [
        "text  two",
        "      lines",
        "inner",
        "  words   one line",
        "          another",
        "  longer  yes",
        "  list    1 2",
    ]


def test_no_text_acts_on_a_terminal(capsys):
    """No text is markup or the code of an emoji, and all texts go through the console."""
    text, shown = "[/b][red]:smile: \x1b[2J \u202e", "[/b][red]:smile: \\x1b[2J \\u202e"
    console.console().print(Text(text))
    console.console().print(text)
    console.print_table(["one"], [[text]])
    console.print_fields({text: text})
    for write in (console.print_line, console.say, console.warn, console.complain):
        write(text)
    console.emit_json([text])
    out, err = capsys.readouterr()
    assert (out.count(shown), err.count(shown)) == (6, 3)
    assert "\\u001b[2J \\u202e" in out
    assert not {"\x1b", "\u202e"} & set(out + err)
    modules = Path(maxk_lab.cli.__file__).parent.rglob("*.py")
    printing = re.compile(r"typer\.echo|rich\.markup|Console\(")
    assert [path.name for path in modules if printing.search(path.read_text("utf-8"))] == [
        "console.py"
    ]


def test_a_description_is_one_line(lab, sweep):
    """A description adds no field to the output of `show`."""
    forged = 'description="words\\n  done  999\\n\\nforged"'
    RunDirectory("results/tiny").write_spec(load_spec(sweep, [forged]))
    lines = [" ".join(line.split()) for line in lab("show", "tiny").stdout.splitlines()]
    (line,) = (line for line in lines if "999" in line or "forged" in line)
    assert "words done 999 forged" in line
