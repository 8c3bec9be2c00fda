"""Training studies in sweep files: points, settings of one entry, every refusal at its place."""

from __future__ import annotations

import pytest
from sweep_files import Write, ids_of, plan_of, problems

from maxk_lab.studies.training.grid import TrainingUnit, evaluated_ks
from maxk_lab.sweeps.plan.identity import content_hash
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.spec.load import load_spec, read_spec, spec_to_yaml
from maxk_lab.training.settings import Settings

LINES = [
    "name: small",
    "seeds: [0, 1]",
    "environment: {name: bandit, arms: 4}",
    "training:",
    "  batch: 16",
    "  loss: {}",
    "  kl: {}",
    "  evaluate: {samples: 8, instances: 4}",
    "  grid: {estimator: maxk, baseline: [none, centred], n: [4, 8], k: [1, 2]}",
]
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
POINT = "{estimator: maxk, baseline: centred, n: 4, k: 2"
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


def sweep(of: str = "{estimator: maxk, k: 4}", over: str = "{estimator: reinforce, k: 1}",
          where: str = "{baseline: centred}") -> str:  # fmt: skip
    return SWEEP.replace("OF", of).replace("OVER", over).replace("WHERE", where)


def with_line(number: int, line: str) -> str:
    return "\n".join([*LINES[: number - 1], line, *LINES[number:]]) + "\n"


def with_entries(*more: str) -> str:
    """A sweep of one point, and of that with other settings."""
    entries = ", ".join([f"{POINT}}}", *(f"{POINT}, with: {settings}}}" for settings in more)])
    return with_line(9, f"  grid: [{entries}]")


@pytest.fixture
def training(write: Write) -> str:
    """The path of a sweep of 2 seeds × 8 trainings."""
    return write("\n".join(LINES))


@pytest.fixture
def demo(write: Write) -> str:
    """The path of a sweep of 2 seeds × 14 trainings."""
    return write(sweep())


def test_a_cell_says_all_it_means_and_is_a_unit_of_its_own(training: str) -> None:
    plan = plan_of(training)
    assert [len(unit.cells) for unit in plan.units] == [1] * 16
    assert len({unit.label for unit in plan.units}) == 16
    assert plan.units[0].label == "bandit, maxk/none n=4 k=1, seed 0"
    assert [unit.seed for unit in plan.units] == [0] * 8 + [1] * 8
    cell = plan.units[0].cells[0].as_dict()
    assert content_hash({name: value for name, value in cell.items() if name != "id"}) == cell["id"]
    settings = plan.units[0].as_dict()["training"]
    point = {"estimator": "maxk", "baseline": "none", "n": 4, "k": 1}
    assert point.items() <= cell.items()
    assert cell["training"] == {k: v for k, v in settings.items() if k != "checkpoint_every"}
    assert Settings.from_mapping(settings).model_dump(exclude={"batch", "evaluate"}) == (
        Settings().model_dump(exclude={"batch", "evaluate"})
    )


def test_the_points_of_all_entries_with_the_settings_of_their_own(demo: str, write: Write) -> None:
    spec = load_spec(demo)
    units = make_plan(spec).units
    assert [unit.seed for unit in units] == [0] * 14 + [1] * 14
    assert len({unit.label for unit in units}) == 28
    assert [dict(unit.setting) for unit in units[2:4]] == [
        {"start": start, "k_schedule.kind": "fixed", "weight_normalization": "none"}
        for start in ("multistart", "iid")
    ]
    told = [unit.training for unit in units if isinstance(unit, TrainingUnit)]
    assert "start" not in told[0]
    assert told[12]["k_schedule"] == {"kind": "linear", "first": 2, "until": 3}
    assert (told[13]["start"], told[13]["weight_normalization"]) == ("multistart", "zscore")
    assert units[13].label == (
        "tsp start=multistart k_schedule.kind=fixed weight_normalization=zscore, "
        "hybrid[0.5]/none n=8 k=4, seed 0"
    )
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
    plain = write(with_line(9, f"  grid: {POINT}}}"))
    alone = [plan_of(plain).cells[0].id, plan_of(plain, *override).cells[0].id]
    assert [cell.id for cell in plan_of(write(with_entries(settings))).cells[:2]] == alone


def test_settings_are_told_outside_the_meaning_as_single_values(write: Write) -> None:
    cells = plan_of(write(with_entries("{reward_clip: [-1, 1], max_grad_norm: 2}"))).cells[:2]
    assert [dict(cell.setting) for cell in cells] == [
        {"reward_clip": "none", "max_grad_norm": "none"},
        {"reward_clip": "[-1.0, 1.0]", "max_grad_norm": 2.0},
    ]
    told = [cell.as_dict() for cell in cells]
    assert [each.pop("id") for each in told if each.pop("setting")] == [
        content_hash(each) for each in told
    ]


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


@pytest.mark.parametrize(
    "override",
    ["training.checkpoint_every=7", "training.grid.n=[8, 4]", "seeds=[1, 0]",
     "training.learning_rate=0.001", "training.evaluate.temperatures=1",
     "training.evaluate.tuning=0", "training.evaluate.last=1", "training.max_grad_norm=null",
     "training.device=cpu", "training.snapshots=[0, 5]", "training.start=iid",
     "training.reward_scale=1", "training.k_schedule={kind: fixed}",
     "training.evaluate.extras=[]", "training.evaluate.reference=auto", "tracking.project=x"],
)  # fmt: skip
def test_ids_do_not_depend_on(training: str, override: str) -> None:
    assert ids_of(training, override) == ids_of(training)


@pytest.mark.parametrize(
    "override",
    ["training.steps=7", "training.batch=32", "training.max_grad_norm=1", "training.kl.place=loss",
     "training.loss.ratio=token", "training.reward_order=[kl, clip]",
     "training.evaluate.samples=16", "training.evaluate.last=2", "training.reward_scale=2",
     "training.evaluate.reference=none", "training.k_schedule={kind: step, first: 2}",
     "training.weight_normalization=zscore", "policy.init_std=2", "seeds=[2, 3]"],
)  # fmt: skip
def test_ids_depend_on(training: str, override: str) -> None:
    assert not ids_of(training, override) & ids_of(training)


def test_every_environment_with_its_own_defaults(write: Write) -> None:
    plan = plan_of(write(VARIED))
    assert [
        (unit.environment["name"], unit.environment["num_loc"], unit.seed) for unit in plan.units
    ] == [
        (name, size, seed)
        for seed in (0, 1)
        for size in (10, 12)
        for name in ("cvrp", "op", "pctsp")
    ]
    assert dict(plan.units[1].setting) == {"environment.num_loc": 10, "environment.name": "op"}
    assert plan.units[1].label == "op num_loc=10, maxk/centred n=4 k=2, seed 0"
    alone = VARIED.replace("cvrp, num_loc: 10", "op, num_loc: 12").replace(
        "vary: {environment.num_loc: [10, 12], environment.name: [cvrp, op, pctsp]}\n", ""
    )
    assert ids_of(write(alone)) < {cell.id for cell in plan.cells}


def test_an_evaluation_set_is_its_content(
    write: Write, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maxk_lab.studies.training.spec.instances_in", lambda *_: 128)
    path = tmp_path / "a.npz"  # type: ignore[operator]
    path.write_bytes(b"one")
    (tmp_path / "b.npz").write_bytes(b"one")  # type: ignore[operator]
    text = sweep()
    spec = load_spec(write(text), ["training.evaluate.data=a.npz"])
    cell = make_plan(spec).cells[0].as_dict()
    assert [len(cell["training"]["evaluate"]["data"].pop("sha256"))] == [64]
    assert cell["training"]["evaluate"]["data"] == {}
    ids = {cell.id for cell in make_plan(spec).cells}
    assert ids_of(write(text), "training.evaluate.data=b.npz") == ids
    resolved = write(spec_to_yaml(spec))
    assert load_spec(resolved) == spec
    path.write_bytes(b"two")
    assert {cell.id for cell in make_plan(read_spec(resolved)).cells} == ids
    (problem,) = problems(resolved)
    assert "training.evaluate.data: a.npz has changed: its SHA-256 was " in problem


def test_estimators_without_a_k_have_no_schedule_of_it(training: str) -> None:
    schedule = "training.k_schedule={kind: linear, first: 2, until: 3}"
    grid = "training.grid={estimator: [reinforce, maxk], baseline: centred, n: 4, k: 1}"
    cells = plan_of(training, schedule, grid).cells[:2]
    assert [cell.as_dict()["training"].get("k_schedule") for cell in cells] == [
        None,
        {"kind": "linear", "first": 2, "until": 3},
    ]


def test_one_weight_per_token_is_for_training_only(write: Write) -> None:
    grid = "grid: {estimator: maxk, baseline: [none, otb_token], n: 4, k: 1}"
    both = [*LINES[:-1], f"  {grid}", f"gradient: {{instances: 2, pool: 16, {grid}}}"]
    plan = plan_of(write("\n".join(both)))
    assert {(cell.study, cell.baseline) for cell in plan.cells} == {
        ("gradient", "none"), ("training", "none"), ("training", "otb_token"),
    }  # fmt: skip
    assert [(skipped.study, skipped.reason) for skipped in plan.skipped] == [
        ("gradient", "otb_token gives one weight per token: training studies only")
    ]


@pytest.mark.parametrize(
    ("samples", "ks", "expected"),
    [
        (8, (), (1, 2, 4, 8)),
        (12, (3,), (1, 2, 3, 4, 8, 12)),
        (1, (1,), (1,)),
        (7, (4,), (1, 2, 4, 7)),
    ],
)
def test_the_k_of_a_curve(samples: int, ks: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert evaluated_ks(samples, *ks) == expected


@pytest.mark.parametrize(
    ("line", "text", "expected"),
    [
        (5, "  batch: 12",
         "5:10: training.batch: must be a multiple of every n of the grid; 8 does not divide 12; "
         "the nearest that fit all: 8 and 16"),
        (5, "  batch: 2",
         "5:10: training.batch: must be a multiple of every n of the grid; 4, 8 do not divide 2; "
         "the nearest that fit all: 8"),
        (5, "  reward_clip: [1, 1]\n  batch: 8",
         "5:16: training.reward_clip: must be null or [low, high] with low < high, got [1.0, 1.0]"),
        (5, "  reward_clip: 3\n  batch: 8",
         "5:16: training.reward_clip: must be null or [low, high] with low < high, got [3.0]"),
        (5, "  reward_order: [kl, kl]\n  batch: 8",
         "5:17: training.reward_order: must list clip and kl once each, got ['kl', 'kl']"),
        (6, "  loss: {aggregation: fixed}",
         "6:9: training.loss.divisor: is missing: the aggregation fixed divides "
         "the sum over all tokens by it"),
        (6, "  loss: {divisor: 2}",
         "6:19: training.loss.divisor: is read by the aggregation fixed only, "
         "got aggregation seq_sum"),
        (8, "  evaluate: {samples: 1}",
         "8:23: training.evaluate.samples: must be at least 2, the largest K of the grid, got 1"),
        (9, "  grid: {estimator: maxk, baseline: centred, n: 1, k: 1}",
         "9:55: training.grid.k: estimator=maxk baseline=centred n=1 k=1 cannot run: "
         "centred needs 1 <= K < n, got K = 1 and n = 1"),
        (9, "  grid: {estimator: maxk, baseline: otb_token, n: 4, k: 1}\n  min_gap_scale: 0.1",
         "10:18: training.min_gap_scale: needs one weight per trajectory, "
         "but otb_token gives one per token"),
        (9, "  device: cuda\n" + LINES[8],
         "9:11: training.device: cuda: bandit stays on the CPU; allowed: auto, cpu"),
        (9, "  weight_normalization: zscore\n  grid: {estimator: maxk, baseline: none, n: [1, 4], "
         "k: 1}", "9:25: training.weight_normalization: zscore needs every n of the grid to be at "
         "least 2"),
    ],
)  # fmt: skip
def test_one_problem(write: Write, line: int, text: str, expected: str) -> None:
    (problem,) = problems(write(with_line(line, text)))
    assert problem.startswith(f"sweep.yaml:{expected}")


@pytest.mark.parametrize(
    ("line", "text", "expected"),
    [
        (12, "k: 1, with: {strat: multistart}}",
         "12:71: training.grid.1.with.strat: unknown key 'strat' (did you mean start?)"),
        (12, "k: 1, with: {evaluate: {every: 1}}}",
         "12:71: training.grid.1.with.evaluate: unknown key 'evaluate'; known: steps, batch, "),
        (12, "k: 1, with: {kl: {beta: -1}}}",
         "12:82: training.grid.1.with.kl.beta: must be at least 0, got -1"),
        (12, "k: 1, with: {batch: 12}}",
         "12:78: training.grid.1.with.batch: must be a multiple of every n of the grid; "
         "8 does not divide 12; the nearest that fit all: 8 and 16"),
        (12, "k: 1, with: {loss: {aggregation: fixed}}}",
         "12:77: training.grid.1.with.loss.divisor: is missing: the aggregation fixed divides"),
        (12, "k: 1, with: {k_schedule: {first: 2}}}",
         "12:91: training.grid.1.with.k_schedule.first: is read by the kinds linear and step "
         "only, got fixed"),
        (12, "k: 1, with: {steps: 1}}",
         "8:14: training.snapshots: must be at most 1, the steps of a training, got 2"),
        (13, "k: 9}",
         "13:66: training.grid.2.k: estimator=leader_reward[0.5] baseline=none n=8 k=9 cannot "
         "run: "),
        (15, "k: 4, with: {k_schedule: {kind: step, first: 1, until: 3}}}",
         "15:52: training.grid.4.k: estimator=maxk baseline=subloo n=8 k=4 cannot run: "
         "k_schedule comes by K = 1: subloo needs 2 <= K <= n, got K = 1 and n = 8"),
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
            f"training.{where}: multistart: op has no forced first actions; environments that "
            "have: tsp, " for where in ("evaluate.extras.2", "grid.1.with.start",
                                        "grid.5.with.start")]),
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
        ("training.grid.k=2",
         ["training.grid.k: cannot be set: training.grid is a list; say which entry, as in "
          "training.grid.0.k"]),
        ("training.grid.5.n=1", [
            "training.grid.5.with.weight_normalization: zscore needs every n of the grid to be "
            "at least 2", "training.grid.5.k: "]),
    ],
)  # fmt: skip
def test_problems_of_the_settings(demo: str, override: str, expected: list[str]) -> None:
    found = sorted(problem.split(": ", 1)[1] for problem in problems(demo, override))
    assert len(found) == len(expected)
    assert all(one.startswith(words) for one, words in zip(found, sorted(expected), strict=True))


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
    ],
)  # fmt: skip
def test_what_does_not_fit_every_environment(
    write: Write, override: str, expected: list[str]
) -> None:
    found = sorted(problem.split(": ", 1)[1] for problem in problems(write(VARIED), override))
    assert len(found) == len(expected)
    assert all(one.startswith(words) for one, words in zip(found, expected, strict=True))


def test_extras_and_instances_in_files_are_of_routing(training: str, tmp_path: object) -> None:
    (tmp_path / "some.npz").write_bytes(b"")  # type: ignore[operator]
    found = problems(
        training,
        "training.evaluate.extras=greedy",
        "training.evaluate.data=some.npz",
        "training.evaluate.temperatures=[1, 2]",
        "training.start=multistart",
    )
    assert {problem.split(": ", 2)[2].split(";")[0] for problem in found} == {
        "greedy: bandit is not decoded greedily",
        "bandit reads no instances",
        "bandit is not sampled at another temperature",
        "multistart: bandit has no forced first actions",
    }


OFF_POLICY = LINES[8].replace("maxk", "off_policy_maxk")
TASK = "environment: {name: toy_llm, task: %s, vocab_size: 4, max_length: 3, prompt_length: 3%s}"
BINARY = {3: TASK % ("modular", ""), 9: "  grid: {estimator: maxrl, baseline: none, n: 4, k: 1}"}
NUCLEUS = {3: TASK % ("edit", ", top_p: 0.9")}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # The weights of ratios leave none to clip.
        ({6: "  loss: {ratio: token}", 9: OFF_POLICY},
         "training.loss.ratio: must be sequence for off_policy_maxk, whose weights"),
        ({6: "  loss: {aggregation: seq_mean}", 9: OFF_POLICY},
         "training.loss.aggregation: must be seq_sum or fixed for off_policy"),
        ({6: "  loss: {dual_clip: 3}", 9: OFF_POLICY},
         "training.loss.dual_clip: must be null for off_policy_maxk, whose weights"),
        # Rewards that are bent are not binary.
        (BINARY | {7: "  kl: {place: reward}"},
         "training.kl.place: reward leaves no rewards of 0 and 1, which maxrl needs"),
        (BINARY | {6: "  reward_scale: 2"},
         "training.reward_scale: 2.0 leaves no rewards of 0 and 1, which maxrl needs"),
        (BINARY | {6: "  reward_clip: [0, 0.5]"},
         "training.reward_clip: [0.0, 0.5] leaves no rewards of 0 and 1, which maxrl needs"),
        (NUCLEUS | {7: "  kl: {place: loss}"}, "training.kl.place: needs top_p = 1, got 0.9"),
        (NUCLEUS, None),
    ],
)  # fmt: skip
def test_settings_that_exclude_each_other(
    write: Write, lines: dict[int, str], expected: str | None
) -> None:
    path = write("\n".join(lines.get(number, line) for number, line in enumerate(LINES, start=1)))
    found = problems(path) if expected else []
    assert len(found) == bool(expected)
    assert all(str(expected) in problem for problem in found)
    assert expected or load_spec(path).environment["top_p"] == 0.9


def test_forced_starts_are_for_studies_of_gradients_and_training(write: Write) -> None:
    grid = "grid: {estimator: maxk, baseline: centred, n: 4, k: 2}}\n"
    head = "name: s\nseeds: [0]\nenvironment: {name: tsp, num_loc: 5}\n"
    (problem,) = problems(write(f"{head}weights: {{start: multistart, {grid}"))
    assert "start: is a setting of gradient and training studies" in problem
    gradient = "gradient: {instances: 2, pool: 16, start: [iid, forced], "
    claim = "{name: u, kind: unbiased, detectable: 0.1, where: {setting: {start: forced}}}"
    spec = load_spec(write(f"{head}{gradient}{grid}claims: [{claim}]\n"))
    starts = [cell.as_dict().get("start", "iid") for cell in make_plan(spec).cells]
    assert starts == ["iid", "multistart"]
    (problem,) = problems(write(f"{head}{gradient}complete: true, {grid}"))
    assert "complete: lists the groups of i.i.d. samples: leave out the start" in problem
    (problem,) = problems(write(f"{head}{gradient.replace('iid', 'multistart')}{grid}"))
    assert "gradient.start: " in problem
    (problem,) = problems(write(f"{head.replace('tsp', 'op')}{gradient}{grid}"))
    assert "gradient.start: multistart: op has no forced first actions" in problem


@pytest.mark.parametrize(
    ("of", "over", "where", "pairs"),
    [
        ("{estimator: maxk, k: 4}", "{estimator: reinforce, k: 1}", "{baseline: centred}", 1),
        # What the estimator fixes need not be given.
        ("{estimator: maxk}", "{estimator: reinforce}", "{baseline: centred}", 2),
        ("{estimator: maxk, baseline: [centred, subloo], k: [2, 4]}",
         "{estimator: reinforce, baseline: group_mean, k: 1}",
         "{setting: {start: iid, k_schedule.kind: fixed}}", 4),
        ("{estimator: reinforce, setting: {start: multistart}}",
         "{estimator: reinforce, setting: {start: iid}}", "{}", 1),
        # The ends of the schedule differ, too, and over gives none.
        ("{setting: {k_schedule.kind: linear}}", "{setting: {k_schedule.kind: fixed}}", "{}",
         "claims.0.of: matches no two points of the grid that can run"),
        ("{setting: {strt: iid}}", "{setting: {strt: multistart}}", "{}",
         "claims.0.of.setting.strt: unknown key 'strt' (did you mean start?)"),
    ],
)  # fmt: skip
def test_differences_between_settings(
    write: Write, of: str, over: str, where: str, pairs: int | str
) -> None:
    path = write(sweep(of, over, where))
    if isinstance(pairs, str):
        assert pairs in problems(path)[0]
        return
    spec = load_spec(path)
    points = [
        {axis: getattr(cell, axis) for axis in ("estimator", "baseline", "n", "k")}
        | {"setting": dict(cell.setting)}
        for cell in make_plan(spec).cells
        if cell.seed == 0
    ]
    assert len(list(spec.claims[0].points(points))) == pairs


DIFFERENCE = "name: c, kind: difference, metric: max@8, of: {k: 2}, over: {k: 1}"


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (f"{{{DIFFERENCE}, at_most: -0.5, where: {{baseline: centred, n: 8}}}}", None),
        (f"{{{DIFFERENCE.replace('max@8', 'mean')}, at_most: 0}}", None),
        (f"{{{DIFFERENCE}}}", "claims.0: needs exactly one of at_least and at_most"),
        (f"{{{DIFFERENCE.replace('max@8', 'max@3')}, at_least: 0}}",
         "claims.0.metric: must be mean or max@K with K one of 1, 2, 4, 8, got max@3"),
        (f"{{{DIFFERENCE.replace('max@8', 'best')}, at_least: 0}}",
         "claims.0.metric: must be mean or max@K; got best"),
        (f"{{{DIFFERENCE.replace('max@8', 'max@0')}, at_least: 0}}",
         "claims.0.metric: must be mean, max@K such as max@8, or the name of a way of decoding, "
         "got 'max@0'"),
        (f"{{{DIFFERENCE.replace('max@8', 'greedy')}, at_least: 0, decoding: best}}",
         "claims.0: decoding: best is of mean and max@K only, got metric greedy"),
        (f"{{{DIFFERENCE}, at_least: 0, where: {{stage: 0}}}}",
         "claims.0: a training study has no stage: give estimator, baseline, n or k"),
        (f"{{{DIFFERENCE}, at_least: 0, where: {{n: 16}}}}",
         "claims.0.of: matches no two points of the grid that can run"),
        (f"{{{DIFFERENCE}, at_least: 0, decoding: best}}",
         "claims.0.decoding: best needs several evaluate.temperatures, and evaluate.tuning "
         "instances to choose one of them for each policy"),
        ("{name: c, kind: biased, bias: direction}",
         "claims.0.kind: biased speaks of a gradient study, and this sweep has none"),
    ],
)  # fmt: skip
def test_claims_of_a_training_study(write: Write, claim: str, expected: str | None) -> None:
    path = write("\n".join([*LINES, "claims:", f"  - {claim}"]))
    found = [problem.split(": ", 1)[1] for problem in problems(path)] if expected else []
    assert found == ([expected] if expected else [])
    if expected is None:
        assert len(load_spec(path).claims) == 1
