"""What no cell can have measured is damage, with its reason, whatever its checksum says."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hand_written import gradient_metrics

from maxk_lab.sweeps.plan.plan import Plan, make_plan
from maxk_lab.sweeps.run.record_bytes import decoded, encoded
from maxk_lab.sweeps.run.records import Record, RunDirectory
from maxk_lab.sweeps.spec.load import load_spec

Content = dict[str, Any]
Change = Callable[[Content], object]


@pytest.fixture
def plan(small: str) -> Plan:
    return make_plan(load_spec(small))


@pytest.fixture
def run(tmp_path: Path, plan: Plan) -> RunDirectory:
    """A run with the record of one cell."""
    directory = RunDirectory(tmp_path / "run")
    cell = plan.cells[0].as_dict()
    directory.write(Record(cell, "done", gradient_metrics(cell)))
    return directory


def path_of(run: RunDirectory) -> Path:
    (cell_id,) = run.ids()
    return run.cells_path / f"{cell_id}.json"


def change(run: RunDirectory, how: Change) -> None:
    """Change what a record says, and sum it anew."""
    content = decoded(path_of(run).read_bytes())
    how(content)
    path_of(run).write_bytes(encoded(content))


def sets(*keys: str, to: Any) -> Change:
    def set_it(content: Content) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = to

    return set_it


def fails(content: Content) -> None:
    content |= {"status": "failed", "metrics": None, "error": "Traceback\nE: no"}


def fails_blankly(content: Content) -> None:
    fails(content)
    content["error"] = " \n"


ENVELOPE: list[tuple[Change, str]] = [
    (sets("cell", to=[1]), "cell must be a mapping"),
    (sets("cell", "id", to=7), "cell.id must be a text"),
    (sets("cell", "n", to=True), "it is not the record of this cell"),
    (sets("cell", "identity_version", to=0), "it is not the record of this cell"),
    (sets("status", to="good"), "status must be one of done, failed, got 'good'"),
    (sets("status", to=[]), r"status must be one of done, failed, got \[\]"),
    (sets("status", to="failed"), "status failed does not go with its error"),
    (sets("metrics", to=None), "status done does not go with its metrics"),
    (sets("error", to="no"), "status done does not go with its error"),
    (fails_blankly, "error "),
    (sets("timings", to={"seconds": "long"}), "timings.seconds must be a number, got 'long'"),
    (sets("timings", to={"seconds": 10**400}), "timings.seconds "),
    (lambda content: content.pop("timings"), "timings is missing"),
]
WHOLE: list[tuple[Change, str]] = [
    (sets("more", to=1), "unknown key 'more'"),
    (sets("provenance", to=None), "provenance must be a mapping"),
    (sets("provenance", to={"git": "abc"}), "provenance.git must be a mapping"),
    (sets("provenance", to={"versions": {"torch": 2}}), "provenance.versions.torch must be a text"),
    (sets("metrics", "units", to=[1, 2]), "units must be a mapping"),
    (sets("metrics", "units", "m2", to=[1.0]), "mean_square has 2 entries where there must be 1"),
    (sets("metrics", "units", "m2", to=["a", 1]), "units.m2.0"),
    (sets("metrics", "replicates", to=-1), "replicates must be at least 0"),
    (sets("metrics", "replicates", to=1.5), "replicates must be a whole number"),
    (sets("metrics", "against", to="nothing"), "against "),
    (sets("metrics", "measures", to={"kl": [1.0]}), "kl has 1 entries where there must be 2"),
    (sets("metrics", "errors", to={"kl": [1.0, -1.0]}), "errors.kl.1"),
    (sets("metrics", "proxies", to={"length": [1.0]}), "length has 1 entries"),
    (sets("metrics", "tolerance", to=0.1), "bias and tolerance are there together"),
    (sets("metrics", "variance", to={"a": 1}), "variance must be a number"),
    (sets("metrics", "variance", to=10**400), "variance "),
]


@pytest.mark.parametrize(("how", "why"), ENVELOPE + WHOLE)
def test_what_cannot_be_is_damage(run: RunDirectory, plan: Plan, how: Change, why: str) -> None:
    change(run, how)
    assert run.records(plan) == []
    (problem,) = run.problems
    assert problem.startswith(f"{path_of(run)}: damaged and not used: ")
    assert re.search(why, problem), problem
    assert run.read(plan.cells[0].id) is None


@pytest.mark.parametrize(("how", "why"), ENVELOPE)
def test_states_alone_see_it_too(run: RunDirectory, plan: Plan, how: Change, why: str) -> None:
    change(run, how)
    assert run.outlines(plan) == []
    (problem,) = run.problems
    assert re.search(why, problem), problem


def test_metrics_of_another_cell_are_damage(run: RunDirectory, plan: Plan) -> None:
    change(run, sets("metrics", "cell", to=plan.cells[1].id))
    for records in (run.records, run.outlines):
        assert records(plan) == []
        (problem,) = run.problems
        assert problem.endswith("its metrics are those of another cell")


def test_metrics_that_name_no_cell_are_of_an_older_version(run: RunDirectory, plan: Plan) -> None:
    change(run, lambda content: content["metrics"].pop("cell"))
    for records in (run.records, run.outlines):
        assert records(plan) == []
        assert run.problems == []
        assert run.stale(plan) == [plan.cells[0].id]
    cell = plan.cells[0].as_dict()
    run.write(Record(cell, "done", gradient_metrics(cell)))
    assert len(run.records(plan)) == 1
    assert run.stale(plan) == []


def test_a_failed_record_has_its_reason_and_no_metrics(run: RunDirectory, plan: Plan) -> None:
    change(run, fails)
    (found,) = run.records(plan)
    assert (found.status, found.metrics, found.error) == ("failed", None, "Traceback\nE: no")


def test_what_a_cell_may_not_write(run: RunDirectory, plan: Plan) -> None:
    """The reader would refuse it: the old record stays."""
    cell = plan.cells[0].as_dict()
    before = path_of(run).read_bytes()
    for record, why in (
        (Record(cell, "done", None), "does not go with its metrics"),
        (Record(cell, "done", {"value": 1.0}), "units is missing"),
        (Record(cell, "failed", None, ""), "error"),
        (Record(cell, "done", gradient_metrics(cell) | {"cell": "x"}), "it names their cell"),
        (Record(cell, "done", gradient_metrics(cell, bias={})), "bias.squared is missing"),
    ):
        with pytest.raises(ValueError, match=why):
            run.write(record)
    assert path_of(run).read_bytes() == before


def test_half_a_letter_in_an_error_is_spelled(run: RunDirectory, plan: Plan) -> None:
    cell = plan.cells[0].as_dict()
    run.write(Record(cell, "failed", error="ValueError: \ud800"))
    (found,) = run.records(plan)
    assert found.error == "ValueError: \\ud800"
    # As records from before hold it.
    change(run, sets("error", to="ValueError: \ud800"))
    (found,) = run.records(plan)
    assert found.error == "ValueError: ?"


def test_nesting_without_end_is_damage(run: RunDirectory, plan: Plan) -> None:
    path = path_of(run)
    deep: Any = 1.0
    for _ in range(300):
        deep = [deep]
    for data in (b"[" * 100_000, b'{"cell":' * 100_000, json.dumps({"cell": deep}).encode()):
        path.write_bytes(data)
        for records in (run.records, run.outlines):
            assert records(plan) == []
            assert run.problems == [f"{path}: damaged and not used: it is nested too deeply"]


def make_folder(path: Path) -> None:
    path.mkdir()


def make_socket(path: Path) -> None:
    os.chdir(path.parent)  # the name of a socket may not be long
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (os.mkfifo, "it is no file but a pipe"),
        (make_folder, "it is no file but a folder"),
        (make_socket, "it is no file but a socket"),
        (lambda path: path.symlink_to("/dev/zero"), "it is no file but a device"),
        (lambda path: path.symlink_to(path), "symbolic links"),
        (lambda path: path.write_bytes(b"") or os.truncate(path, 2**31), "it has 2,048 MiB"),
    ],
)
def test_only_files_are_opened(
    run: RunDirectory, plan: Plan, make: Callable[[Path], object], why: str
) -> None:
    path = path_of(run)
    path.unlink()
    make(path)
    for records in (run.records, run.outlines):
        assert records(plan) == []
        (problem,) = run.problems
        assert why in problem
