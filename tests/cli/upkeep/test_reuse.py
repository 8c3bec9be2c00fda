"""Cells of another run: `plan` tells them, `run` takes them, `--no-reuse` measures them."""

from __future__ import annotations

import json
from collections.abc import Callable

from click.testing import Result
from written_runs import WriteRun

Lab = Callable[..., Result]
NEW = ("sweep.yaml", "--set", "name=new", "--set", "tracking.wandb=disabled")


def test_the_effort_of_reused_cells_is_none(write_run: WriteRun, lab: Lab) -> None:
    write_run("old")
    assert json.loads(lab("plan", *NEW, "--json").stdout)["seconds_left"] == 0
    assert json.loads(lab("plan", *NEW, "--json", "--no-reuse").stdout)["seconds_left"] > 0


def test_run_says_what_it_has_reused(write_run: WriteRun, lab: Lab) -> None:
    write_run("old", missing=5)
    write_run("older", "gradient.pool=16", missing=0)
    ended = lab("run", *NEW, "--jobs", "1")
    assert ended.exit_code == 0, ended.output
    assert "new: 0 measured, " in ended.stderr
    assert "8 of 8 cells reused from run older (measured with commit 0000000; " in ended.stderr or (
        "3 of 8 cells reused from run old (measured with" in ended.stderr
        and "5 reused from run older" in ended.stderr
    )
    cell = json.loads(lab("run", *NEW, "--json").stdout)["reused"][0]
    assert "reused_from" in lab("show", cell, "--results", "results").stdout


def test_what_failed_here_is_measured_again_and_not_replaced(write_run: WriteRun, lab: Lab) -> None:
    write_run("old")
    write_run("new", failed=2, missing=3)
    for more, count in (((), 0), (("--retry-failed",), 2)):
        view = json.loads(lab("run", *NEW, "--dry-run", "--json", *more).stdout)
        assert len(view["to_do"]) == count
