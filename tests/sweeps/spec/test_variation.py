"""Variation: a plan of every combination, with the cells of sweeps that set the values."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hand_written import gradient_metrics
from model_folders import stand_in_model
from sweep_files import Write, problems

from maxk_lab.errors import LabError
from maxk_lab.sweeps.plan.plan import Plan, make_plan, select
from maxk_lab.sweeps.run.records import Record, RunDirectory
from maxk_lab.sweeps.spec.load import load_spec, read_spec, spec_to_yaml

SWEEP = """\
name: varied
seeds: [0, 1]
environment: {name: bandit, arms: 4}
vary: VARY
gradient:
  instances: 2
  pool: 16
  grid: {estimator: maxk, baseline: [none, centred], n: 4, k: 2}
"""
BOTH = "{environment.arms: [8, 4], policy.init_std: [1, 0.5]}"


@pytest.fixture
def varied(write: Write) -> Callable[..., Plan]:
    def plan(vary: str = BOTH, *overrides: str) -> Plan:
        return make_plan(load_spec(write(SWEEP.replace("VARY", vary)), overrides))

    return plan


def test_every_combination_in_the_order_of_the_file(varied: Callable[..., Plan]) -> None:
    plan = varied(BOTH, "seeds=[0]")
    assert [dict(unit.setting) for unit in plan.units] == [
        {"environment.arms": arms, "policy.init_std": std} for arms in (8, 4) for std in (1.0, 0.5)
    ]
    assert [(unit.environment["arms"], unit.policy["init_std"]) for unit in plan.units] == [
        (8, 1.0), (8, 0.5), (4, 1.0), (4, 0.5),
    ]  # fmt: skip
    assert len({unit.label for unit in plan.units}) == 4
    assert plan.units[0].label == "bandit arms=8 init_std=1.0, stage 0, seed 0"


def test_cells_are_those_of_sweeps_that_set_the_values(
    varied: Callable[..., Plan], write: Write
) -> None:
    plain = SWEEP.replace("vary: VARY\n", "")
    expected = {
        cell.id
        for arms in (4, 8)
        for std in (1, 0.5)
        for cell in make_plan(
            load_spec(write(plain), [f"environment.arms={arms}", f"policy.init_std={std}"])
        ).cells
    }
    assert {cell.id for cell in varied().cells} == expected


def test_the_setting_is_told_outside_the_meaning(varied: Callable[..., Plan]) -> None:
    cell = varied().cells[0].as_dict()
    assert cell["setting"] == {"environment.arms": 8, "policy.init_std": 1.0}
    assert "setting" not in varied("{}").cells[0].as_dict()
    assert varied("{environment.arms: 4}").cells[0].as_dict()["id"] == varied("{}").cells[0].id


def test_an_optional_parameter_at_its_default_is_that_of_older_cells(
    varied: Callable[..., Plan],
) -> None:
    plan = varied("{environment.rewards: [gaussian, linear]}", "seeds=[0]")
    assert [unit.environment.get("rewards") for unit in plan.units] == [None, "linear"]
    assert {cell.id for cell in plan.units[0].cells} == {
        cell.id for cell in varied("{}", "seeds=[0]").cells
    }


def test_combinations_that_cannot_run_are_skipped_with_their_reason(
    varied: Callable[..., Plan],
) -> None:
    plan = varied("{policy.success_probability: [0.5, 1.0]}", "seeds=[0]")
    assert [dict(unit.setting) for unit in plan.units] == [{"policy.success_probability": 0.5}]
    assert [str(skipped) for skipped in plan.skipped] == [
        "policy.success_probability=1.0: success_probability must be less than 1, got 1.0"
    ]


def test_a_run_is_planned_where_its_reward_function_is_not_at_hand(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "away_rewards.py").write_text(
        "def first(x):\n    return x[..., 0]\n", encoding="utf-8"
    )
    text = SWEEP.replace(
        "{name: bandit, arms: 4}", '{name: gaussian, reward: "away_rewards:first"}'
    )
    with monkeypatch.context() as here:
        here.syspath_prepend(tmp_path)
        spec = load_spec(write(text.replace("VARY", "{policy.mean: [0, 1]}")))
        there = [cell.id for cell in make_plan(spec).cells]
    monkeypatch.delitem(sys.modules, "away_rewards", raising=False)
    assert [cell.id for cell in make_plan(read_spec(write(spec_to_yaml(spec)))).cells] == there
    assert len(there) == 8


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (
            "vary.environment.arms=[3, 5]",
            {"environment.arms": (3, 5), "policy.init_std": (1.0, 0.5)},
        ),
        ("vary.environment.arms.1=5", {"environment.arms": (8, 5), "policy.init_std": (1.0, 0.5)}),
        ("vary.policy.init_std=2", {"environment.arms": (8, 4), "policy.init_std": (2.0,)}),
        (
            "vary.environment.reward_shift=[0, 1]",
            {
                "environment.arms": (8, 4),
                "policy.init_std": (1.0, 0.5),
                "environment.reward_shift": (0.0, 1.0),
            },
        ),
    ],
)
def test_what_varies_is_set_on_the_command_line(
    write: Write, override: str, expected: object
) -> None:
    assert load_spec(write(SWEEP.replace("VARY", BOTH)), [override]).vary == expected


def test_one_setting_can_be_selected(varied: Callable[..., Plan]) -> None:
    plan = varied()
    chosen = select(plan, "environment.arms=8,policy.init_std=1,baseline=none")
    assert chosen == {
        cell.id
        for cell in plan.cells
        if cell.setting == {"environment.arms": 8, "policy.init_std": 1.0}
        and cell.baseline == "none"
    }
    assert len(chosen) == 2
    with pytest.raises(LabError, match=r"no cell has environment.arms = 5; the sweep has 8, 4"):
        select(plan, "environment.arms=5")
    with pytest.raises(
        LabError, match=r"unknown axis 'environment.arm' \(did you mean environment.arms\?\)"
    ):
        select(plan, "environment.arm=8")


def test_records_are_told_by_the_setting_of_the_present_plan(
    varied: Callable[..., Plan], tmp_path: Path
) -> None:
    run, plan = RunDirectory(tmp_path / "run"), varied("{environment.arms: [4, 8]}", "seeds=[0]")
    cell = plan.cells[0]
    bare = varied("{}", "seeds=[0]").cells[0].as_dict()
    run.write(Record(bare, "done", gradient_metrics(bare, value=1.0)))
    (found,) = run.records(plan)
    assert found.cell == cell.as_dict()
    # Whatever it was read for before.
    assert [record.cell for record in run.records(varied("{}", "seeds=[0]"))] == [bare]
    assert run.records(plan) == [found]
    assert found.cell["setting"] == {"environment.arms": 4}
    run.write(replace(found, metrics=gradient_metrics(bare, value=2.0)))
    (plain,) = run.records(varied("{}", "seeds=[0]"))
    assert (plain.metrics or {})["value"] == 2.0
    assert "setting" not in plain.cell


def test_distances_of_a_behaviour_policy_are_settings(varied: Callable[..., Plan]) -> None:
    plan = varied("{}", "seeds=[0]", "gradient.behaviour.distance=[0, 0.5]")
    assert [dict(unit.setting) for unit in plan.units] == [
        {"behaviour.distance": 0.0},
        {"behaviour.distance": 0.5},
    ]
    on, off = (unit.cells[0].as_dict() for unit in plan.units)
    assert off["behaviour"] == {"distance": 0.5}
    # On-policy cells are what they are without any distance.
    assert "behaviour" not in on
    assert {cell.id for cell in plan.units[0].cells} == {
        cell.id for cell in varied("{}", "seeds=[0]").cells
    }
    assert plan.units[1].label == "bandit distance=0.5, stage 0, seed 0"


@pytest.mark.parametrize(
    ("estimator", "distance", "size"),
    [
        ("median", "[0, 0.5]", 5),
        ("median", "0", 20),
        ("[maxk, 'top_m[1]', off_policy_maxk]", "0.5", 20),
    ],
)
def test_objectives_that_can_be_judged_under_a_behaviour_policy(
    write: Write, estimator: str, distance: str, size: int
) -> None:
    text = SWEEP.replace("VARY", "{}").replace(
        "{name: bandit, arms: 4}", f"{{name: tsp, num_loc: {size}}}"
    )
    assert load_spec(
        write(text),
        [f"gradient.grid.estimator={estimator}", f"gradient.behaviour.distance={distance}"],
    )


def test_naming_the_policy_that_acts_anyway_changes_no_cell(write: Write) -> None:
    def ids(text: str, policy: str) -> list[str]:
        return [cell.id for cell in make_plan(load_spec(write(text), [f"policy={policy}"])).cells]

    bandit = SWEEP.replace("VARY", BOTH)
    assert ids(bandit, "{name: tabular}") == ids(bandit, "{}")
    places = SWEEP.replace("VARY", "{environment.name: [tsp, cvrp]}").replace(
        "name: bandit, arms: 4", "name: tsp"
    )
    sizes = "embed_dim: 16, num_heads: 2"
    assert ids(places, f"{{name: attention, {sizes}}}") == ids(places, f"{{{sizes}}}")


def test_a_pretrained_policy_is_one_by_its_folder_with_or_without_its_name(
    write: Write, tmp_path: Path
) -> None:
    stand_in_model(tmp_path)
    text = SWEEP.replace("name: bandit, arms: 4", "name: toy_llm").replace("vary: VARY\n", "")
    folder = f"pretrained: {tmp_path}, dtype: float64"
    named, short = (
        load_spec(write(text), [f"policy={{{policy}}}"])
        for policy in (f"name: pretrained, {folder}", folder)
    )
    assert named.policy == short.policy
    assert short.policy["pretrained"] == str(tmp_path)
    assert short.policy["dtype"] == "float64"
    # The identity that a folder without a name had from the first.
    assert {"embed_dim", "num_layers", "num_heads", "init_std"} < set(short.policy)
    assert "name" not in short.policy
    (problem,) = problems(write(text), f"policy={{name: transformer, {folder}}}")
    assert "policy.name: transformer and the folder in `pretrained` contradict" in problem
    assert "pretrained is missing" in problems(write(text), "policy.name=pretrained")[0]
    assert (
        "unknown key 'embed_dim'"
        in problems(write(text), "policy={name: pretrained, embed_dim: 4}")[0]
    )
