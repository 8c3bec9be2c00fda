"""Plans: which cells there are, what is skipped and why, and what a cell's id depends on."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hand_written import gradient_metrics
from model_folders import stand_in_model
from sweep_files import SMALL, Write, ids_of, plan_of

from maxk_lab.errors import LabError
from maxk_lab.execution.records import Record, RunDirectory
from maxk_lab.planning.identity import content_hash, without_paths
from maxk_lab.planning.plan import make_plan, select
from maxk_lab.settings import without_defaults
from maxk_lab.sweep_file.fields import describe_point
from maxk_lab.sweep_file.load import load_spec, read_spec, spec_to_yaml

VARIED = f"{SMALL}vary: {{environment.arms: [8, 4], policy.init_std: [1, 0.5]}}\n"
LANGUAGE = SMALL.replace("bandit, arms: 4", "toy_llm")
TSP = SMALL.replace("bandit, arms: 4", "tsp")
OBJECTIVE = """\
name: along
seeds: [0]
environment: {name: gaussian}
objective:
  parameter: policy.mean
  from: -0.5
  to: 1.5
  grid: {estimator: [maxk, "top_m[2]", reinforce], k: [1, 2]}
"""
WEIGHTS = f"{SMALL.partition('gradient:')[0]}vary: {{environment.arms: [4, 8]}}\nweights: " + (
    "{groups: 2, grid: {estimator: maxk, baseline: [none, subloo], n: 4, k: 2}}\n"
)
TRAINING = f"{SMALL.partition('gradient:')[0]}training: {{batch: 8, evaluate: {{samples: 4}}, " + (
    "grid: {estimator: maxk, baseline: [none, 'ladder[oracle]', 'ladder[cross_fit]'], "
    "n: [4, 8], k: 2}}\n"
)
ONE = ["seeds=[0]", "gradient.grid.n=4", "gradient.grid.baseline=none"]
CELL = "estimator=maxk baseline=none n=4 k=2"
FITTED = [*ONE, "gradient.grid.baseline=[none, 'ladder[oracle]', 'ladder[cross_fit]']"]
OF_STUDY = "complete: true only"


@pytest.mark.parametrize(
    ("text", "options", "units", "cells", "skipped"),
    [
        (SMALL, ["gradient.stages=[20, 0]", "gradient.grid.n=4", "gradient.grid.baseline=none"],
         [f"bandit, stage {stage}, seed {seed}" for stage in (0, 20) for seed in (0, 1)],
         [CELL], []),
        (VARIED, ONE, [f"bandit arms={arms} init_std={std}, stage 0, seed 0"
                       for arms in (8, 4) for std in (1.0, 0.5)], [CELL], []),
        (SMALL, [*ONE, "vary.policy.success_probability=[0.5, 1.0]"],
         ["bandit success_probability=0.5, stage 0, seed 0"], [CELL],
         ["policy.success_probability=1.0: success_probability must be less than 1, got 1.0"]),
        (SMALL, [*ONE, "gradient.behaviour.distance=[0, 0.5]"],
         [f"bandit distance={distance}, stage 0, seed 0" for distance in (0.0, 0.5)], [CELL], []),
        (WEIGHTS, ["seeds=[0]", "weights.grid.k=[1, 2]"],
         [f"bandit arms={arms}, weights, seed 0" for arms in (4, 8)],
         ["estimator=maxk baseline=none n=4 k=1", CELL, "estimator=maxk baseline=subloo n=4 k=2"],
         ["estimator=maxk baseline=subloo n=4 k=1: subloo needs 2 <= K <= n, got K = 1 and n = 4"]),
        (OBJECTIVE, [], ["gaussian, along policy.mean, seed 0"],
         ["estimator=maxk baseline=none n=1 k=1", "estimator=maxk baseline=none n=2 k=2",
          "estimator=top_m[2] baseline=none n=2 k=2", "estimator=reinforce baseline=none n=1 k=1"],
         ["estimator=top_m[2] k=1: the m of top_m must be at most K = 1, got 2",
          "estimator=reinforce k=2: repeats estimator=reinforce k=1"]),
        (SMALL, [*ONE, "gradient.grid.k=[2, 8]"], ["bandit, stage 0, seed 0"], [CELL],
         ["estimator=maxk baseline=none n=4 k=8: maxk needs 1 <= K <= n, got K = 8 and n = 4"]),
        # Points of one meaning run once.
        (SMALL, [*ONE, "gradient.grid={estimator: reinforce, baseline: centred, k: [2, 3]}"],
         ["bandit, stage 0, seed 0"], ["estimator=reinforce baseline=centred n=4 k=1"],
         ["estimator=reinforce baseline=centred n=4 k=3: repeats estimator=reinforce "
          "baseline=centred n=4 k=1"]),
        (SMALL, [*ONE, "gradient.grid.baseline=[affine, 'affine[0.50]']"],
         ["bandit, stage 0, seed 0"], ["estimator=maxk baseline=affine[0.5] n=4 k=2"],
         ["estimator=maxk baseline=affine[0.5] n=4 k=2: repeats estimator=maxk "
          "baseline=affine[0.5] n=4 k=2"]),
        (SMALL.replace("bandit, arms: 4", "gaussian"),
         [*ONE, "gradient.grid.baseline=[none, 'optimal[logit_proxy]']"],
         ["gaussian, stage 0, seed 0"], [CELL],
         ["estimator=maxk baseline=optimal[logit_proxy] n=4 k=2: optimal[logit_proxy] needs the "
          "trajectory weight logit_proxy, and a Gaussian policy has no logits"]),
        (SMALL, FITTED, ["bandit, stage 0, seed 0"],
         [CELL, "estimator=maxk baseline=ladder[cross_fit] n=4 k=2"],
         ["estimator=maxk baseline=ladder[oracle] n=4 k=2: ladder[oracle] is fitted by complete "
          f"enumeration: gradient studies with {OF_STUDY}"]),
        (SMALL, [*FITTED, "gradient.complete=true"], ["bandit, stage 0, seed 0"],
         [CELL, *(f"estimator=maxk baseline=ladder[{fit}] n=4 k=2"
                  for fit in ("oracle", "cross_fit"))], []),
        (TRAINING, ["seeds=[0]"],
         [f"bandit, maxk/{method} k=2, seed 0"
          for method in ("none n=4", "none n=8")],
         [CELL, "estimator=maxk baseline=none n=8 k=2"],
         [f"estimator=maxk baseline=ladder[{fit}] n={n} k=2: ladder[{fit}] is fitted to gradients: "
          "gradient studies only" for fit in ("oracle", "cross_fit") for n in (4, 8)]),
    ],
)  # fmt: skip
def test_what_is_planned(
    write: Write, text: str, options: list[str], units: list[str], cells: list[str], skipped: list
) -> None:
    plan = plan_of(write(text), *options)
    assert [unit.label for unit in plan.units] == units
    points = [describe_point(cell.axes) for cell in plan.cells]
    assert [*dict.fromkeys(points)] == cells
    for unit in plan.units:
        assert unit.setting.items() <= unit.cells[0].as_dict().get("setting", {}).items()
    assert len({cell.id for cell in plan.cells}) == len(plan.cells)
    assert [str(one) for one in plan.skipped] == skipped


def test_a_cell_says_all_it_means(small: str) -> None:
    cell = plan_of(small, "seeds=[7]", "gradient.stages=3").cells[0].as_dict()
    identity = cell.pop("id")
    assert content_hash(cell) == identity
    assert cell == {
        "identity_version": 1,
        "record_version": 3,
        "study": "gradient",
        "seed": 7,
        "environment": {"name": "bandit", "arms": 4, "reward_shift": 0.0},
        "policy": {"init_std": 1.0, "dtype": "float64"},
        "warmup": {"batch": 32, "n": 16, "learning_rate": 1e-3, "clip": 1.0},
        "stage": 3,
        "instances": 2,
        "pool": 16,
        "partitions": 8,
        "estimator": "maxk",
        "baseline": "none",
        "n": 4,
        "k": 2,
    }


CLAIM = "claims=[{name: c, kind: unbiased, detectable: 0.1}]"
LLM = ["policy={embed_dim: 16, num_heads: 2}"]


@pytest.mark.parametrize(
    ("text", "others", "options"),
    [
        *((SMALL, [], [option]) for option in [
            "seeds=[1, 0]", "gradient.grid.baseline=[centred, none]", "gradient.grid.n=[8, 4]",
            "name=other", "description=other", "tracking.wandb=online", CLAIM,
            "environment.reward_shift=-0.0", "policy.init_std=1", "gradient.warmup.batch=64",
            "gradient.complete=false", "gradient.partitions=8", "gradient.grid.k=[2, 2]",
            "environment={arms: 4, name: bandit, reward_shift: 0}", "vary.environment.arms=4",
            # Settings that came later, at their defaults, are those of older cells.
            "vary.environment.rewards=gaussian", "policy.success_probability=0",
            "gradient.behaviour.distance=0", "policy.name=tabular",
        ]),
        (OBJECTIVE, [], ["objective.points=101", "objective.grid.k=[2, 1]"]),
        # Of several environments, too, the policy that acts anyway may be named.
        (TSP + "vary: {environment.name: [tsp, cvrp]}\n", LLM, ["policy.name=attention", *LLM]),
    ],
)  # fmt: skip
def test_ids_do_not_depend_on(
    write: Write, text: str, others: list[str], options: list[str]
) -> None:
    assert ids_of(write(text), *options) == ids_of(write(text), *others)


@pytest.mark.parametrize(
    ("text", "option"),
    [
        *((SMALL, option) for option in [
            "seeds=[2, 3]", "environment.arms=5", "environment.reward_shift=1", "policy.init_std=2",
            "gradient.pool=17", "gradient.instances=3", "gradient.partitions=4",
            "gradient.grid.k=3", "gradient.stages=1", "gradient.complete=true",
            "environment.rewards=linear",
            "gradient.behaviour.distance=0.5", "policy.success_probability=0.25",
        ]),
        *((OBJECTIVE, option) for option in [
            "objective.from=0", "objective.to=2", "objective.points=11", "policy.scale=0.2",
        ]),
        (WEIGHTS, "weights.groups=3"),
    ],
)  # fmt: skip
def test_ids_depend_on(write: Write, text: str, option: str) -> None:
    assert not ids_of(write(text), option) & ids_of(write(text))


def test_cells_are_those_of_sweeps_that_set_what_another_varies(write: Write) -> None:
    alone = [
        ids_of(write(SMALL), f"environment.arms={arms}", f"policy.init_std={std}")
        for arms in (4, 8)
        for std in (1, 0.5)
    ]
    assert ids_of(write(VARIED)) == set.union(*alone)
    assert "setting" not in plan_of(write(SMALL)).cells[0].as_dict()


def test_warm_up_matters_only_where_there_is_one(small: str) -> None:
    plain, changed = (
        {
            cell.stage: cell.id
            for cell in plan_of(small, *ONE, "gradient.stages=[0, 1]", *more).cells
        }
        for more in ([], ["gradient.warmup.clip=2"])
    )
    assert plain[0] == changed[0]
    assert plain[1] != changed[1]


def test_a_pretrained_policy_is_one_by_its_folder_with_or_without_its_name(
    write: Write, tmp_path: Path
) -> None:
    stand_in_model(tmp_path)
    folder = f"pretrained: {tmp_path}, dtype: float64"
    named, short = (
        load_spec(write(LANGUAGE), [f"policy={{{policy}}}"]).policy
        for policy in (f"name: pretrained, {folder}", folder)
    )
    assert named == short
    assert (short["pretrained"], short["dtype"]) == (str(tmp_path), "float64")
    # The identity that a folder without a name had from the first.
    assert {"embed_dim", "num_layers", "num_heads", "init_std"} < set(short)
    assert "name" not in short


def test_a_run_is_planned_where_its_reward_function_is_not_at_hand(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "away_rewards.py").write_text("def first(x):\n    return x[..., 0]\n")
    text = SMALL.replace("bandit, arms: 4", 'gaussian, reward: "away_rewards:first"')
    with monkeypatch.context() as here:
        here.syspath_prepend(tmp_path)
        spec = load_spec(write(text + "vary: {policy.mean: [0, 1]}\n"))
        there = [cell.id for cell in make_plan(spec).cells]
    monkeypatch.delitem(sys.modules, "away_rewards", raising=False)
    assert [cell.id for cell in make_plan(read_spec(write(spec_to_yaml(spec)))).cells] == there
    assert len(there) == 16


def test_one_setting_can_be_selected(write: Write) -> None:
    plan = plan_of(write(VARIED))
    chosen = select(plan, "environment.arms=8,policy.init_std=1,baseline=none,n=4")
    found = [cell for cell in plan.cells if cell.id in chosen]
    assert [(cell.seed, cell.baseline, cell.n) for cell in found] == [
        (0, "none", 4),
        (1, "none", 4),
    ]
    assert found[0].setting == {"environment.arms": 8, "policy.init_std": 1.0}
    for only, words in {
        "environment.arms=5": "no cell has environment.arms = 5; the sweep has 8, 4",
        "environment.arm=8": r"unknown axis 'environment.arm' \(did you mean environment.arms\?\)",
    }.items():
        with pytest.raises(LabError, match=words):
            select(plan, only)


def test_records_are_told_by_the_setting_of_the_present_plan(write: Write, tmp_path: Path) -> None:
    run, bare = RunDirectory(tmp_path / "run"), plan_of(write(SMALL), *ONE)
    varied = plan_of(write(SMALL), *ONE, "vary.environment.arms=[4, 8]")
    cell = bare.cells[0].as_dict()
    run.write(Record(cell, "done", gradient_metrics(cell, value=1.0)))
    (found,) = run.records(varied)
    assert found.cell == cell | {"setting": {"environment.arms": 4}}
    # Whatever it was read for before.
    assert [record.cell for record in run.records(bare)] == [cell]
    assert run.records(varied) == [found]
    run.write(Record(found.cell, "done", gradient_metrics(cell, value=2.0)))
    (plain,) = run.records(bare)
    assert ((plain.metrics or {})["value"], plain.cell) == (2.0, cell)


def test_a_setting_at_its_default_is_left_out_whole() -> None:
    """Settings that came later than the first records: a block stays or goes as one."""
    told = {"a": 1, "block": {"x": 0, "y": 2}, "same": {"x": 0}}
    defaults = {"a": 2, "block": {"x": 0, "y": 1}, "same": {"x": 0}, "absent": 3}
    assert without_defaults(told, defaults) == {"a": 1, "block": {"x": 0, "y": 2}}


def test_what_is_hashed_is_numbers_as_they_are_spelt_and_files_by_their_content() -> None:
    file = {"path": "a.pt", "sha256": "0f"}
    settings = {"checkpoint": file, "evaluate": {"data": file, "path": "b"}, "list": [1]}
    content = {"sha256": "0f"}
    assert without_paths(settings) == {
        "checkpoint": content,
        "evaluate": {"data": content, "path": "b"},
        "list": [1],
    }
    assert len({content_hash({"n": value}) for value in (1, 1.0, True)}) == 3
    assert content_hash({"n": 0.0}) == content_hash({"n": -0.0})


def test_the_id_of_any_seed_is_the_hash_of_all_that_the_cell_means(write: Write) -> None:
    """Units that differ in their seeds share a template, in which texts may have any letters."""
    for plan in (plan_of(write(SMALL)), plan_of(write(TRAINING)), plan_of(write(WEIGHTS))):
        for cell in plan.cells:
            assert cell.id == content_hash(cell.unit.hashed_meaning | cell.axes)
    unit = replace(plan_of(write(SMALL)).units[0], policy={"text": "50%d é 'x' %(n)s", "x": -0.0})
    for other in unit.with_seeds([5, 10**12]):
        (cell, *_) = other.cells
        assert cell.id == content_hash(other.hashed_meaning | cell.axes)
