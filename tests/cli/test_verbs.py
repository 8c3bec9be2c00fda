"""Verbs that measure nothing: plan, validate, list, run --dry-run; the user's mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from maxk_lab import __version__
from maxk_lab.environments.catalogue import ENVIRONMENTS, REWARDS, TASKS
from maxk_lab.estimators.catalogue import BASELINES

Lab = Callable[..., Result]
BAD = """\
name: bad
seeds: [0]
environment: {name: tps}
gradient:
  poool: 64
  grid: {estimator: maxk, baseline: [nonne], n: 4, k: 2}
"""


def test_version(lab: Lab) -> None:
    result = lab("--version")
    assert (result.exit_code, result.stdout) == (0, f"maxk-lab {__version__}\n")


def test_help_names_every_verb(lab: Lab) -> None:
    result = lab("--help")
    assert result.exit_code == 0
    for verb in (
        "run",
        "plan",
        "report",
        "recommend",
        "check",
        "list",
        "show",
        "validate",
        "track",
    ):
        assert f"│ {verb} " in result.stdout


def test_seeds_are_shifted_on_the_command_line_that_follows_too(lab: Lab, sweep: str) -> None:
    shift = ("--shift-seeds", "100", "--results", "other")
    view = json.loads(lab("plan", sweep, *shift, "--json").stdout)
    assert {cell["seed"] for cell in view["cells"]} == {100, 101}
    said = lab("plan", sweep, *shift).stderr
    assert said == "Next: maxk-lab run tiny.yaml --shift-seeds 100 --results other\n"
    todo = json.loads(lab("run", sweep, *shift, "--dry-run", "--json").stdout)["to_do"]
    assert [cell["id"] for cell in todo] == [cell["id"] for cell in view["cells"]]
    for wrong in ("-1", "ten"):
        refused = lab("run", sweep, "--shift-seeds", wrong)
        assert refused.exit_code == 2
        assert "Invalid value for '--shift-seeds'" in refused.output


def test_plan_counts_cells_and_says_why_points_are_skipped(lab: Lab, sweep: str) -> None:
    result = lab("plan", sweep)
    assert result.exit_code == 0
    assert "20 cells in 2 units: 0 done, 0 failed, 20 missing" in result.stdout
    assert "\nseeds 0, 1\n" in result.stdout
    assert "skipped: 2 grid points" in result.stdout
    assert "subloo needs 2 <= K <= n, got K = 1 and n = 8" in result.stdout
    assert "a rough guess" in result.stdout
    assert result.stderr == "Next: maxk-lab run tiny.yaml\n"
    elsewhere = lab("plan", "tiny.yaml", "--results", "my results")
    assert elsewhere.stderr == "Next: maxk-lab run tiny.yaml --results 'my results'\n"


def test_a_number_of_seeds_is_a_count_and_the_plan_names_them(lab: Lab, sweep: str) -> None:
    counted = lab("plan", sweep, "--set", "seeds=2")
    assert counted.stdout == lab("plan", sweep).stdout
    assert "\nseed 2\n" in lab("plan", sweep, "--set", "seeds=[2]").stdout
    many = lab("plan", sweep, "--set", "seeds=40").stdout
    assert "\nseeds 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …, 39, 40 of them\n" in many
    assert json.loads(lab("plan", sweep, "--set", "seeds=3", "--json").stdout)["seeds"] == [0, 1, 2]
    refused = lab("plan", sweep, "--set", "seeds=0")
    assert refused.exit_code == 2
    assert "--set:1:7: seeds: must be how many seeds" in " ".join(refused.stderr.split())


def test_plan_as_json_has_every_cell_and_stdout_is_json_alone(lab: Lab, sweep: str) -> None:
    view = json.loads(lab("plan", sweep, "--json", "--set", "seeds=[3]").stdout)
    assert view["counts"] == {"done": 0, "failed": 0, "missing": 10}
    assert {cell["seed"] for cell in view["cells"]} == {3}
    assert {cell["status"] for cell in view["cells"]} == {"missing"}
    assert len({cell["id"] for cell in view["cells"]}) == 10
    assert [skip["point"]["baseline"] for skip in view["skipped"]] == ["subloo", "subloo"]


def test_plan_lists_the_cells_that_the_json_names(lab: Lab, sweep: str) -> None:
    ids = [cell["id"] for cell in json.loads(lab("plan", sweep, "--json").stdout)["cells"]]
    text = lab("plan", sweep, "--cells").stdout
    assert all(cell in text for cell in ids)


def test_parameters_in_brackets_are_not_taken_for_markup(lab: Lab, sweep: str) -> None:
    text = lab(
        "plan",
        sweep,
        "--cells",
        "--set",
        "gradient.grid.baseline=affine[0.5]",
        "--set",
        "gradient.grid.k=2",
    ).stdout
    assert "affine[0.5]" in text


@pytest.mark.parametrize("verb", ["plan", "validate", "run"])
def test_a_bad_spec_prints_every_problem_and_exits_with_2(lab: Lab, sweep: str, verb: str) -> None:
    Path("bad.yaml").write_text(BAD, encoding="utf-8")
    result = lab(verb, "bad.yaml")
    assert result.exit_code == 2
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[-1] == "error: 3 problems; nothing was run"
    for place, word, hint in (("3", "tps", "tsp"), ("5", "poool", "pool"), ("6", "nonne", "none")):
        line = next(line for line in lines if line.startswith(f"bad.yaml:{place}:"))
        assert word in line
        assert f"did you mean {hint}" in line
    assert not Path("results").exists()


def test_validate_goes_through_all_files(lab: Lab, sweep: str) -> None:
    Path("bad.yaml").write_text(BAD, encoding="utf-8")
    assert (
        lab("validate", sweep).stdout
        == "tiny.yaml: ok, sweep tiny with 20 cells (2 grid points skipped)\n"
    )
    result = lab("validate", "bad.yaml", sweep, "nowhere.yaml", "--json")
    assert result.exit_code == 2
    assert [answer["valid"] for answer in json.loads(result.stdout)] == [False, True, False]


def test_a_missing_file_is_the_users_mistake(lab: Lab, sweep: str) -> None:
    result = lab("run", "nowhere.yaml")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert "nowhere.yaml" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_unknown_option_exits_with_2(lab: Lab, sweep: str) -> None:
    assert lab("run", sweep, "--jbos", "2").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "baselin=none"], "did you mean baseline"),
        (["--set", "gradient.pool"], "gradient.pool"),
    ],
)
def test_bad_options_of_run_exit_with_2(
    lab: Lab, sweep: str, arguments: list[str], message: str
) -> None:
    result = lab("run", sweep, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_dry_run_writes_nothing(lab: Lab, sweep: str) -> None:
    result = lab("run", sweep, "--dry-run", "--only", "baseline=subloo,seed=1")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 2
    assert result.stderr == "2 cells would run; nothing was written\n"
    assert [path.name for path in Path().iterdir()] == [sweep]


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
    assert lab("list", "envs").exit_code == 2


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


def test_no_runs_yet(lab: Lab, sweep: str) -> None:
    assert lab("list", "runs", "--json").stdout == "[]\n"
    for verb in (["report"], ["show", "tiny"], ["track"]):
        result = lab(*verb)
        assert result.exit_code == 2
        assert "no run" in result.stderr


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


def test_report_shows_the_rows_and_columns_that_are_asked_for(lab, finished, monkeypatch):
    monkeypatch.chdir(finished)
    asked = ["--where", "k=2,baseline=centred", "--sort", "-variance", "--columns", "n,variance"]
    found = lab("report", "tiny", "--format", "csv", *asked)
    assert found.exit_code == 0, found.output
    header, *rows = found.stdout.splitlines()
    assert header == "section,n,variance,variance_low,variance_high,variance_about"
    assert {row.split(",")[1] for row in rows} == {"4", "8"}
    wrong = lab("report", "tiny", "--columns", "varance")
    assert wrong.exit_code == 2
    assert "did you mean variance?" in wrong.stderr
