"""What reused cells were measured with is told where it is not what is here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from written_runs import WriteRun, record_of

from maxk_lab.sweeps.run import reuse
from maxk_lab.sweeps.run.reuse import measured_with

HERE = {"git": {"commit": "a" * 40, "dirty": False}, "versions": {"torch": "2.9", "ray": None}}


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reuse, "collect_provenance", lambda: HERE)


@pytest.mark.parametrize(
    ("there", "clause"),
    [
        (HERE, ""),
        ({}, ""),
        ({"git": None, "versions": {"torch": None}}, ""),
        ({"platform": "another", "versions": {"numpy": "1"}}, ""),
        (
            {"git": {"commit": "b" * 40, "dirty": False}},
            " (measured with commit bbbbbbb; this is commit aaaaaaa)",
        ),
        (
            {"git": {"commit": "a" * 40, "dirty": True}, "versions": {"torch": "2.8"}},
            " (measured with commit aaaaaaa with uncommitted changes, torch 2.8;"
            " this is commit aaaaaaa, torch 2.9)",
        ),
    ],
)
def test_what_differs_is_told(write_run: WriteRun, there: Mapping[str, Any], clause: str) -> None:
    run, plan = write_run("old")
    for cell in plan.cells:
        run.write(replace(record_of(cell), provenance=dict(there)))
    assert measured_with({cell.id: run for cell in plan.cells}) == {"old": clause}


def test_several_are_told_up_to_a_few(write_run: WriteRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run, plan = write_run("old")
    for number, cell in enumerate(plan.cells):
        told = {"versions": {"torch": f"1.{number}"}}
        run.write(replace(record_of(cell), provenance=told))
    found = {cell.id: run for cell in plan.cells}
    some = " (measured with torch 1.0 or 1.1 or 1.2 or 5 more; this is torch 2.9)"
    assert measured_with(found) == {"old": some}
    monkeypatch.setattr(reuse, "_READ", 2)
    assert measured_with(found) == {"old": " (measured with torch 1.0 or 1.4; this is torch 2.9)"}


def test_nothing_is_looked_at_where_nothing_is_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(reuse, "collect_provenance")
    assert measured_with({}) == {}
