"""What the Python functions are given and cannot use is a `LabError` that names the argument."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sweep_files import SMALL

import maxk_lab
from maxk_lab.api import RunReport, translate_refusals
from maxk_lab.execution.records import RunDirectory
from maxk_lab.reports.report import make_report


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a sweep, a run of it that has no record, and a file."""
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL)
    Path("results/small").mkdir(parents=True)
    Path("results/small/spec.yaml").write_text(SMALL)
    Path("a_file").write_text("it is no folder")


@pytest.mark.parametrize(
    ("call", "argument", "value"),
    [
        (maxk_lab.run, "only", 3),
        (maxk_lab.run, "only", "baselin=x"),
        (maxk_lab.run, "overrides", [3]),
        (maxk_lab.run, "shift_seeds", "a"),
        (maxk_lab.run, "progress", 3),
        (maxk_lab.run, "jobs", 0),
        (maxk_lab.run, "jobs", True),
        (maxk_lab.run, "force", "no"),
        (maxk_lab.run, "execution", 3),
        (maxk_lab.run, "results", 3),
        (maxk_lab.report, "run", 5),
        (maxk_lab.report, "run", ["b", "asc"]),
        (maxk_lab.report, "where", 3),
        (maxk_lab.report, "where", "baselin=x"),
        (maxk_lab.report, "columns", [3]),
        (maxk_lab.report, "columns", ["varance"]),
        (maxk_lab.report, "columns", []),
        (maxk_lab.report, "results", 3),
        (maxk_lab.load, "run", []),
        (maxk_lab.load, "over", ["cells"]),
        (maxk_lab.advantages, "rewards", [[10**400, 1, 2]]),
        (maxk_lab.advantages, "usable", [[1, 0, 2]]),
        (maxk_lab.advantages, "trajectory_weights", 3),
    ],
)
def test_an_argument_that_cannot_be_used_is_named(
    call: Callable[..., Any], argument: str, value: object
) -> None:
    others: Sequence[object] = ["small.yaml"] if call is maxk_lab.run else []
    options = {"rewards": [[1, 2, 3]], "k": 2} if call is maxk_lab.advantages else {}
    with pytest.raises(maxk_lab.MistakeError, match=rf"^{argument}\b"):
        call(*others, **{**options, argument: value})
    assert not RunDirectory(Path("results/small")).records_path.exists()


@pytest.mark.usefixtures("forked")
def test_a_file_in_the_place_of_a_folder_is_refused(lab: Any) -> None:
    with pytest.raises(maxk_lab.RefusedError, match=r"a_file/small.*: Not a directory"):
        maxk_lab.run("small.yaml", results="a_file", progress=False)
    cells = lab.cells(baselines=("none",), ns=(8,))
    report = RunReport(make_report(cells, [lab.record(cell) for cell in cells], name="it"))
    with pytest.raises(maxk_lab.RefusedError, match=r"a_file/.* cannot be written: File exists"):
        report.write("a_file")
    with pytest.raises(maxk_lab.MistakeError, match=r"^folder must be .*, got 3"):
        report.write(3)  # type: ignore[arg-type]


def test_what_may_be_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(maxk_lab.RefusedError, match="x: Permission denied"), translate_refusals():
        raise PermissionError(errno.EACCES, "Permission denied", "x")
    with pytest.raises(FileNotFoundError), translate_refusals():
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "x")
