"""What `list` says is what the catalogues say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from click.testing import Result
from stored import damage
from written_runs import WriteRun

from maxk_lab.catalogue import Catalogue
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.language.tasks import REWARDS, TASKS
from maxk_lab.errors import LabWarning
from maxk_lab.estimators.catalogue import BASELINES
from maxk_lab.execution.archive import write_bundle


@pytest.mark.parametrize(
    ("what", "catalogue", "said"),
    [
        ("baselines", BASELINES, {"unbiased": "unbiased", "formula": "formula"}),
        ("tasks", TASKS, {"meaning": "meaning", "computed by": "implementation"}),
        ("rewards", REWARDS, {"meaning": "meaning", "computed by": "implementation"}),
        ("environments", ENVIRONMENTS, {"exact": "exact_when"}),
    ],
)
def test_list_says_what_the_catalogue_says(
    lab: Callable[..., Result], what: str, catalogue: Catalogue[Any], said: dict[str, str]
) -> None:
    rows = json.loads(lab("list", what, "--json").stdout)
    for key, field in {"name": "name", **said}.items():
        assert [row[key] for row in rows] == [getattr(row, field) for row in catalogue]
    text = lab("list", what).stdout
    assert all(row.name in text and row.implementation in text for row in catalogue)


@pytest.mark.parametrize("words", [["show"], ["plan", "sweep.yaml"], ["report", "small"]])
def test_a_verb_warns_of_an_unreadable_record(
    lab: Callable[..., Result], write_run: WriteRun, words: list[str]
) -> None:
    run, plan = write_run()
    path = damage(run.root, plan.cells[0].id)
    with pytest.warns(LabWarning) as warnings:
        lab(*words)
    unreadable = re.compile(rf"{path}:\d+: unreadable record: its checksum")
    assert any(unreadable.search(str(warning.message)) for warning in warnings)


def test_plan_estimates_the_time_from_the_run_else_from_its_golden_run(
    lab: Callable[..., Result], write_run: WriteRun
) -> None:
    run, plan = write_run()
    seconds = [head.seconds for head in run.heads.values()]
    assert "time unknown: no unit is measured" in lab("plan", "sweep.yaml", "--results", "x").stdout
    write_bundle(run, Path("x/golden/small/small.zip"))
    shown = lab("plan", "sweep.yaml", "--results", "x")
    assert "with one worker, at the mean time of the cells in x/golden/small" in shown.stdout
    answer = json.loads(lab("plan", "sweep.yaml", "--results", "x", "--json").stdout)
    assert answer["seconds_left"] == pytest.approx(len(plan.cells) * fmean(seconds))
