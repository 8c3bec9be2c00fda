"""Training studies in sweep files: defaults, every refusal at its place, cells told apart."""

from __future__ import annotations

import pytest
from sweep_files import Write, ids_of, plan_of, problems

from maxk_lab.studies.training.grid import TrainingUnit, evaluated_ks
from maxk_lab.sweeps.plan.identity import content_hash
from maxk_lab.sweeps.plan.plan import make_plan, select
from maxk_lab.sweeps.spec.load import load_spec, spec_to_yaml

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
GRADIENT = (
    "gradient: {instances: 2, pool: 16, "
    "grid: {estimator: maxk, baseline: [none, centred], n: 4, k: 2}}"
)


@pytest.fixture
def training(write: Write) -> str:
    """The path of a sweep of 2 seeds × 8 trainings."""
    return write("\n".join(LINES))


def with_line(number: int, line: str) -> str:
    return "\n".join([*LINES[: number - 1], line, *LINES[number:]]) + "\n"


def test_a_misspelt_name_of_the_grid_hides_no_other_mistake(write: Write) -> None:
    found = problems(write(with_line(9, "  grid: {estimator: maxkk, baseline: none, n: 5, k: 1}")))
    assert len(found) == 2
    assert "maxkk" in found[1]
    assert "training.batch" in found[0]


def test_the_defaults_are_those_of_a_plain_unbiased_step(write: Write) -> None:
    study = load_spec(write("\n".join([*LINES[:4], LINES[-1]]))).training
    assert study is not None
    assert study.settings() == {
        "steps": 300,
        "batch": 256,
        "learning_rate": 1e-3,
        "max_grad_norm": None,
        "entropy_bonus": 0.0,
        "inner_epochs": 1,
        "reward_clip": None,
        "reward_order": ["clip", "kl"],
        "kl": {
            "place": "none", "type": "k1", "beta": 0.05, "reference": "frozen",
               "reference_every": 50,
        },
        "normalize_advantages": False,
        "weight_normalization": "none",
        "min_gap_scale": None,
        "loss": {
            "ratio": "sequence", "epsilon_low": 0.2, "epsilon_high": 0.2, "dual_clip": None,
            "aggregation": "seq_sum", "divisor": None,
        },
        "truncated": "keep",
        "checkpoint_every": 50,
        "evaluate": {"every": 50, "instances": 128, "samples": 64},
    }  # fmt: skip


def test_the_trainer_takes_the_settings_and_shares_every_default(write: Write) -> None:
    from maxk_lab.training.settings import Settings

    study = load_spec(write("\n".join([*LINES[:4], LINES[-1]]))).training
    assert study is not None
    assert Settings.from_mapping(study.settings()) == Settings()


def test_a_spec_is_read_back_as_it_was_written(training: str, write: Write) -> None:
    spec = load_spec(
        training,
        ["training.max_grad_norm=2", "training.reward_clip=[-1, 1]", "training.min_gap_scale=0.1"],
    )
    assert spec.training is not None
    assert spec.training.max_grad_norm == 2.0
    assert load_spec(write(spec_to_yaml(spec))) == spec


@pytest.mark.parametrize(
    ("line", "text", "expected"),
    [
        (4, "trainin:", "4:1: trainin: unknown key 'trainin' (did you mean training?)"),
        (5, "  batch: 16.0", "5:10: training.batch: must be a whole number, got 16.0"),
        (5, "  bach: 16", "5:3: training.bach: unknown key 'bach' (did you mean batch?)"),
        (5, "  batch: 12",
         "5:10: training.batch: must be a multiple of every n of the grid; 8 does not divide 12; "
         "the nearest that fit all: 8 and 16"),
        (5, "  batch: 2",
         "5:10: training.batch: must be a multiple of every n of the grid; 4, 8 do not divide 2; "
         "the nearest that fit all: 8"),
        (5, "  normalize_advantages: 1\n  batch: 8",
         "5:25: training.normalize_advantages: must be true or false, got 1"),
        (5, "  weight_normalization: zscor\n  batch: 8",
         "5:25: training.weight_normalization: must be one of none, "
         "zscore, sum_to_zero, got 'zscor' (did you mean zscore?)"),
        (5, "  reward_clip: [1, 1]\n  batch: 8",
         "5:16: training.reward_clip: must be null or [low, high] with low < high, got [1.0, 1.0]"),
        (5, "  reward_clip: 3\n  batch: 8",
         "5:16: training.reward_clip: must be null or [low, high] with low < high, got [3.0]"),
        (5, "  reward_clip: [a, 3]\n  batch: 8",
         "5:17: training.reward_clip.0: must be a number, got 'a'"),
        (5, "  reward_order: [kl, kl]\n  batch: 8",
         "5:17: training.reward_order: must list clip and kl once each, got ['kl', 'kl']"),
        (5, "  truncated: drop\n  batch: 8",
         "5:14: training.truncated: must be one of keep, mask_loss, mask_all, got 'drop'"),
        (5, "  max_grad_norm: 0\n  batch: 8",
         "5:18: training.max_grad_norm: must be greater than 0, got 0"),
        (6, "  loss: {dual_clip: 1}",
         "6:21: training.loss.dual_clip: must be greater than 1, got 1"),
        (6, "  loss: {epsilon_low: 1}",
         "6:23: training.loss.epsilon_low: must be less than 1, got 1"),
        (6, "  loss: {aggregation: fixed}",
         "6:9: training.loss.divisor: is missing: the aggregation fixed divides "
         "the sum over all tokens by it"),
        (6, "  loss: {divisor: 2}",
         "6:19: training.loss.divisor: is read by the aggregation fixed only, "
         "got aggregation seq_sum"),
        (6, "  loss: {agregation: fixed}",
         "6:10: training.loss.agregation: unknown key 'agregation' (did you mean aggregation?)"),
        (7, "  kl: {place: lost}",
         "7:15: training.kl.place: must be one of none, reward, loss, "
         "got 'lost' (did you mean loss?)"),
        (7, "  kl: {beta: -1}", "7:14: training.kl.beta: must be at least 0, got -1"),
        (8, "  evaluate: {samples: 1}",
         "8:23: training.evaluate.samples: must be at least 2, the largest K of the grid, got 1"),
        (8, "  evaluate: {sample: 1}",
         "8:14: training.evaluate.sample: unknown key 'sample' (did you mean samples?)"),
        (9, "  grid: {estimator: maxk, baseline: centred, n: 1, k: 1}",
         "9:55: training.grid.k: estimator=maxk baseline=centred n=1 k=1 cannot run: "
         "centred needs 1 <= K < n, got K = 1 and n = 1"),
        (9, "  grid: {estimator: maxk, baseline: centered, n: 4, k: 1}",
         "9:37: training.grid.baseline: unknown baseline 'centered' (did you mean centred?); "
         "known: "),
        (9, "  grid: {estimator: maxk, baseline: otb_token, n: 4, k: 1}\n  min_gap_scale: 0.1",
         "10:18: training.min_gap_scale: needs one weight per trajectory, "
         "but otb_token gives one per token"),
        (9, "  grid: {estimator: grpo, baseline: none, n: 4, k: 1}\n  inner_epochs: 2\n"
         "tracking: {wandb: onlin}",
         "11:19: tracking.wandb: must be one of offline, online, disabled, got "
         "'onlin' (did you mean online?)"),
    ],
)  # fmt: skip
def test_one_problem(write: Write, line: int, text: str, expected: str) -> None:
    found = problems(write(with_line(line, text)))
    if line == 4:
        assert found == [
            "sweep.yaml:1:1: (file): needs a study: gradient, training, objective or weights, "
            "or several", f"sweep.yaml:{expected}"
        ]  # fmt: skip
    else:
        (problem,) = found
        assert problem.startswith(f"sweep.yaml:{expected}")


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (
            "{ratio: token}",
            "6:17: training.loss.ratio: must be sequence for off_policy_maxk, whose weights",
        ),
        (
            "{aggregation: seq_mean}",
            "6:23: training.loss.aggregation: must be seq_sum or fixed for off_policy",
        ),
        (
            "{dual_clip: 3}",
            "6:21: training.loss.dual_clip: must be null for off_policy_maxk, whose weights",
        ),
    ],
)
def test_off_policy_weights_leave_no_ratio_to_clip(write: Write, loss: str, expected: str) -> None:
    text = with_line(6, f"  loss: {loss}").replace("estimator: maxk", "estimator: off_policy_maxk")
    (problem,) = problems(write(text))
    assert problem.startswith(f"sweep.yaml:{expected}")


def test_no_study_at_all(write: Write) -> None:
    assert problems(write("\n".join(LINES[:3]))) == [
        "sweep.yaml:1:1: (file): needs a study: gradient, training, objective or weights, "
        "or several"
    ]


@pytest.mark.parametrize("study", ["training", "gradient"])
def test_an_empty_study_is_not_taken_for_none(write: Write, study: str) -> None:
    (problem,) = problems(write("\n".join([*LINES[:3], f"{study}:"])))
    assert problem.endswith(f"{study}: must be a mapping of keys to values, got nothing")


def test_all_problems_of_both_studies_at_once(write: Write) -> None:
    text = with_line(5, "  batch: 7").replace("evaluate: {samples: 8", "evaluate: {samples: 1")
    path = write(f"{text}{GRADIENT.replace('pool: 16', 'pool: 7')}\nclaims: [{{kind: unbias}}]\n")
    assert [problem.split(": ")[1] for problem in problems(path)] == [
        "training.batch", "training.evaluate.samples", "gradient.pool", "claims.0.kind",
    ]  # fmt: skip


def test_a_misspelt_name_hides_no_other_problem(write: Write) -> None:
    text = (
        with_line(5, "  batch: 7")
        .replace("estimator: maxk", "estimator: maks")
        .replace("loss: {}", "loss: {ratio: x}")
    )
    found = [problem.split(": ")[1] for problem in problems(write(text))]
    assert found == ["training.batch", "training.loss.ratio", "training.grid.estimator"]


def test_a_penalty_under_a_nucleus_is_refused(write: Write) -> None:
    environment = (
        "environment: {name: toy_llm, task: edit, vocab_size: 4, "
        "max_length: 3, prompt_length: 2, top_p: 0.9}"
    )
    with_kl = with_line(3, environment).replace("kl: {}", "kl: {place: loss}")
    (problem,) = problems(write(with_kl))
    assert problem.startswith("sweep.yaml:7:15: training.kl.place: needs top_p = 1, got 0.9")
    assert load_spec(write(with_line(3, environment))).environment["top_p"] == 0.9


@pytest.mark.parametrize(
    ("number", "line", "expected"),
    [
        (
            7,
            "  kl: {place: reward}",
            "7:15: training.kl.place: reward leaves no rewards of 0 and 1",
        ),
        (6, "  reward_scale: 2", "6:17: training.reward_scale: 2.0 leaves no rewards of 0 and 1"),
        (6, "  reward_clip: [0, 0.5]", "6:16: training.reward_clip: [0.0, 0.5] leaves no rewards"),
    ],
)
def test_rewards_that_are_bent_are_not_binary(
    write: Write, number: int, line: str, expected: str
) -> None:
    grid = "  grid: {estimator: maxrl, baseline: none, n: 4, k: 1}"
    task = "{name: toy_llm, task: modular, vocab_size: 4, max_length: 3, prompt_length: 3}"
    lines = [*LINES[:-1], grid]
    lines[2], lines[number - 1] = f"environment: {task}", line
    (problem,) = problems(write("\n".join(lines)))
    assert problem.startswith(f"sweep.yaml:{expected}")
    assert ", which maxrl needs" in problem


def test_every_cell_is_a_unit_of_its_own_so_that_jobs_run_side_by_side(training: str) -> None:
    plan = plan_of(training)
    assert [len(unit.cells) for unit in plan.units] == [1] * 16
    assert len({unit.label for unit in plan.units}) == 16
    assert plan.units[0].label == "bandit, maxk/none n=4 k=1, seed 0"
    assert [unit.seed for unit in plan.units] == [0] * 8 + [1] * 8
    assert len({cell.id for cell in plan.cells}) == 16


def test_a_training_cell_says_all_it_means(training: str) -> None:
    unit = plan_of(training).units[0]
    cell = unit.cells[0].as_dict()
    identity = cell.pop("id")
    assert content_hash(cell) == identity
    settings = unit.as_dict()["training"]
    assert cell == {
        "identity_version": 1,
        "study": "training",
        "seed": 0,
        "environment": {"name": "bandit", "arms": 4, "reward_shift": 0.0},
        "policy": {"init_std": 1.0, "dtype": "float64"},
        "training": {key: value for key, value in settings.items() if key != "checkpoint_every"},
        "estimator": "maxk",
        "baseline": "none",
        "n": 4,
        "k": 1,
    }
    assert settings["checkpoint_every"] == 50


@pytest.mark.parametrize(
    "override",
    ["training.checkpoint_every=7", "training.grid.n=[8, 4]", "seeds=[1, 0]",
     "training.learning_rate=0.001", "training.evaluate.temperatures=1",
     "training.evaluate.tuning=0", "training.evaluate.last=1",
     "training.reward_order=[clip, kl]", "training.max_grad_norm=null", "tracking.project=x"],
)  # fmt: skip
def test_ids_do_not_depend_on(training: str, override: str) -> None:
    assert ids_of(training, override) == ids_of(training)


@pytest.mark.parametrize(
    "override",
    ["training.steps=7", "training.batch=32", "training.max_grad_norm=1", "training.kl.place=loss",
     "training.loss.ratio=token", "training.reward_order=[kl, clip]",
     "training.evaluate.samples=16",
     "training.evaluate.last=2",
     "training.weight_normalization=zscore", "policy.init_std=2", "seeds=[2, 3]"],
)  # fmt: skip
def test_ids_depend_on(training: str, override: str) -> None:
    assert not ids_of(training, override) & ids_of(training)


def test_a_training_study_beside_it_changes_no_cell_of_the_gradient_study(write: Write) -> None:
    alone = ids_of(write("\n".join([*LINES[:3], GRADIENT])))
    both = plan_of(write("\n".join([*LINES, GRADIENT])))
    assert alone == {cell.id for cell in both.cells if cell.study == "gradient"}
    assert [unit.study for unit in both.units] == ["gradient"] * 2 + ["training"] * 16


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


def test_only_selects_a_study_and_a_stage_selects_no_training(write: Write) -> None:
    plan = plan_of(write("\n".join([*LINES, GRADIENT])))
    by_study = {study: select(plan, f"study={study}") for study in ("gradient", "training")}
    assert {study: len(found) for study, found in by_study.items()} == {
        "gradient": 4,
        "training": 16,
    }
    assert select(plan, "stage=0") == by_study["gradient"]
    assert all(
        isinstance(unit, TrainingUnit)
        for unit in plan.units
        if unit.cells[0].id in by_study["training"]
    )


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


DIFFERENCE = "name: c, kind: difference, metric: max@8, of: {k: 2}, over: {k: 1}"


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (f"{{{DIFFERENCE}, at_least: 0}}", None),
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
        (f"{{{DIFFERENCE}, at_least: 0, decoding: greedy}}",
         "claims.0.decoding: must be one of sampled, best, got 'greedy'"),
        ("{name: c, kind: biased, bias: direction}",
         "claims.0.kind: biased speaks of a gradient study, and this sweep has none"),
    ],
)  # fmt: skip
def test_claims_of_a_training_study(write: Write, claim: str, expected: str | None) -> None:
    path = write("\n".join([*LINES, "claims:", f"  - {claim}"]))
    if expected is None:
        assert len(load_spec(path).claims) == 1
    else:
        (problem,) = problems(path)
        assert problem.split(": ", 1)[1] == expected


def test_pairs_of_a_difference_differ_in_nothing_but_its_axes(write: Write) -> None:
    path = write("\n".join([*LINES, "claims:", f"  - {{{DIFFERENCE}, at_least: 0}}"]))
    spec = load_spec(path)
    points = [{"estimator": c.estimator, "baseline": c.baseline, "n": c.n, "k": c.k, "seed": c.seed}
              for c in make_plan(spec).cells if c.seed == 0]  # fmt: skip
    pairs = list(spec.claims[0].points(points))
    assert len(pairs) == 4
    for of, over in pairs:
        assert (of["k"], over["k"]) == (2, 1)
        assert of | {"k": 1} == over


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ("{name: c, kind: biased, bias: direction, where: {baseline: none}}", None),
        ("{name: c, kind: biased, where: {baseline: none}}", "claims.0.bias: is missing"),
        ("{name: c, kind: biased, bias: length}",
         "claims.0.bias: must be one of direction, scale, got 'length'"),
        (f"{{{DIFFERENCE}, at_least: 0}}",
         "claims.0.kind: difference speaks of a training study, and this sweep has none"),
    ],
)  # fmt: skip
def test_claims_of_a_gradient_study(write: Write, claim: str, expected: str | None) -> None:
    path = write("\n".join([*LINES[:3], GRADIENT, "claims:", f"  - {claim}"]))
    if expected is None:
        assert load_spec(path).claims[0].kind == "biased"
    else:
        (problem,) = problems(path)
        assert problem.split(": ", 1)[1] == expected
