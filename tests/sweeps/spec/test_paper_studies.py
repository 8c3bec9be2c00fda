"""Objective and weights studies, and declared figures: plans and exact messages."""

from __future__ import annotations

from sweep_files import Write, plan_of

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


def test_a_weights_study_is_made_at_every_setting(write: Write) -> None:
    plan = plan_of(write(WEIGHTS))
    assert [unit.label for unit in plan.units] == [
        "bandit arms=4, weights, seed 0",
        "bandit arms=8, weights, seed 0",
    ]
    assert plan.units[1].as_dict()["groups"] == 2
    assert len({cell.id for cell in plan.cells}) == 4
    assert plan.cells[0].as_dict()["setting"] == {"environment.arms": 4}


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
