"""Cells of another run: `plan` tells them, `run` takes them, `--no-reuse` measures them."""

from __future__ import annotations

import json
from collections.abc import Callable

from click.testing import Result
from written_runs import WriteRun

Lab = Callable[..., Result]
NEW = ("sweep.yaml", "--set", "name=new", "--set", "tracking.wandb=disabled")


def to_do(lab: Lab, *options: str) -> int:
    return len(json.loads(lab("run", *NEW, "--dry-run", "--json", *options).stdout)["to_do"])


def test_plan_tells_what_a_run_reuses(write_run: WriteRun, lab: Lab) -> None:
    write_run("old", missing=3)
    told = " ".join(lab("plan", *NEW).stdout.split())
    assert "5 of the missing cells are done in run old (measured with commit 0000000; " in told
    view = json.loads(lab("plan", *NEW, "--json").stdout)
    assert (len(view["reusable"]), view["counts"]["missing"]) == (5, 8)
    without = lab("plan", *NEW, "--no-reuse")
    assert "run old" not in without.stdout
    assert without.stderr.splitlines()[-1].endswith("--no-reuse")


def test_the_effort_of_reused_cells_is_none(write_run: WriteRun, lab: Lab) -> None:
    write_run("old")
    assert json.loads(lab("plan", *NEW, "--json").stdout)["seconds_left"] == 0
    assert json.loads(lab("plan", *NEW, "--json", "--no-reuse").stdout)["seconds_left"] > 0


def test_a_dry_run_counts_what_is_left(write_run: WriteRun, lab: Lab) -> None:
    write_run("old", missing=3)
    assert to_do(lab) == 3
    assert to_do(lab, "--no-reuse") == 8
    assert to_do(lab, "--force") == 8
    told = " ".join(lab("run", *NEW, "--dry-run").stderr.split())
    assert "5 cells would be reused from run old (measured with commit 0000000; " in told


def test_what_failed_here_is_measured_again_and_not_replaced(write_run: WriteRun, lab: Lab) -> None:
    write_run("old")
    write_run("new", failed=2, missing=3)
    assert to_do(lab) == 0
    assert to_do(lab, "--retry-failed") == 2


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
