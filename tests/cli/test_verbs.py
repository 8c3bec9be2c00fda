"""Verbs that measure nothing: plan, validate, list, run --dry-run; the user's mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from maxk_lab.environments.catalogue import ENVIRONMENTS, REWARDS, TASKS
from maxk_lab.estimators.catalogue import BASELINES

Lab = Callable[..., Result]


def test_a_number_of_seeds_is_a_count_and_the_plan_names_them(lab: Lab, sweep: str) -> None:
    counted = lab("plan", sweep, "--set", "seeds=2")
    assert counted.stdout == lab("plan", sweep).stdout
    assert "\nseed 2\n" in lab("plan", sweep, "--set", "seeds=[2]").stdout
    many = lab("plan", sweep, "--set", "seeds=40").stdout
    assert "\nseeds 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …, 39, 40 of them\n" in many
    assert json.loads(lab("plan", sweep, "--set", "seeds=3", "--json").stdout)["seeds"] == [0, 1, 2]


def test_list_says_what_the_catalogue_says(lab: Lab) -> None:
    rows = json.loads(lab("list", "baselines", "--json").stdout)
    assert [row["name"] for row in rows] == list(BASELINES.names())
    assert [row["unbiased"] for row in rows] == [row.unbiased for row in BASELINES]
    text = lab("list", "baselines").stdout
    assert all(row.formula in text and row.constraint in text for row in BASELINES)
    assert {row["name"] for row in json.loads(lab("list", "environments", "--json").stdout)} >= {
        "tsp",
        "bandit",
    }


def test_list_says_which_baselines_need_a_weight_of_each_trajectory(lab: Lab) -> None:
    rows = {row["name"]: row for row in json.loads(lab("list", "baselines", "--json").stdout)}
    needs = {name: row["needs g"] for name, row in rows.items() if row["needs g"]}
    assert needs["opo_loo"] == "length"
    assert needs["otb"] == "logit_proxy"
    assert needs["eob"] == "grad_norm"
    assert set(needs) == {row.name for row in BASELINES if row.trajectory_weight or row.needs()}
    assert [name for name, row in rows.items() if row["token level"]] == ["otb_token"]


def test_list_has_tasks_and_reward_functions_and_says_when_an_environment_is_exact(
    lab: Lab,
) -> None:
    for what, catalogue in (("tasks", TASKS), ("rewards", REWARDS)):
        rows = json.loads(lab("list", what, "--json").stdout)
        assert [(row["name"], row["meaning"]) for row in rows] == [
            (row.name, row.meaning) for row in catalogue
        ]
        assert all(row.implementation in lab("list", what).stdout for row in catalogue)
    exact = {
        row["name"]: row["exact"]
        for row in json.loads(lab("list", "environments", "--json").stdout)
    }
    assert exact == {row.name: row.exact_when for row in ENVIRONMENTS}
    text = lab("list", "environments").stdout
    assert "rewards: list of str = []; " in text
    assert "pretrained: str; " in text


def test_plan_tells_repeats_in_one_line_per_estimator(
    sweep: str, lab: Callable[..., Result]
) -> None:
    overrides = ["--set", "gradient.grid.estimator=[maxk, grpo]", "--set", "gradient.grid.k=[1, 2]"]
    told = lab("plan", sweep, *overrides)
    assert told.exit_code == 0
    # 3 baselines × 2 n × 2 K for grpo, measured once per n; subloo at K = 1 makes no sense for
    # maxk.
    assert "10 ×  repeats a point of grpo[0.0001] that is measured once" in told.output
    assert told.output.count("repeats") == 1


def test_plan_tells_what_is_varied(lab: Lab, sweep: str) -> None:
    vary = [
        "--set",
        "vary={environment.arms: [4, 8], policy.init_std: [0.5]}",
        "--set",
        "seeds=[0]",
    ]
    text = lab("plan", sweep, *vary).stdout
    assert "20 cells in 2 units" in text
    for arms in (4, 8):
        assert f"bandit arms={arms} reward_shift=0.0 policy.init_std=0.5" in text
    view = json.loads(lab("plan", sweep, *vary, "--json").stdout)
    assert [cell["setting"]["environment.arms"] for cell in view["cells"]] == [4] * 10 + [8] * 10
    cells = lab("plan", sweep, *vary, "--cells").stdout
    assert "environment.arms" in cells


def test_every_study_has_an_estimate_of_time(lab: Lab, sweep: str) -> None:
    Path("along.yaml").write_text(
        "name: along\nseeds: [0]\nenvironment: {name: gaussian}\n"
        "objective: {parameter: policy.mean, from: 0, to: 1, grid: {estimator: maxk, k: [1, 2]}}\n"
        "weights: {grid: {estimator: maxk, baseline: none, n: 4, k: 2}}\n",
        encoding="utf-8",
    )
    view = json.loads(lab("plan", "along.yaml", "--json").stdout)
    assert view["counts"] == {"done": 0, "failed": 0, "missing": 3}
    assert view["seconds_left"] > 0
    assert "gaussian" in lab("plan", "along.yaml").stdout
