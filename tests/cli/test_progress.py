"""How far a run is, what waits, and how long it takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from sweep_files import plan_of

from maxk_lab.cli.progress import Display
from maxk_lab.cli.verbs.plan import Effort, effort_left
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.needs import SECONDS
from maxk_lab.planning.plan import Plan
from maxk_lab.studies.training.grid import EVALUATION_COST

from .conftest import SWEEP, TAUGHT


def planned(folder: Path, *overrides: str, text: str = TAUGHT) -> Plan:
    (folder / "taught.yaml").write_text(text, encoding="utf-8")
    return plan_of(str(folder / "taught.yaml"), *overrides)


def last_work(plan: Plan) -> float:
    return sum(plan.units[-1].work().values())


def test_the_time_left_is_that_of_the_work_and_not_of_the_start(tmp_path: Path) -> None:
    (unit, *_) = units = [one for one in planned(tmp_path).units if one.study == "training"]
    now = [0.0]
    display = Display(planned(tmp_path), lambda: now[0])
    display("run_started", {"cell_ids": [cell.id for unit in units for cell in unit.cells]})
    now[0] = 1000.0
    display("unit_started", {"unit": unit.label})
    assert display.line() == "0/4 cells"
    now[0] = 1240.0
    display("progress", {"unit": unit.label, "phase": "training", "step": 2, "steps": 4})
    assert (display.share, display.line()) == (1 / 8, "0/4 cells, about 28 min left")
    # A later phase means that the earlier ones are done.
    display("progress", {"unit": unit.label, "phase": "cells", "done": 0, "of": 1})
    assert display.share == 1 / 4
    for one in units:
        display("unit_finished", {"unit": one.label})
    assert (display.share, display.line()) == (1.0, "0/4 cells")


@pytest.mark.parametrize(
    ("settings", "trajectories"),
    [
        ("evaluate.extras=greedy", 12),
        ("evaluate.extras=augmentation", 12 * 8),
        ("evaluate.extras=multistart", 12 * (6 + 4)),
        ("evaluate.extras=multistart_augmentation", 12 * 48),
        # Ways of decoding cost samples on all instances at each of the last evaluations.
        ("evaluate={every: 2, instances: 4, samples: 4, temperatures: [1, 1.5, 2], "
         "extras: [greedy], tuning: 3, last: 2}",
         2 * (4 * (2 * 4 + 1) + 3 * (3 * 4 + 1)) - (12 - 4) * 4 * 3),
    ],
)  # fmt: skip
def test_a_training_takes_the_time_of_what_it_decodes(
    tmp_path: Path, settings: str, trajectories: int
) -> None:
    text = TAUGHT.replace("{name: bandit, arms: 4}", "{name: tsp, num_loc: 6}")
    before = last_work(planned(tmp_path, text=text))
    after = last_work(planned(tmp_path, f"training.{settings}", text=text))
    assert after - before == pytest.approx(EVALUATION_COST * 6 * trajectories)


def effort(folder: Path, *overrides: str, jobs: int = 1) -> Effort:
    plan = planned(folder, *overrides)
    run = RunDirectory(folder / "run")
    return effort_left(plan, run, {cell.id: "missing" for cell in plan.cells}, jobs)


def test_effort_here_is_that_of_the_processes_and_on_ray_that_of_its_slots(tmp_path: Path) -> None:
    one, three = effort(tmp_path), effort(tmp_path, jobs=3)
    assert one.seconds == pytest.approx(3 * three.seconds)
    assert one.node_hours * 3600 == pytest.approx(one.seconds)
    words = "less than a minute with 3 processes here (nothing has been timed yet)"
    assert three.sentence() == words
    ray = effort(tmp_path, "execution.backend=ray", "execution.slots=3", jobs=2)
    assert ray.workers == 3
    assert "on ray with 3 units at once; " in ray.sentence()


@pytest.mark.parametrize(
    ("seconds", "cities", "steps", "batch", "instances"),
    [(45, 20, 800, 512, 128), (8, 12, 300, 256, 64)],
)
def test_the_first_guess_is_near_what_was_measured(
    tmp_path: Path, seconds: int, cities: int, steps: int, batch: int, instances: int
) -> None:
    """Seconds of processor time of one cell, without the start of the program."""
    text = f"""\
name: one
seeds: [0]
environment: {{name: tsp, num_loc: {cities}}}
training:
  steps: {steps}
  batch: {batch}
  evaluate:
    {{every: 100, instances: {instances}, samples: 64, extras: [greedy, augmentation, multistart]}}
  grid: {{estimator: maxk, baseline: centred, n: 16, k: 8}}
"""
    assert 0.6 * seconds < SECONDS * last_work(planned(tmp_path, text=text)) < 1.6 * seconds


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return planned(tmp_path, text=SWEEP)


def test_an_error_that_cells_repeat_is_said_once_and_counted(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    with Display(plan) as lines:
        for cell, error in [
            ("a", "'own:reward' raised for sample 0, prompt 'd53'"),
            ("b", "'own:reward' raised for sample 12, prompt 'e4'"),
            ("c", "'own:another' raised for sample 0, prompt 'd53'"),
            ("d", "'own:reward' raised for sample 0, prompt \"'\""),
        ]:
            lines("cell_failed", {"cell": cell, "error": error})
    assert capsys.readouterr().err.splitlines() == [
        "warning: cell a failed: 'own:reward' raised for sample 0, prompt 'd53'",
        "warning: cell c failed: 'own:another' raised for sample 0, prompt 'd53'",
        "warning: 2 more cells failed as cell a did",
    ]
