"""What no cell can have measured is damage, with its reason, whatever its checksum says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hand_written import gradient_metrics
from pydantic_core import from_json
from stored import change_line, lines

from maxk_lab.sweeps.plan.plan import Plan, make_plan
from maxk_lab.sweeps.run.records import Record, RunDirectory
from maxk_lab.sweeps.run.store import body_of, line_of
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


def change(run: RunDirectory, how: Change) -> None:
    """Change what a record says, and sum it anew."""
    (cell,) = run.ids()

    def changed(line: bytes) -> bytes:
        head = from_json(line[9:].partition(b"\t")[0])
        content = body_of(line) | {"status": head["status"]}
        how(content)
        return line_of(head | {"status": content.pop("status")}, content)

    change_line(run.root, cell, changed)


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
    (sets("cell", "id", to="0" * 16), "it is not the record of this cell"),
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
    run = RunDirectory(run.root)
    assert run.records(plan) == []
    (problem,) = run.problems
    assert f"the record of cell {plan.cells[0].id} is damaged and not used: " in problem
    assert re.search(why, problem), problem
    assert run.read(plan.cells[0].id) is None


def test_a_failed_record_has_its_reason_and_no_metrics(run: RunDirectory, plan: Plan) -> None:
    change(run, fails)
    run = RunDirectory(run.root)
    (found,) = run.records(plan)
    assert (found.status, found.metrics, found.error) == ("failed", None, "Traceback\nE: no")


def test_what_a_cell_may_not_write(run: RunDirectory, plan: Plan) -> None:
    """The reader would refuse it: the old record stays."""
    cell = plan.cells[0].as_dict()
    before = lines(run.root)
    for record, why in (
        (Record(cell, "done", None), "does not go with its metrics"),
        (Record(cell, "done", {"value": 1.0}), "units is missing"),
        (Record(cell, "failed", None, ""), "error"),
        (Record(cell, "done", gradient_metrics(cell, bias={})), "bias.squared is missing"),
    ):
        with pytest.raises(ValueError, match=why):
            run.write(record)
    assert lines(run.root) == before


def test_half_a_letter_in_an_error_is_spelled(run: RunDirectory, plan: Plan) -> None:
    cell = plan.cells[0].as_dict()
    run.write(Record(cell, "failed", error="ValueError: \ud800"))
    (found,) = run.records(plan)
    assert found.error == "ValueError: \\ud800"
