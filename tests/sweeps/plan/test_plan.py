"""Plans: which cells there are, what is skipped and why, and what a cell's id depends on."""

from __future__ import annotations

import pytest
from sweep_files import ids_of, plan_of

from maxk_lab.sweeps.plan.identity import content_hash, without_defaults, without_paths

CLAIM = "claims=[{name: c, kind: unbiased, detectable: 0.1}]"


def test_cells_of_a_seed_and_stage_share_a_unit(small: str) -> None:
    plan = plan_of(small, "gradient.stages=[20, 0]")
    assert [(unit.stage, unit.seed, len(unit.cells)) for unit in plan.units] == [
        (0, 0, 4), (0, 1, 4), (20, 0, 4), (20, 1, 4),
    ]  # fmt: skip
    assert len({cell.id for cell in plan.cells}) == 16


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


@pytest.mark.parametrize(
    "override",
    [
        "seeds=[1, 0]", "gradient.grid.baseline=[centred, none]", "gradient.grid.n=[8, 4]",
     "name=other",
        "description=other", "tracking.wandb=online", "tracking.project=x", CLAIM,
        "environment.reward_shift=-0.0", "policy.init_std=1", "gradient.warmup.batch=64",
        "gradient.complete=false",
        "gradient.partitions=8",
        "environment={arms: 4, name: bandit, reward_shift: 0}", "gradient.grid.k=[2, 2]",
    ],
)  # fmt: skip
def test_ids_do_not_depend_on(small: str, override: str) -> None:
    assert ids_of(small, override) == ids_of(small)


@pytest.mark.parametrize(
    "override",
    [
        "seeds=[2, 3]", "environment.arms=5", "environment.reward_shift=1", "policy.init_std=2",
        "gradient.pool=17",
        "gradient.instances=3", "gradient.partitions=4", "gradient.stages=1", "gradient.grid.k=3",
        "gradient.complete=true",
    ],
)  # fmt: skip
def test_ids_depend_on(small: str, override: str) -> None:
    assert not ids_of(small, override) & ids_of(small)


def test_warm_up_matters_only_where_there_is_one(small: str) -> None:
    plain, changed = (
        {
            cell.stage: cell.id
            for cell in plan_of(small, "seeds=[0]", "gradient.stages=[0, 1]", *more).cells
        }
        for more in ([], ["gradient.warmup.clip=2"])
    )
    assert plain[0] == changed[0]
    assert plain[1] != changed[1]


def test_skipped_points_say_why(small: str) -> None:
    plan = plan_of(small, "gradient.grid.baseline=[none, subloo]", "gradient.grid.k=[1, 8]")
    assert [str(skipped) for skipped in plan.skipped] == [
        "estimator=maxk baseline=none n=4 k=8: maxk needs 1 <= K <= n, got K = 8 and n = 4",
        "estimator=maxk baseline=subloo n=4 k=1: subloo needs 2 <= K <= n, got K = 1 and n = 4",
        "estimator=maxk baseline=subloo n=4 k=8: maxk needs 1 <= K <= n, got K = 8 and n = 4",
        "estimator=maxk baseline=subloo n=8 k=1: subloo needs 2 <= K <= n, got K = 1 and n = 8",
    ]


def test_points_of_one_meaning_run_once(small: str) -> None:
    plan = plan_of(
        small,
        "seeds=[0]",
        "gradient.grid={estimator: reinforce, baseline: centred, n: 4, k: [2, 3]}",
    )
    assert [(cell.estimator, cell.k) for cell in plan.cells] == [("reinforce", 1)]
    assert [str(skipped) for skipped in plan.skipped] == [
        "estimator=reinforce baseline=centred n=4 k=3: repeats estimator=reinforce "
        "baseline=centred n=4 k=1"
    ]
    spelled = plan_of(
        small, "seeds=[0]", "gradient.grid.baseline=[affine, 'affine[0.50]']", "gradient.grid.n=4"
    )
    assert [cell.baseline for cell in spelled.cells] == ["affine[0.5]"]
    assert len(spelled.skipped) == 1


def test_a_setting_at_its_default_is_left_out_whole() -> None:
    """Settings that came later than the first records: a block stays or goes as one."""
    told = {"a": 1, "block": {"x": 0, "y": 2}, "same": {"x": 0}}
    defaults = {"a": 2, "block": {"x": 0, "y": 1}, "same": {"x": 0}, "absent": 3}
    assert without_defaults(told, defaults) == {"a": 1, "block": {"x": 0, "y": 2}}


def test_files_are_told_apart_by_their_content() -> None:
    file = {"path": "a.pt", "sha256": "0f"}
    settings = {"checkpoint": file, "evaluate": {"data": file, "path": "b"}, "list": [1]}
    content = {"sha256": "0f"}
    assert without_paths(settings) == {
        "checkpoint": content,
        "evaluate": {"data": content, "path": "b"},
        "list": [1],
    }


def test_numbers_that_are_equal_but_spelt_otherwise_have_hashes_of_their_own() -> None:
    assert len({content_hash({"n": value}) for value in (1, 1.0, True)}) == 3
    assert content_hash({"n": 0.0}) == content_hash({"n": -0.0})
