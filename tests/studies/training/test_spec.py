"""Training studies in sweep files: points, settings of one entry, every refusal at its place."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from sweep_files import Write, ids_of, plan_of, problems

from maxk_lab.planning.identity import content_hash, with_removed_defaults
from maxk_lab.planning.plan import make_plan
from maxk_lab.studies.training.grid import TrainingUnit
from maxk_lab.sweep_file.load import load_spec, read_spec, spec_to_yaml
from maxk_lab.training.settings import Settings

HEAD = """\
name: small
seeds: [0, 1]
environment: {name: bandit, arms: 4}
training:
  batch: 16
  evaluate: {samples: 8, instances: 4}
  grid: """
GRID = "{estimator: maxk, baseline: [none, centred], n: [4, 8], k: [1, 2]}"
SWEEP = """\
name: demo
seeds: [0, 1]
environment: {name: tsp, num_loc: 8}
policy: {embed_dim: 16, num_encoder_layers: 1, num_heads: 2, feedforward_hidden: 16}
training:
  steps: 4
  batch: 32
  snapshots: [0, 2]
  evaluate: {every: 2, instances: 8, samples: 8, extras: [greedy, augmentation, multistart], \
reference: exact}
  grid:
    - {estimator: reinforce, baseline: [group_mean, centred], n: 8, k: 1}
    - {estimator: reinforce, baseline: group_mean, n: 8, k: 1, with: {start: multistart}}
    - {estimator: "leader_reward[0.5]", baseline: none, n: 8, k: 4}
    - {estimator: maxk, baseline: [sample_loo, pkpo_sloo, centred, subloo], n: 8, k: [2, 4]}
    - {estimator: maxk, baseline: subloo, n: 8, k: 4, with: {k_schedule: {kind: step, \
first: 2, until: 3}}}
    - {estimator: "hybrid[0.5]", baseline: none, n: 8, k: 4, with: {start: multistart, \
weight_normalization: zscore}}
claims:
  - &claim {name: a, kind: difference, metric: max@4, of: {estimator: maxk, k: 4}, \
over: {estimator: reinforce, k: 1}, where: {baseline: centred}, at_least: 0}
  # What the estimator fixes need not be given.
  - {<<: *claim, name: b, of: {estimator: maxk}, over: {estimator: reinforce}}
  - {<<: *claim, name: c, of: {estimator: maxk, baseline: [centred, subloo], k: [2, 4]}, \
over: {estimator: reinforce, baseline: group_mean, k: 1}, \
where: {setting: {start: iid, k_schedule.kind: fixed}}}
  - {<<: *claim, name: d, of: {estimator: reinforce, setting: {start: multistart}}, \
over: {estimator: reinforce, setting: {start: iid}}, where: {}}
"""
POINT = "{estimator: maxk, baseline: centred, n: 4, k: 2"
VARY = "vary: {environment.num_loc: [10, 12], environment.name: [cvrp, op, pctsp]}\n"
VARIED = f"""\
name: varied
seeds: [0, 1]
environment: {{name: cvrp, num_loc: 10}}
policy: {{embed_dim: 16, num_heads: 2}}
{VARY}training:
  batch: 16
  evaluate: {{samples: 8, instances: 4}}
  grid: {POINT}}}
"""
WITHOUT_MEANING = [
    "training.checkpoint_every=7", "training.grid.n=[8, 4]", "seeds=[1, 0]",
    "training.learning_rate=0.001", "training.evaluate.temperatures=1",
    "training.evaluate.tuning=0", "training.evaluate.last=1", "training.max_grad_norm=null",
    "training.device=cpu", "training.snapshots=[0, 5]", "training.start=iid",
    "training.reward_scale=1", "training.k_schedule={kind: fixed}",
    "training.evaluate.extras=[]", "training.evaluate.reference=auto", "tracking.wandb=online",
]  # fmt: skip
WITH_MEANING = [
    "training.steps=7", "training.batch=32", "training.max_grad_norm=1", "training.kl.place=loss",
    "training.loss.ratio=token", "training.loss.aggregation=token_mean",
    "training.evaluate.samples=16", "training.evaluate.last=2", "training.reward_scale=2",
    "training.evaluate.reference=none", "training.k_schedule={kind: step, first: 2}",
    "training.weight_normalization=zscore", "policy.init_std=2", "seeds=[2, 3]",
]  # fmt: skip


def with_settings(*settings: str) -> str:
    """A sweep of one point, and of it with other settings."""
    entries = [f"{POINT}}}", *(f"{POINT}, with: {each}}}" for each in settings)]
    return f"{HEAD}[{', '.join(entries)}]"


@pytest.fixture
def training(write: Write) -> str:
    """The path of a sweep of 2 seeds × 8 trainings."""
    return write(HEAD + GRID)


def id_of(cell: Mapping[str, Any]) -> str:
    """Return the id that follows from what a cell says of itself."""
    meaning = {name: value for name, value in cell.items() if name not in ("id", "setting")}
    trained = with_removed_defaults(cell["training"], "training")
    return content_hash(meaning | {"training": trained})


def test_a_cell_says_all_it_means_and_is_a_unit_of_its_own(training: str) -> None:
    plan = plan_of(training)
    assert [len(unit.cells) for unit in plan.units] == [1] * 16
    assert len({unit.label for unit in plan.units}) == 16
    assert plan.units[0].label == "bandit, maxk/none n=4 k=1, seed 0"
    assert [unit.seed for unit in plan.units] == [0] * 8 + [1] * 8
    cell = plan.units[0].cells[0].as_dict()
    assert id_of(cell) == cell["id"]
    settings = plan.units[0].as_dict()["training"]
    point = {"estimator": "maxk", "baseline": "none", "n": 4, "k": 1}
    assert point.items() <= cell.items()
    assert cell["training"] == {k: v for k, v in settings.items() if k != "checkpoint_every"}
    assert Settings.from_mapping(settings).model_dump(exclude={"batch", "evaluate"}) == (
        Settings().model_dump(exclude={"batch", "evaluate"})
    )


def test_the_points_of_all_entries_with_the_settings_of_their_own(write: Write) -> None:
    spec = load_spec(write(SWEEP))
    units = make_plan(spec).units
    assert [unit.seed for unit in units] == [0] * 14 + [1] * 14
    assert len({unit.label for unit in units}) == 28
    assert [dict(unit.setting) for unit in units[2:4]] == [
        {"start": start, "k_schedule.kind": "fixed", "weight_normalization": "none"}
        for start in ("multistart", "iid")
    ]
    trained = [unit.training for unit in units if isinstance(unit, TrainingUnit)]
    assert "start" not in trained[0]
    assert trained[12]["k_schedule"] == {"kind": "step", "first": 2, "until": 3}
    assert (trained[13]["start"], trained[13]["weight_normalization"]) == ("multistart", "zscore")
    assert units[13].label == (
        "tsp start=forced k_schedule.kind=fixed weight_normalization=zscore, "
        "hybrid[0.5]/none n=8 k=4, seed 0"
    )
    points = [
        {axis: getattr(cell, axis) for axis in ("estimator", "baseline", "n", "k")}
        | {"setting": dict(cell.setting)}
        for unit in units[:14]
        for cell in unit.cells
    ]
    assert [len(list(claim.points(points))) for claim in spec.claims] == [1, 2, 4, 1]
    again = write(spec_to_yaml(spec))
    assert load_spec(again) == spec
    ids = [cell.id for cell in make_plan(spec).cells]
    assert [cell.id for cell in make_plan(read_spec(again)).cells] == ids


@pytest.mark.parametrize(
    ("settings", "override"),
    [
        ("{kl: {place: loss}, steps: 7}", ["training.kl.place=loss", "training.steps=7"]),
        ("{reward_clip: [-1, 1]}", ["training.reward_clip=[-1, 1]"]),
        ("{k_schedule: {kind: step, first: 1, until: 5}}",
         ["training.k_schedule={kind: step, first: 1, until: 5}"]),
    ],
)  # fmt: skip
def test_a_cell_of_an_entry_is_that_of_a_sweep_with_its_settings(
    write: Write, settings: str, override: list[str]
) -> None:
    plain = write(f"{HEAD}{POINT}}}")
    expected = [plan_of(plain).cells[0].id, plan_of(plain, *override).cells[0].id]
    assert [cell.id for cell in plan_of(write(with_settings(settings))).cells[:2]] == expected


def test_settings_are_outside_the_meaning_as_single_values(write: Write) -> None:
    cells = plan_of(write(with_settings("{reward_clip: [-1, 1], max_grad_norm: 2}"))).cells[:2]
    assert [dict(cell.setting) for cell in cells] == [
        {"reward_clip": "none", "max_grad_norm": "none"},
        {"reward_clip": "[-1.0, 1.0]", "max_grad_norm": 2.0},
    ]
    assert [id_of(cell.as_dict()) for cell in cells] == [cell.id for cell in cells]


@pytest.mark.parametrize("study", ["training", "gradient", "weights"])
def test_what_two_entries_have_is_measured_once(write: Write, study: str) -> None:
    more = "pool: 16, instances: 2, " if study == "gradient" else ""
    own = ", with: {start: iid}" if study == "training" else ""
    grid = (
        "[{estimator: maxk, baseline: centred, n: 4, k: [1, 2]},"
        f" {{estimator: maxk, baseline: [centred, none], n: 4, k: 2{own}}}]"
    )
    text = f"name: s\nseeds: 1\nenvironment: {{name: bandit}}\n{study}: {{{more}grid: {grid}}}\n"
    plan = plan_of(write(text))
    points = [(cell.baseline, cell.k) for cell in plan.cells]
    assert points == [("centred", 1), ("centred", 2), ("none", 2)]
    (repeat,) = plan.skipped
    assert (repeat.study, repeat.repeats is not None) == (study, True)
    assert repeat.reason.endswith("of an earlier entry")


def test_ids_depend_on_settings_that_change_a_number(training: str) -> None:
    ids = ids_of(training)
    assert ids_of(training, *WITHOUT_MEANING) == ids
    for override in WITH_MEANING:
        assert not ids_of(training, override) & ids, override


def test_every_environment_with_its_own_defaults(write: Write) -> None:
    plan = plan_of(write(VARIED))
    places = [
        (unit.seed, unit.environment["num_loc"], unit.environment["name"]) for unit in plan.units
    ]
    assert places == [*product((0, 1), (10, 12), ("cvrp", "op", "pctsp"))]
    assert dict(plan.units[1].setting) == {"environment.num_loc": 10, "environment.name": "op"}
    assert plan.units[1].label == "op num_loc=10, maxk/centred n=4 k=2, seed 0"
    single = VARIED.replace("cvrp, num_loc: 10", "op, num_loc: 12").replace(VARY, "")
    assert ids_of(write(single)) < {cell.id for cell in plan.cells}


def test_an_evaluation_set_is_its_content(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maxk_lab.studies.training.spec.instances_in", lambda *_: 128)
    path = Path("a.npz")
    path.write_bytes(b"one")
    Path("b.npz").write_bytes(b"one")
    spec = load_spec(write(SWEEP), ["training.evaluate.data=a.npz"])
    cell = make_plan(spec).cells[0].as_dict()
    assert [len(cell["training"]["evaluate"]["data"].pop("sha256"))] == [64]
    assert cell["training"]["evaluate"]["data"] == {}
    ids = {cell.id for cell in make_plan(spec).cells}
    assert ids_of(write(SWEEP), "training.evaluate.data=b.npz") == ids
    resolved = write(spec_to_yaml(spec))
    assert load_spec(resolved) == spec
    path.write_bytes(b"two")
    assert {cell.id for cell in make_plan(read_spec(resolved)).cells} == ids
    (problem,) = problems(resolved)
    assert "training.evaluate.data: a.npz has changed: its SHA-256 was " in problem


def test_bandits_read_no_files(training: str) -> None:
    Path("some.npz").touch()
    (problem,) = problems(training, "training.evaluate.data=some.npz")
    assert "training.evaluate.data: bandit reads no instances" in problem


def test_estimators_without_a_k_have_no_schedule_of_it(training: str) -> None:
    schedule = "training.k_schedule={kind: step, first: 2, until: 3}"
    grid = "training.grid={estimator: [reinforce, maxk], baseline: centred, n: 4, k: 1}"
    cells = plan_of(training, schedule, grid).cells[:2]
    assert [cell.as_dict()["training"].get("k_schedule") for cell in cells] == [
        None,
        {"kind": "step", "first": 2, "until": 3},
    ]


def test_forced_starts_are_for_studies_of_gradients_and_training(write: Write) -> None:
    grid = "grid: {estimator: maxk, baseline: centred, n: 4, k: 2}}"
    gradient = f"gradient: {{instances: 2, pool: 16, start: [iid, forced], {grid}"
    claim = "{name: u, kind: unbiased, detectable: 0.1, where: {setting: {start: forced}}}"
    head = "name: s\nseeds: [0]\nenvironment: {name: tsp, num_loc: 5}"
    plan = plan_of(write(f"{head}\n{gradient}\nclaims: [{claim}]\n"))
    starts = [cell.as_dict().get("start", "iid") for cell in plan.cells]
    assert starts == ["iid", "multistart"]
