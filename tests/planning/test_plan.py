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

HEAD = SMALL.partition("gradient:")[0]
VARIED = f"{SMALL}vary: {{environment.arms: [8, 4], policy.init_std: [1, 0.5]}}\n"
TSP = SMALL.replace("bandit, arms: 4", "tsp")
GAUSSIAN = SMALL.replace("bandit, arms: 4", "gaussian")
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
WEIGHTS = f"{HEAD}vary: {{environment.arms: [4, 8]}}\nweights: " + (
    "{groups: 2, grid: {estimator: maxk, baseline: [none, subloo], n: 4, k: 2}}\n"
)
TRAINING = f"{HEAD}training: {{batch: 8, evaluate: {{samples: 4}}, " + (
    "grid: {estimator: maxk, baseline: [none, 'ladder[oracle]', 'ladder[cross_fit]'], "
    "n: [4, 8], k: 2}}\n"
)
ONE = ["seeds=[0]", "gradient.grid.n=4", "gradient.grid.baseline=none"]
CELL = "maxk none n=4 k=2"
FITTED = [*ONE, "gradient.grid.baseline=[none, 'ladder[oracle]', 'ladder[cross_fit]']"]


@pytest.mark.parametrize(
    ("text", "options", "units", "cells", "skipped"),
    [
        (SMALL, [*ONE, "seeds=[0, 1]", "gradient.stages=[20, 0]"],
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
         ["maxk none n=4 k=1", CELL, "maxk subloo n=4 k=2"],
         ["maxk subloo n=4 k=1: subloo needs 2 <= K <= n, got K = 1 and n = 4"]),
        (OBJECTIVE, [], ["gaussian, along policy.mean, seed 0"],
         ["maxk none n=1 k=1", "maxk none n=2 k=2", "top_m[2] none n=2 k=2",
          "reinforce none n=1 k=1"],
         ["top_m[2] k=1: the m of top_m must be at most K = 1, got 2",
          "reinforce k=2: repeats reinforce k=1"]),
        (SMALL, [*ONE, "gradient.grid.k=[2, 8]"], ["bandit, stage 0, seed 0"], [CELL],
         ["maxk none n=4 k=8: maxk needs 1 <= K <= n, got K = 8 and n = 4"]),
        # Points of one meaning run once.
        (SMALL, [*ONE, "gradient.grid.baseline=[affine, 'affine[0.50]']"],
         ["bandit, stage 0, seed 0"], ["maxk affine[0.5] n=4 k=2"],
         ["maxk affine[0.5] n=4 k=2: repeats maxk affine[0.5] n=4 k=2"]),
        (GAUSSIAN,
         [*ONE, "gradient.grid.baseline=[none, 'optimal[logit_proxy]']"],
         ["gaussian, stage 0, seed 0"], [CELL],
         ["maxk optimal[logit_proxy] n=4 k=2: optimal[logit_proxy] needs the trajectory weight "
          "logit_proxy, and a Gaussian policy has no logits"]),
        (SMALL, FITTED, ["bandit, stage 0, seed 0"], [CELL, "maxk ladder[cross_fit] n=4 k=2"],
         ["maxk ladder[oracle] n=4 k=2: ladder[oracle] is fitted by complete enumeration: gradient "
          "studies with complete: true only"]),
        (SMALL, [*FITTED, "gradient.complete=true"], ["bandit, stage 0, seed 0"],
         [CELL, "maxk ladder[oracle] n=4 k=2", "maxk ladder[cross_fit] n=4 k=2"], []),
        (TRAINING, ["seeds=[0]"],
         [f"bandit, maxk/none n={n} k=2, seed 0" for n in (4, 8)], [CELL, "maxk none n=8 k=2"],
         [f"maxk ladder[{fit}] n={n} k=2: ladder[{fit}] is fitted to gradients: gradient studies "
          "only" for fit in ("oracle", "cross_fit") for n in (4, 8)]),
    ],
)  # fmt: skip
def test_the_units_cells_and_skipped_points_of_a_plan(
    write: Write, text: str, options: list[str], units: list[str], cells: list[str], skipped: list
) -> None:
    def short(point: object) -> str:
        return str(point).replace("estimator=", "").replace("baseline=", "")

    plan = plan_of(write(text), *options)
    assert [unit.label for unit in plan.units] == units
    assert [*dict.fromkeys(short(describe_point(c.axes)) for c in plan.cells)] == cells
    for unit in plan.units:
        assert unit.setting.items() <= unit.cells[0].as_dict().get("setting", {}).items()
    assert len({cell.id for cell in plan.cells}) == len(plan.cells)
    assert [short(one) for one in plan.skipped] == skipped


def test_a_cell_has_all_its_settings(small: str) -> None:
    cell = plan_of(small, "seeds=[7]", "gradient.stages=3").cells[0].as_dict()
    identity = cell.pop("id")
    assert content_hash(cell) == identity
    assert cell == {
        **{"identity_version": 1, "record_version": 3, "study": "gradient", "seed": 7},
        "environment": {"name": "bandit", "arms": 4, "reward_shift": 0.0},
        "policy": {"init_std": 1.0, "dtype": "float64"},
        "warmup": {"batch": 32, "n": 16, "learning_rate": 1e-3, "clip": 1.0},
        **{"stage": 3, "instances": 2, "pool": 16, "partitions": 8},
        **{"estimator": "maxk", "baseline": "none", "n": 4, "k": 2},
    }


CLAIM = "claims=[{name: c, kind: unbiased, detectable: 0.1}]"
LLM = ["policy={embed_dim: 16, num_heads: 2}"]


@pytest.mark.parametrize(
    ("text", "base", "options"),
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
        # With several environments, too, the default policy may be named.
        (TSP + "vary: {environment.name: [tsp, cvrp]}\n", LLM, ["policy.name=attention", *LLM]),
    ],
)  # fmt: skip
def test_ids_do_not_depend_on(write: Write, text: str, base: list[str], options: list[str]) -> None:
    assert ids_of(write(text), *options) == ids_of(write(text), *base)


@pytest.mark.parametrize(
    ("text", "base", "options"),
    [
        (SMALL, [], [
            "seeds=[2, 3]", "environment.arms=5", "environment.reward_shift=1", "policy.init_std=2",
            "gradient.pool=17", "gradient.instances=3", "gradient.partitions=4",
            "gradient.grid.k=3", "gradient.stages=1", "gradient.complete=true",
            "environment.rewards=linear",
            "gradient.behaviour.distance=0.5", "policy.success_probability=0.25",
        ]),
        # The warm-up matters only where there is one.
        (SMALL, ["gradient.stages=1"], ["gradient.warmup.clip=2", "gradient.warmup.batch=64"]),
        (OBJECTIVE, [], [
            "objective.from=0", "objective.to=2", "objective.points=11", "policy.scale=0.2",
        ]),
        (WEIGHTS, [], ["weights.groups=3"]),
    ],
)  # fmt: skip
def test_ids_depend_on(write: Write, text: str, base: list[str], options: list[str]) -> None:
    ids = ids_of(write(text), *base)
    for option in options:
        assert not ids_of(write(text), *base, option) & ids, option


def test_cells_are_those_of_sweeps_that_set_what_another_varies(write: Write) -> None:
    alone = [
        ids_of(write(SMALL), f"environment.arms={arms}", f"policy.init_std={std}")
        for arms in (4, 8)
        for std in (1, 0.5)
    ]
    assert ids_of(write(VARIED)) == set.union(*alone)
    assert "setting" not in plan_of(write(SMALL)).cells[0].as_dict()


def test_a_pretrained_policy_is_one_by_its_folder_with_or_without_its_name(
    write: Write, tmp_path: Path
) -> None:
    stand_in_model(tmp_path)
    folder, text = (
        f"pretrained: {tmp_path}, dtype: float64",
        SMALL.replace("bandit, arms: 4", "toy_llm"),
    )
    named, short = (
        load_spec(write(text), [f"policy={{{policy}}}"]).policy
        for policy in (f"name: pretrained, {folder}", folder)
    )
    assert named == short
    assert (short["pretrained"], short["dtype"]) == (str(tmp_path), "float64")
    # The identity that a folder without a name had from the first.
    assert {"embed_dim", "num_layers", "num_heads", "init_std"} < set(short)
    assert "name" not in short


def test_a_run_is_planned_where_its_reward_function_is_missing(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "away_rewards.py").write_text("def first(x):\n    return x[..., 0]\n")
    text = SMALL.replace("bandit, arms: 4", 'gaussian, reward: "away_rewards:first"')
    with monkeypatch.context() as here:
        here.syspath_prepend(tmp_path)
        spec = load_spec(write(text + "vary: {policy.mean: [0, 1]}\n"))
        ids = [cell.id for cell in make_plan(spec).cells]
    monkeypatch.delitem(sys.modules, "away_rewards", raising=False)
    assert [cell.id for cell in make_plan(read_spec(write(spec_to_yaml(spec)))).cells] == ids
    assert len(ids) == 16


def test_one_setting_can_be_selected(write: Write) -> None:
    plan = plan_of(write(VARIED))
    chosen = select(plan, "environment.arms=8,policy.init_std=1,baseline=none,n=4")
    cells = [cell for cell in plan.cells if cell.id in chosen]
    assert [(cell.seed, cell.baseline, cell.n) for cell in cells] == [
        (0, "none", 4),
        (1, "none", 4),
    ]
    assert cells[0].setting == {"environment.arms": 8, "policy.init_std": 1.0}
    for only, words in {
        "environment.arms=5": "no cell has environment.arms = 5; the sweep has 8, 4",
        "environment.arm=8": r"unknown axis 'environment.arm' \(did you mean environment.arms\?\)",
    }.items():
        with pytest.raises(LabError, match=words):
            select(plan, only)


@pytest.mark.parametrize(
    ("base", "override", "only", "refused", "words"),
    [
        (SMALL, "vary.policy.init_std=[0.001,1.0]", "policy.init_std=1e-3", "2", "0.001, 1.0"),
        (GAUSSIAN, "vary.policy.learn_scale=[true,false]", "policy.learn_scale=false", "0", "true"),
        (TSP, "gradient.start=[iid,forced]", "start=forced", "force", "has iid, forced"),
    ],
)
def test_a_value_is_selected_by_its_spelling_in_the_sweep_file(
    write: Write, base: str, override: str, only: str, refused: str, words: str
) -> None:
    plan = plan_of(write(base), override)
    assert 2 * len(select(plan, only)) == len(plan.cells)
    axis = only.partition("=")[0]
    with pytest.raises(LabError, match=words):
        select(plan, f"{axis}={refused}")


def test_records_have_the_setting_of_the_present_plan(write: Write, tmp_path: Path) -> None:
    run, bare = RunDirectory(tmp_path / "run"), plan_of(write(SMALL), *ONE)
    varied = plan_of(write(SMALL), *ONE, "vary.environment.arms=[4, 8]")
    cell = bare.cells[0].as_dict()
    for value, written in ((1.0, cell), (2.0, cell | {"setting": {"environment.arms": 4}})):
        record = Record(written, "done", gradient_metrics(cell, value=value))
        run.write(record)
        for plan, expected in (
            (varied, cell | {"setting": {"environment.arms": 4}}),
            (bare, cell),
        ):
            (read,) = run.records(plan)
            assert (read.cell, read.metrics["value"]) == (expected, value)


def test_what_is_hashed_is_numbers_as_they_are_spelt_and_files_by_their_content() -> None:
    """Settings that came later are left out at their defaults; a block stays or goes as one."""
    file, content = {"path": "a.pt", "sha256": "0f"}, {"sha256": "0f"}
    settings = {"checkpoint": file, "evaluate": {"data": file, "path": "b"}, "list": [1]}
    hashed = {"checkpoint": content, "evaluate": {"data": content, "path": "b"}, "list": [1]}
    assert without_paths(settings) == hashed
    assert len({content_hash({"n": value}) for value in (1, 1.0, True)}) == 3
    assert content_hash({"n": 0.0}) == content_hash({"n": -0.0})
    settings = {"a": 1, "block": {"x": 0, "y": 2}, "same": {"x": 0}}
    defaults = {"a": 2, "block": {"x": 0, "y": 1}, "same": {"x": 0}, "absent": 3}
    assert without_defaults(settings, defaults) == {"a": 1, "block": {"x": 0, "y": 2}}


def test_the_id_of_any_seed_is_the_hash_of_all_settings_of_the_cell(write: Write) -> None:
    """Units that differ in their seeds share a template, in which texts may have any letters."""
    for text in (SMALL, TRAINING, WEIGHTS):
        for cell in plan_of(write(text)).cells:
            assert cell.id == content_hash(cell.unit.hashed_meaning | cell.axes)
    unit = replace(plan_of(write(SMALL)).units[0], policy={"text": "50%d é 'x' %(n)s", "x": -0.0})
    for seeded in unit.with_seeds([5, 10**12]):
        (cell, *_) = seeded.cells
        assert cell.id == content_hash(seeded.hashed_meaning | cell.axes)
