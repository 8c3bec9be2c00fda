"""An argument of the wrong type or value is a `LabError` that names the argument."""

import errno
from pathlib import Path

import pytest
from sweep_files import SMALL

import maxk_lab
from maxk_lab.api import RunReport, translate_refusals
from maxk_lab.execution.records import RunDirectory
from maxk_lab.reports.report import make_report


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with a sweep, a run of it that has no record, and a file."""
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL)
    Path("results/small").mkdir(parents=True)
    Path("results/small/spec.yaml").write_text(SMALL)
    Path("a_file").write_text("it is no folder")


@pytest.mark.parametrize(
    ("call", "argument", "value", "message"),
    [
        (maxk_lab.run, "spec", 3, "spec must be .*, got 3"),
        (maxk_lab.run, "spec", {"name": object()}, "a sweep is made of plain values"),
        (maxk_lab.run, "spec", "nowhere.yaml", "nowhere.yaml does not exist"),
        (maxk_lab.run, "overrides", "seeds=[0]", "overrides must be Mapping"),
        (maxk_lab.run, "overrides", {"seeds": object()}, "overrides must be plain values"),
        (maxk_lab.run, "overrides", [3], "overrides must be"),
        (maxk_lab.run, "only", 3, "only must be"),
        (maxk_lab.run, "only", "baselin=x", "only: "),
        (maxk_lab.run, "shift_seeds", "a", "shift_seeds must be"),
        (maxk_lab.run, "shift_seeds", -1, "shifted seeds must be from 0 to 2.63 - 1, got -1"),
        (maxk_lab.run, "shift_seeds", 2**63, "shifted seeds must be from 0"),
        (maxk_lab.run, "progress", 3, "progress must be"),
        (maxk_lab.run, "jobs", 0, "jobs must be"),
        (maxk_lab.run, "jobs", True, "jobs must be"),
        (maxk_lab.run, "force", "no", "force must be"),
        (maxk_lab.run, "execution", 3, "execution must be"),
        (maxk_lab.report, "run", ["b", "asc"], "run must be"),
        (maxk_lab.report, "where", "baselin=x", "where: "),
        (maxk_lab.report, "columns", ["varance"], "columns: "),
        (maxk_lab.report, "columns", [], "columns"),
        (maxk_lab.report, "results", 3, "results must be"),
        (maxk_lab.load, "run", [], "run"),
        (maxk_lab.load, "over", ["cells"], "over must be"),
        (maxk_lab.advantages, "rewards", [[10**400, 1, 2]], "rewards"),
        (maxk_lab.advantages, "usable", [[1, 0, 2]], "usable"),
        (maxk_lab.advantages, "trajectory_weights", 3, "trajectory_weights"),
    ],
)
def test_an_argument_that_cannot_be_used_is_named(call, argument, value, message):
    options = {"spec": "small.yaml"} if call is maxk_lab.run else {}
    options |= {"rewards": [[1, 2, 3]], "k": 2} if call is maxk_lab.advantages else {}
    with pytest.raises(maxk_lab.MistakeError, match=f"^{message}"):
        call(**options | {argument: value})
    assert not RunDirectory(Path("results/small")).records_path.exists()


def test_a_file_in_the_place_of_a_folder_is_refused(lab, monkeypatch):
    monkeypatch.setattr("maxk_lab.reports.write.FILES", {"markdown": "report.md"})
    with pytest.raises(maxk_lab.RefusedError, match=r"a_file/small.*: Not a directory"):
        maxk_lab.run("small.yaml", results="a_file", progress=False)
    report = RunReport(make_report(lab.cells(baselines=("none",), ns=(8,)), [], name="it"))
    with pytest.raises(maxk_lab.RefusedError, match=r"a_file/.* cannot be written: File exists"):
        report.write("a_file")
    with pytest.raises(maxk_lab.MistakeError, match=r"^folder must be .*, got 3"):
        report.write(3)
    for error in (maxk_lab.RefusedError, FileNotFoundError):  # the second may be a bug
        number = errno.EACCES if error is maxk_lab.RefusedError else errno.ENOENT
        with pytest.raises(error, match="x"), translate_refusals():
            raise OSError(number, "no", "x")
