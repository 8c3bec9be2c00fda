"""Grids that are lists, settings of one entry only, several environments in one study."""

from __future__ import annotations

import pytest
from sweep_files import Write, plan_of, problems

from maxk_lab.errors import LabError
from maxk_lab.studies.training.grid import TrainingUnit
from maxk_lab.sweeps.plan.identity import content_hash
from maxk_lab.sweeps.plan.plan import make_plan, select
from maxk_lab.sweeps.spec.load import load_spec, read_spec, spec_to_yaml

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
    - {estimator: maxk, baseline: subloo, n: 8, k: 4, with: {k_schedule: {kind: linear, \
first: 2, until: 3}}}
    - {estimator: "hybrid[0.5]", baseline: none, n: 8, k: 4, with: {start: multistart, \
weight_normalization: zscore}}
claims:
  - {name: c, kind: difference, metric: max@4, of: OF, over: OVER, where: WHERE, at_least: 0}
"""
SIMPLE = """\
name: simple
seeds: [0]
environment: {name: bandit, arms: 4}
training:
  batch: 16
  evaluate: {samples: 8, instances: 4}
  grid: {estimator: maxk, baseline: centred, n: 4, k: [1, 2]}
"""


def sweep(of: str = "{estimator: maxk, k: 4}", over: str = "{estimator: reinforce, k: 1}",
          where: str = "{baseline: centred}") -> str:  # fmt: skip
    return SWEEP.replace("OF", of).replace("OVER", over).replace("WHERE", where)


@pytest.fixture
def demo(write: Write) -> str:
    """The path of a sweep of 2 seeds × 14 trainings."""
    return write(sweep())


def test_the_points_of_all_entries_with_the_settings_of_their_own(demo: str) -> None:
    units = plan_of(demo).units
    assert [unit.seed for unit in units] == [0] * 14 + [1] * 14
    assert [dict(unit.setting) for unit in units[1:4]] == [
        {"start": start, "k_schedule.kind": "fixed", "weight_normalization": "none"}
        for start in ("iid", "multistart", "iid")
    ]
    assert [dict(unit.setting) for unit in units[12:14]] == [
        {"start": "iid", "k_schedule.kind": "linear", "k_schedule.first": 2, "k_schedule.until": 3,
         "weight_normalization": "none"},
        {"start": "multistart", "k_schedule.kind": "fixed", "weight_normalization": "zscore"},
    ]  # fmt: skip
    told = [unit.training for unit in units if isinstance(unit, TrainingUnit)]
    assert "start" not in told[0]
    assert told[2]["start"] == "multistart"
    assert told[12]["k_schedule"] == {"kind": "linear", "first": 2, "until": 3}
    assert (told[13]["start"], told[13]["weight_normalization"]) == ("multistart", "zscore")
    assert told[0] == told[1] | {"snapshots": [0, 2]}
    assert len({unit.label for unit in units}) == 28
    assert units[13].label == (
        "tsp start=multistart k_schedule.kind=fixed weight_normalization=zscore, "
        "hybrid[0.5]/none n=8 k=4, seed 0"
    )


def test_a_cell_of_an_entry_is_that_of_a_sweep_with_its_settings(write: Write) -> None:
    point = "{estimator: maxk, baseline: centred, n: 4, k: 2"
    entry = f"[{point}}}, {point}, with: WITH}}]"
    plain = plan_of(write(SIMPLE), "training.grid.k=2").cells
    for given, override in (
        ("{kl: {place: loss}, steps: 7}", ["training.kl.place=loss", "training.steps=7"]),
        ("{reward_clip: [-1, 1]}", ["training.reward_clip=[-1, 1]"]),
        ("{k_schedule: {kind: step, first: 1, until: 5}}",
         ["training.k_schedule={kind: step, first: 1, until: 5}"]),
    ):  # fmt: skip
        text = SIMPLE.replace("{estimator: maxk, baseline: centred, n: 4, k: [1, 2]}", entry)
        both = plan_of(write(text.replace("WITH", given))).cells
        assert both[0].id == plain[0].id
        assert [both[1].id] == [
            cell.id for cell in plan_of(write(SIMPLE), "training.grid.k=2", *override).cells
        ]


def test_settings_are_told_outside_the_meaning_as_single_values(write: Write) -> None:
    grid = (
        "[{estimator: maxk, baseline: centred, n: 4, k: 2},"
        " {estimator: maxk, baseline: centred, n: 4, k: 2, with: {reward_clip: [-1, 1], "
        "max_grad_norm: 2}}]"
    )
    text = SIMPLE.replace("{estimator: maxk, baseline: centred, n: 4, k: [1, 2]}", grid)
    cells = [cell.as_dict() for cell in plan_of(write(text)).cells]
    assert [cell.pop("setting") for cell in cells] == [
        {"reward_clip": "none", "max_grad_norm": "none"},
        {"reward_clip": "[-1.0, 1.0]", "max_grad_norm": 2.0},
    ]
    assert [cell.pop("id") for cell in cells] == [content_hash(cell) for cell in cells]


def test_what_two_entries_have_is_measured_once(write: Write) -> None:
    grid = (
        "[{estimator: maxk, baseline: centred, n: 4, k: [1, 2]},"
        " {estimator: maxk, baseline: [centred, none], n: 4, k: 2, with: {start: iid}}]"
    )
    for study in ("training", "gradient", "weights"):
        rest = {"training": "", "gradient": "pool: 16, instances: 2, ", "weights": ""}[study]
        given = grid if study == "training" else grid.replace(", with: {start: iid}", "")
        text = (
            f"name: s\nseeds: 1\nenvironment: {{name: bandit}}\n{study}: {{{rest}grid: {given}}}\n"
        )
        plan = plan_of(write(text))
        assert [(cell.baseline, cell.k) for cell in plan.cells] == [
            ("centred", 1),
            ("centred", 2),
            ("none", 2),
        ]
        (repeat,) = plan.skipped
        assert (repeat.study, repeat.repeats is not None) == (study, True)
        assert repeat.reason.endswith("of an earlier entry")


def test_a_list_of_objectives(write: Write) -> None:
    text = (
        "name: s\nseeds: [0]\nenvironment: {name: bandit}\n"
        "objective: {parameter: environment.reward_shift, from: 0, to: 1, grid: "
        "[{estimator: maxk, k: [1, 2]}, {estimator: 'top_m[1]', k: 2}]}\n"
    )
    assert [(cell.estimator, cell.k) for cell in plan_of(write(text)).cells] == [
        ("maxk", 1), ("maxk", 2), ("top_m[1]", 2),
    ]  # fmt: skip


def test_a_spec_with_a_list_is_read_back_as_it_was_written(demo: str, write: Write) -> None:
    spec = load_spec(demo)
    ids = [cell.id for cell in make_plan(spec).cells]
    again = write(spec_to_yaml(spec))
    assert load_spec(again) == spec
    assert [cell.id for cell in make_plan(read_spec(again)).cells] == ids


def test_a_grid_of_one_entry_is_written_as_that_entry(write: Write) -> None:
    assert "grid:\n    estimator:\n" in spec_to_yaml(load_spec(write(SIMPLE)))


def test_device_and_snapshots_mean_nothing_and_new_defaults_say_nothing(write: Write) -> None:
    path = write(SIMPLE.replace("arms: 4}\n", "arms: 4}\npolicy: {dtype: float32}\n"))
    before = {cell.id for cell in plan_of(path).cells}
    same = ["training.device=cpu", "training.snapshots=[0, 5]", "training.start=iid",
            "training.reward_scale=1",
            "training.k_schedule={kind: fixed}",
            "training.evaluate.extras=[]",
            "training.evaluate.reference=auto"]  # fmt: skip
    assert {cell.id for cell in plan_of(path, *same).cells} == before
    for other in ("training.reward_scale=2",
                  "training.evaluate.reference=none",
                  "training.k_schedule={kind: step, first: 2}"):  # fmt: skip
        assert not {cell.id for cell in plan_of(path, other).cells} & before


@pytest.mark.parametrize(
    ("line", "text", "expected"),
    [
        (12, "k: 1, with: {strat: multistart}}",
         "12:71: training.grid.1.with.strat: unknown key 'strat' (did you mean start?)"),
        (12, "k: 1, with: {start: multstart}}",
         "12:78: training.grid.1.with.start: must be one of iid, multistart, "
         "got 'multstart' (did you mean multistart?)"),
        (12, "k: 1, with: {evaluate: {every: 1}}}",
         "12:71: training.grid.1.with.evaluate: unknown key 'evaluate'; known: steps, batch, "),
        (12, "k: 1, with: {kl: {beta: -1}}}",
         "12:82: training.grid.1.with.kl.beta: must be at least 0, got -1"),
        (12, "k: 1, with: {kl: {bata: 1}}}",
         "12:76: training.grid.1.with.kl.bata: unknown key 'bata' (did you mean beta?)"),
        (12, "k: 1, with: multistart}",
         "12:70: training.grid.1.with: must be a mapping of keys to values, got 'multistart'"),
        (12, "k: 1, with: {batch: 12}}",
         "12:78: training.grid.1.with.batch: must be a multiple of every n of the grid; "
         "8 does not divide 12; "
         "the nearest that fit all: 8 and 16"),
        (12, "k: 1, with: {loss: {aggregation: fixed}}}",
         "12:77: training.grid.1.with.loss.divisor: is missing: the aggregation fixed divides"),
        (12, "k: 1, with: {k_schedule: {first: 2}}}",
         "12:91: training.grid.1.with.k_schedule.first: is read by the kinds linear and step "
         "only, got fixed"),
        (12, "k: 1, with: {steps: 1}}",
         "8:14: training.snapshots: must be at most 1, the steps of a training, got 2"),
        (13, 'k: 9}',
         "13:66: training.grid.2.k: estimator=leader_reward[0.5] baseline=none n=8 k=9 cannot "
         "run: "),
        (15, "k: 4, with: {k_schedule: {kind: step, first: 1, until: 3}}}",
         "15:52: training.grid.4.k: estimator=maxk baseline=subloo n=8 k=4 cannot run: "
         "k_schedule comes by K = 1: "
         "subloo needs 2 <= K <= n, got K = 1 and n = 8"),
    ],
)  # fmt: skip
def test_one_problem_of_an_entry(write: Write, line: int, text: str, expected: str) -> None:
    lines = sweep().splitlines()
    lines[line - 1] = lines[line - 1][: lines[line - 1].index("k: ")] + text
    (problem,) = problems(write("\n".join(lines)))
    assert problem.startswith(f"sweep.yaml:{expected}")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("environment={name: op}", [
            "training.evaluate.extras.2: multistart: op has no forced first actions; "
            "environments that have: tsp, ",
            "training.grid.1.with.start: multistart: op has no forced first actions; "
            "environments that have: tsp, ",
            "training.grid.5.with.start: multistart: op has no forced first actions; "
            "environments that have: tsp, "]),
        ("training.evaluate.extras=[greedi]", [
            "training.evaluate.extras.0: must be one of greedy, augmentation, multistart, "
            "multistart_augmentation, got 'greedi' (did you mean greedy?)"]),
        ("training.evaluate.extras=[greedy, greedy]", [
            "training.evaluate.extras: must be distinct, got greedy more than once"]),
        ("training.evaluate.temperatures=[1, 0]", [
            "training.evaluate.temperatures.1: must be at least 0.01, got 0"]),
        ("training.evaluate={tuning: 8, extras: []}", [
            "training.evaluate.tuning: 8 has nothing to choose between: "
            "give several temperatures, or extras"]),
        ("training.evaluate.last=4", [
            "training.evaluate.last: must be at most 2, the evaluations of a training of 4 steps "
            "without that of step 0, got 4"]),
        ("training.evaluate.data=nope.npz",
         ["training.evaluate.data: there is no file nope.npz; allowed: "]),
        ("training.evaluate.reference=pyvpr", [
            "training.evaluate.reference: must be one of auto, none, exact, pyvrp, "
            "got 'pyvpr' (did you mean pyvrp?)"]),
        ("training.reward_scale=0", ["training.reward_scale: must be greater than 0, got 0"]),
        ("training.device=cud",
         ["training.device: must be one of auto, cpu, cuda, got 'cud' (did you mean cuda?)"]),
        ("training.snapshots=[2, 2]",
         ["training.snapshots: must be distinct, got 2 more than once"]),
        ("training.grid.k=2",
         ["training.grid.k: cannot be set: training.grid is a list; say which entry, as in "
                               "training.grid.0.k"]),
    ],
)  # fmt: skip
def test_problems_of_the_settings(demo: str, override: str, expected: list[str]) -> None:
    found = [problem.split(": ", 1)[1] for problem in problems(demo, override)]
    assert len(found) == len(expected)
    assert all(one.startswith(words) for one, words in zip(found, expected, strict=True))


def test_extras_and_instances_in_files_are_of_routing(write: Write, tmp_path: object) -> None:
    (tmp_path / "some.npz").write_bytes(b"")  # type: ignore[operator]
    found = problems(
        write(SIMPLE),
        "training.evaluate.extras=greedy",
        "training.evaluate.data=some.npz",
        "training.evaluate.temperatures=[1, 2]",
        "training.start=multistart",
    )
    assert [problem.split(": ", 2)[2].split(";")[0] for problem in found] == [
        "greedy: bandit is not decoded greedily",
        "bandit reads no instances",
        "bandit is not sampled at another temperature",
        "multistart: bandit has no forced first actions",
    ]


def test_an_evaluation_set_is_its_content(
    write: Write, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maxk_lab.studies.training.spec.instances_in", lambda *_: 128)
    path = tmp_path / "a.npz"  # type: ignore[operator]
    path.write_bytes(b"one")
    (tmp_path / "b.npz").write_bytes(b"one")  # type: ignore[operator]
    text = sweep()
    spec = load_spec(write(text), ["training.evaluate.data=a.npz"])
    unit = make_plan(spec).units[0]
    assert isinstance(unit, TrainingUnit)
    data = unit.as_dict()["training"]["evaluate"]["data"]
    assert (data["path"], len(data["sha256"])) == ("a.npz", 64)
    assert unit.cells[0].as_dict()["training"]["evaluate"]["data"] == {"sha256": data["sha256"]}
    ids = [cell.id for cell in make_plan(spec).cells]
    assert [cell.id for cell in plan_of(write(text), "training.evaluate.data=b.npz").cells] == ids
    resolved = write(spec_to_yaml(spec))
    assert load_spec(resolved) == spec
    path.write_bytes(b"two")
    assert [cell.id for cell in make_plan(read_spec(resolved)).cells] == ids
    (problem,) = problems(resolved)
    assert "training.evaluate.data: a.npz has changed: its SHA-256 was " in problem


def test_estimators_without_a_k_have_no_schedule_of_it(write: Write) -> None:
    schedule = "training.k_schedule={kind: linear, first: 2, until: 3}"
    grid = "training.grid={estimator: [reinforce, maxk], baseline: centred, n: 4, k: [1, 2]}"
    plan = plan_of(write(SIMPLE), schedule, grid)
    told = {
        (cell.estimator, cell.k): cell.as_dict()["training"].get("k_schedule")
        for cell in plan.cells
    }
    on_the_way = {"kind": "linear", "first": 2, "until": 3}
    assert told == {("reinforce", 1): None, ("maxk", 1): on_the_way, ("maxk", 2): on_the_way}


@pytest.mark.parametrize(
    "study",
    ["gradient: {instances: 2, pool: 16, start: multistart, ", "weights: {start: multistart, "],
)
def test_multistart_is_refused_where_unbiasedness_is_at_stake(write: Write, study: str) -> None:
    grid = "grid: {estimator: maxk, baseline: none, n: 4, k: 2}}\n"
    (problem,) = problems(write(f"name: s\nseeds: [0]\nenvironment: {{name: tsp}}\n{study}{grid}"))
    said = (
        "start: is a setting of training studies: multistart forces the first actions, "
        "so that its samples are not i.i.d. and no claim of unbiasedness can be made of them"
    )
    assert said in problem


def test_no_claim_of_unbiasedness_speaks_of_multistart(write: Write) -> None:
    gradient = (
        "gradient: {instances: 2, pool: 16, grid: {estimator: maxk, baseline: none, n: 4, k: 2}}\n"
    )
    claim = (
        "  - {name: u, kind: unbiased, detectable: 0.1, where: {setting: {start: multistart}}}\n"
    )
    (problem,) = problems(write(sweep() + claim + gradient))
    assert problem.startswith(
        "sweep.yaml:19:66: claims.1.where.setting.start: is a setting of training studies: "
    )


@pytest.mark.parametrize(
    ("of", "over", "where", "pairs"),
    [
        ("{estimator: maxk, k: 4}", "{estimator: reinforce, k: 1}", "{baseline: centred}", 1),
        # What the estimator fixes need not be given.
        ("{estimator: maxk}", "{estimator: reinforce}", "{baseline: centred}", 2),
        ("{estimator: maxk}", "{estimator: reinforce}", "{baseline: centred, k: 4}", 1),
        ("{estimator: maxk, baseline: [centred, subloo], k: [2, 4]}",
         "{estimator: reinforce, baseline: group_mean, k: 1}",
         "{setting: {start: iid, k_schedule.kind: fixed}}", 4),
        ("{estimator: reinforce, setting: {start: multistart}}",
         "{estimator: reinforce, setting: {start: iid}}", "{}", 1),
        ("{setting: {k_schedule.kind: linear}}",
         "{setting: {k_schedule.kind: fixed}}", "{}", 0),
    ],
)  # fmt: skip
def test_differences_between_settings(
    write: Write, of: str, over: str, where: str, pairs: int
) -> None:
    path = write(sweep(of, over, where))
    if pairs == 0:
        # The ends of the schedule differ, too, and over gives none.
        assert problems(path) == [
            "sweep.yaml:18:52: claims.0.of: matches no two points of the grid that can run"
        ]
        return
    spec = load_spec(path)
    points = [
        {axis: getattr(cell, axis) for axis in ("estimator", "baseline", "n", "k")}
        | {"setting": dict(cell.setting)}
        for cell in make_plan(spec).cells
        if cell.seed == 0
    ]
    assert len(list(spec.claims[0].points(points))) == pairs


def test_settings_that_no_entry_has_are_unknown_to_claims(write: Write) -> None:
    path = write(sweep(of="{setting: {strt: iid}}", over="{setting: {strt: multistart}}"))
    assert problems(path)[0] == (
        "sweep.yaml:18:63: claims.0.of.setting.strt: unknown key 'strt' (did you mean start?)"
    )


def test_cells_are_selected_by_a_setting(demo: str) -> None:
    plan = plan_of(demo)
    assert len(select(plan, "start=multistart,seed=0")) == 2
    assert len(select(plan, "start=multistart,weight_normalization=zscore")) == 2
    with pytest.raises(
        LabError, match="no cell has start = multistrat \\(did you mean multistart\\?\\)"
    ):
        select(plan, "start=multistrat")


VARIED = """\
name: varied
seeds: [0, 1]
environment: {name: cvrp, num_loc: 10}
policy: {embed_dim: 16, num_heads: 2}
vary: {environment.num_loc: [10, 12], environment.name: [cvrp, op, pctsp]}
training:
  batch: 16
  evaluate: {samples: 8, instances: 4}
  grid: {estimator: maxk, baseline: centred, n: 4, k: 2}
"""


def test_every_environment_with_its_own_defaults(write: Write) -> None:
    spec = load_spec(write(VARIED))
    plan = make_plan(spec)
    assert [
        (unit.environment["name"], unit.environment["num_loc"], unit.seed) for unit in plan.units
    ] == [
        (name, size, seed)
        for seed in (0, 1)
        for size in (10, 12)
        for name in ("cvrp", "op", "pctsp")
    ]
    assert dict(plan.units[1].setting) == {"environment.num_loc": 10, "environment.name": "op"}
    assert plan.units[1].policy["num_encoder_layers"] == 2
    assert plan.units[1].label == "op num_loc=10, maxk/centred n=4 k=2, seed 0"
    alone = VARIED.replace("cvrp, num_loc: 10", "op, num_loc: 12").replace(
        "vary: {environment.num_loc: [10, 12], environment.name: [cvrp, op, pctsp]}\n", ""
    )
    assert {cell.id for cell in plan_of(write(alone)).cells} < {cell.id for cell in plan.cells}
    again = write(spec_to_yaml(spec))
    assert load_spec(again) == spec
    assert [cell.id for cell in make_plan(read_spec(again)).cells] == [
        cell.id for cell in plan.cells
    ]


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("vary.environment.name=[cvrp, smtwtp]",
         ["environment.num_loc: smtwtp, which environment.name takes too, has no num_loc",
          "vary.environment.num_loc: smtwtp has no environment.num_loc (did you mean "
          "environment.name?)"]),
        ("training.start=multistart",
         ["training.start: multistart: op has no forced first actions"]),
        ("training.evaluate.reference=pyvrp", ["training.evaluate.reference: pyvrp solves"]),
        ("vary.environment.name=[tsp, bandit]",
         ["environment.num_loc: bandit, which environment.name takes too, has no num_loc",
          "policy.embed_dim: bandit, which environment.name takes too, has no embed_dim",
          "policy.num_heads: bandit, which environment.name takes too, has no num_heads",
          "vary.environment.num_loc: bandit has no environment.num_loc"]),
        ("vary.environment.name=[tsp, tsp]",
         ["vary.environment.name.1: must be distinct, got tsp more than once"]),
    ],
)  # fmt: skip
def test_what_does_not_fit_every_environment(
    write: Write, override: str, expected: list[str]
) -> None:
    found = sorted(problem.split(": ", 1)[1] for problem in problems(write(VARIED), override))
    assert len(found) == len(expected)
    assert all(one.startswith(words) for one, words in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("training.grid.5.n=1",
         "training.grid.5.with.weight_normalization: zscore needs every n of the grid to be at "
         "least 2"),
    ],
)  # fmt: skip
def test_settings_that_no_training_can_run_with(demo: str, override: str, expected: str) -> None:
    found = problems(demo, "policy.dtype=float64", override)
    assert any(problem.split(": ", 1)[1].startswith(expected) for problem in found)


@pytest.mark.parametrize("how", ["zscore", "sum_to_zero"])
def test_groups_of_one_are_not_normalised(write: Write, how: str) -> None:
    (problem,) = problems(
        write(SIMPLE.replace("k: [1, 2]", "k: 1").replace("centred, n: 4", "none, n: [1, 4]")),
        f"training.weight_normalization={how}",
    )
    assert (
        f"training.weight_normalization: {how} needs every n of the grid to be at least 2"
        in problem
    )


def test_an_environment_without_a_place_on_cuda(write: Write) -> None:
    (problem,) = problems(write(SIMPLE), "training.device=cuda")
    assert "training.device: cuda: bandit stays on the CPU; allowed: auto, cpu" in problem


def test_checks_of_a_gradient_study_are_made_in_every_environment(write: Write) -> None:
    text = (
        VARIED[: VARIED.index("training:")]
        .replace("[10, 12]", "5")
        .replace("cvrp, op, pctsp", "cvrp, sdvrp")
    )
    grid = "{estimator: maxk, baseline: none, n: 4, k: 2}"
    gradient = f"gradient: {{instances: 2, pool: 16, complete: true, grid: {grid}}}\n"
    (problem,) = problems(write(text + gradient))
    assert (
        "gradient.complete: needs an environment whose trajectories can all be listed: sdvrp "
        "with num_loc" in problem
    )
