"""Objective and weights studies, and declared figures: plans and exact messages."""

from __future__ import annotations

import pytest
from sweep_files import Write, plan_of, problems

from maxk_lab.sweeps.spec.load import load_spec, spec_to_yaml

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
WEIGHTS = """\
name: shown
seeds: [0]
environment: {name: bandit, arms: 4}
vary: {environment.arms: [4, 8]}
weights:
  groups: 2
  grid: {estimator: [maxk], baseline: [none, subloo], n: 4, k: 2}
"""
GRADIENT = """\
name: small
seeds: [0]
environment: {name: bandit, arms: 4}
vary: {environment.arms: [4, 8], environment.rewards: [gaussian, linear]}
gradient:
  instances: 2
  pool: 16
  grid: {estimator: maxk, baseline: [none, centred], n: [4, 8], k: 2}
"""


def test_an_objective_study_has_a_cell_per_objective(write: Write) -> None:
    plan = plan_of(write(OBJECTIVE))
    (unit,) = plan.units
    assert unit.as_dict()["objective"] == {
        "parameter": "policy.mean",
        "from": -0.5,
        "to": 1.5,
        "points": 101,
    }
    assert [(cell.estimator, cell.baseline, cell.n, cell.k) for cell in plan.cells] == [
        ("maxk", "none", 1, 1),
        ("maxk", "none", 2, 2),
        ("top_m[2]", "none", 2, 2),
        ("reinforce", "none", 1, 1),
    ]
    assert [str(skipped) for skipped in plan.skipped] == [
        "estimator=top_m[2] k=1: the m of top_m must be at most K = 1, got 2",
        "estimator=reinforce k=2: repeats estimator=reinforce k=1",
    ]
    cell = plan.cells[1].as_dict()
    assert (cell["study"], cell["k"], unit.label) == (
        "objective",
        2,
        "gaussian, along policy.mean, seed 0",
    )


def test_what_an_objective_is_followed_along_is_part_of_its_meaning(write: Write) -> None:
    def ids(*overrides: str) -> set[str]:
        return {cell.id for cell in plan_of(write(OBJECTIVE), *overrides).cells}

    for override in (
        "objective.from=0",
        "objective.to=2",
        "objective.points=11",
        "policy.scale=0.2",
    ):
        assert not ids(override) & ids()
    assert ids("objective.points=101", "objective.grid.k=[2, 1]") == ids()


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("objective.parameter=policy.men",
         "1:21: objective.parameter: must be a number of the environment or its "
         "policy: policy.mean, policy.scale; got 'policy.men' (did you mean policy.mean?)"),
        ("objective.parameter=environment.dim",
         "1:21: objective.parameter: must be a number of the environment or "
         "its policy: policy.mean, policy.scale; got 'environment.dim' (did you mean environment"),
        ("objective.to=-1", "1:14: objective.to: must be greater than from = -0.5, got -1"),
        ("objective.parameter=policy.scale", "objective.from: scale must be "),
        ("objective.points=1", "1:18: objective.points: must be at least 2, got 1"),
        ("objective.points=1000000", "1:18: objective.points: must be at most 100000, got 1000000"),
        ("objective.form=1", "1:1: objective.form: unknown key 'form' (did you mean from?)"),
        ("objective.grid.k=[]", "1:18: objective.grid.k: must not be empty"),
        ("objective.grid={estimator: 'top_m[3]', k: 2}",
         "1:16: objective.grid.k: estimator=top_m[3] k=2 cannot run: "
         "the m of top_m must be at most K = 2, got 3"),
        ("environment={name: tsp, num_loc: 20}",
         "5:3: objective: needs an environment whose objectives are known "
         "exactly: tsp with num_loc ≤ 8"),
        ("environment={name: tsp, num_loc: 5}",
         "5:14: objective.parameter: must be a number of the environment or "
         "its policy, and tsp has none; got 'policy.mean'"),
        ("environment.dim=2",
         "5:3: objective: needs an environment whose objectives are known exactly: gaussian with "),
    ],
)  # fmt: skip
def test_one_problem_of_an_objective_study(write: Write, override: str, expected: str) -> None:
    found = problems(write(OBJECTIVE), override)
    assert len(found) == 1 or override.endswith("environment.dim")
    assert expected.partition(" (did you mean environment")[0] in found[0]


def test_a_weights_study_is_made_at_every_setting(write: Write) -> None:
    plan = plan_of(write(WEIGHTS))
    assert [unit.label for unit in plan.units] == [
        "bandit arms=4, weights, seed 0",
        "bandit arms=8, weights, seed 0",
    ]
    assert plan.units[1].as_dict()["groups"] == 2
    assert len({cell.id for cell in plan.cells}) == 4
    assert plan.cells[0].as_dict()["setting"] == {"environment.arms": 4}


def test_new_studies_read_back(write: Write) -> None:
    for text in (OBJECTIVE, WEIGHTS):
        spec = load_spec(write(text))
        assert load_spec(write(spec_to_yaml(spec))) == spec


@pytest.mark.parametrize(
    ("text", "overrides", "expected"),
    [
        (WEIGHTS,
         ["weights.grid.baseline='ladder[cross_fit]'", "weights.grid.n=8", "weights.grid.k=4"],
         "weights.grid.baseline: estimator=maxk baseline=ladder[cross_fit] n=8 k=4 cannot run: "
         "ladder[cross_fit] is "
         "fitted to gradients, which rewards alone do not determine"),
        (WEIGHTS, ["weights.grid={estimator: 'partitioned[loo]', baseline: none}"],
         "weights.grid.estimator: estimator=partitioned[loo] baseline=none n=4 k=2 cannot run: "
         "the weights of "
         "partitioned[loo] depend on the order of drawing, and the rewards are shown in theirs"),
        (GRADIENT, ["gradient.grid.baseline='affine[oracle]'", "gradient.grid.n=4"],
         "gradient.grid.baseline: estimator=maxk baseline=affine[oracle] n=4 k=2 cannot run: "
         "affine[oracle] is fitted "
         "by complete enumeration: gradient studies with complete: true only"),
        (GRADIENT,
         ["gradient.grid.baseline='affine[cross_fit]'", "gradient.grid.n=4",
          "gradient.instances=1"],
         "gradient.grid.baseline: estimator=maxk baseline=affine[cross_fit] n=4 k=2 cannot run: "
         "affine[cross_fit] is "
         "fitted on other instances: instances must be at least 2, got 1"),
    ],
)  # fmt: skip
def test_a_single_point_that_cannot_run(
    write: Write, text: str, overrides: list[str], expected: str
) -> None:
    assert expected in problems(write(text), *overrides)[0]


def test_a_gaussian_policy_has_no_logits(write: Write) -> None:
    text = GRADIENT.replace("{name: bandit, arms: 4}", "{name: gaussian}").replace(
        "vary: {environment.arms: [4, 8], environment.rewards: [gaussian, linear]}\n", ""
    )
    plan = plan_of(
        write(text), "gradient.grid.baseline=[none, 'optimal[logit_proxy]']", "gradient.grid.n=4"
    )
    assert [str(skipped) for skipped in plan.skipped] == [
        "estimator=maxk baseline=optimal[logit_proxy] n=4 k=2: optimal[logit_proxy] needs the "
        "trajectory weight "
        "logit_proxy, and a Gaussian policy has no logits"
    ]


def test_fitted_points_are_skipped_where_they_cannot_be_fitted(write: Write) -> None:
    grid = "gradient.grid.baseline=[none, 'ladder[oracle]', 'ladder[cross_fit]']"
    assert [s.point["baseline"] for s in plan_of(write(GRADIENT), grid).skipped] == [
        "ladder[oracle]"
    ] * 2
    assert plan_of(write(GRADIENT), grid, "gradient.complete=true").skipped == ()
    training = GRADIENT.partition("vary")[0] + (
        "training:\n  batch: 8\n  evaluate: {samples: 4}\n"
        "  grid: {estimator: maxk, baseline: [none, 'ladder[oracle]', 'ladder[cross_fit]'], "
        "n: [4, 8], k: 2}\n"
    )
    assert [(s.point["baseline"],
             s.point["n"], s.reason) for s in plan_of(write(training)).skipped] == [
        ("ladder[oracle]", n,
         "ladder[oracle] is fitted by complete enumeration: gradient studies with complete: "
         "true only") for n in (4, 8)
    ] + [("ladder[cross_fit]", 8,
          "ladder[cross_fit] is fitted on other instances: batch / n must be at least 2, "
          "got 1")]  # fmt: skip


FIGURE = (
    "{name: f, metric: snr, against: n, lines: [baseline, environment.arms], "
    "panels: environment.rewards}"
)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("metric: snr", "metric: srn"), "10:23: figures.0.metric: must be one of variance, "),
        (("metric: snr", "metric: kl"),
         "10:23: figures.0.metric: kl is measured with a behaviour policy only: give "
         "gradient.behaviour a distance above 0"),
        (("metric: snr", "metric: variance_first"),
         "10:23: figures.0.metric: variance_first is measured by complete "
         "enumeration only: give gradient complete: true"),
        (("against: n", "against: m"),
         "figures.0.against: must be one of estimator, baseline, n, k, stage, "
         "environment.arms, environment.rewards, got 'm'"),
        (("against: n", "against: environment.rewards"),
         "figures.0: against, lines and panels must name different "
         "things, got environment.rewards twice"),
        (("environment.arms]", "environment.arm]"),
         "figures.0.lines.1: must be one of estimator, "),
        (("lines: [baseline, environment.arms]", "lines: baseline"),
         "10:5: figures.0: environment.arms takes several values: name it in lines or panels"),
        (("name: f", "name: a/b"),
         "10:12: figures.0.name: names the figure's file: at most 100 letters"),
        (("name: f", "nam: f"), "figures.0.nam: unknown key 'nam' (did you mean name?)"),
        (("against: n", "scale: cubic, against: n"),
         "figures.0.scale: must be one of linear, log, got 'cubic'"),
    ],
)  # fmt: skip
def test_one_problem_of_a_figure(write: Write, change: tuple[str, str], expected: str) -> None:
    assert load_spec(write(f"{GRADIENT}figures:\n  - {FIGURE}\n")).figures[0].lines == (
        "baseline",
        "environment.arms",
    )
    found = problems(write(f"{GRADIENT}figures:\n  - {FIGURE.replace(*change)}\n"))
    assert any(expected in problem for problem in found), found


def test_figures_need_names_of_their_own_and_a_gradient_study(write: Write) -> None:
    twice = f"{GRADIENT}figures:\n  - {FIGURE}\n  - {FIGURE}\n"
    assert problems(write(twice)) == ["sweep.yaml:11:12: figures.1.name: two figures are named 'f'"]
    assert problems(write(f"{OBJECTIVE}figures:\n  - {{name: f, metric: snr, against: n}}\n")) == [
        "sweep.yaml:10:5: figures.0: a figure shows a gradient study, and this sweep has none"
    ]


def test_a_figure_against_words_is_refused(write: Write) -> None:
    figure = FIGURE.replace("against: n", "against: environment.rewards").replace(
        "panels: environment.rewards", "panels: n"
    )
    assert problems(write(f"{GRADIENT}figures:\n  - {figure}\n")) == [
        "sweep.yaml:10:37: figures.0.against: must have numbers for values, got environment.rewards"
    ]
