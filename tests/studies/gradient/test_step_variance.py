"""The ranking of n and baseline against the variance of a step, all groups enumerated."""

from __future__ import annotations

import itertools

import pytest
import small_environments
import torch
from score_tables import bandit, cell, every_group, pool_of

from maxk_lab.errors import LabError
from maxk_lab.estimators.method import Method
from maxk_lab.execution.record import Record, content_of
from maxk_lab.gradients.sampled.measures import measure_cells
from maxk_lab.gradients.scores.per_trajectory import trained, trajectory_scores
from maxk_lab.reports.report import make_report
from maxk_lab.studies.gradient.recommend import ranked

BASELINES, SIZES, BUDGET, INSTANCES = ("none", "sample_loo", "centred", "subloo"), (2, 3), 12, 4


def toy_llm(shift):
    sizes = {"vocab_size": 3, "max_length": 2, "prompt_length": 2}
    policy = {"embed_dim": 8, "init_std": 0.5 + shift}
    return small_environments.make("toy_llm", policy=policy, **sizes)


def grid(k):
    """The (baseline, n) of the grid that can run."""
    points = itertools.product(BASELINES, SIZES)
    return [(b, n) for b, n in points if Method.parse("maxk", b, k).refusal(n) is None]


def rows_of(environment, policy, instances, k):
    """The rows of the grid, from records of a pool."""
    pool = pool_of(environment, 16, INSTANCES, (k,), policy, instances)
    shared = {"study": "gradient", "environment": {"name": "tiny"}, "policy": {}, "seed": 0}
    shared |= {"stage": 0, "warmup": {}, "instances": INSTANCES, "pool": 16}
    cells = [shared | cell("maxk", baseline, n, k) for baseline, n in grid(k)]
    measures = dict(measure_cells(pool, cells, seed=0))
    records = [
        Record(one, "done", measures[one["id"]], content=content_of(one, measures[one["id"]]))
        for one in cells
    ]
    return make_report(cells, records, name="tiny").studies["gradient"].rows


def enumerated(environment, policy, instances, k):
    """n (E‖ĝ‖² − mean over i ≠ j of ⟨μ_i, μ_j⟩) of every baseline and n, from all groups."""
    tables = []
    for i in range(INSTANCES):
        actions, rewards = environment.enumerate(instances[i : i + 1])
        log_probs = environment.log_probs(policy, instances[i : i + 1], actions.unsqueeze(0))[0]
        scores = trajectory_scores(log_probs, trained(policy)).double()
        tables.append((log_probs.detach().double().exp(), rewards.double(), scores))
    steps = {}
    for baseline, n in grid(k):
        squares, means = [], []
        for p, rewards, scores in tables:
            groups, chance = every_group(p, n)
            weights = Method.parse("maxk", baseline, k).weights(rewards[groups])
            by_trajectory = torch.zeros(len(groups), len(p)).double()
            estimates = by_trajectory.scatter_add_(1, groups, weights) @ scores
            squares.append(float(chance @ estimates.square().sum(1)))
            means.append(chance @ estimates)
        products = torch.stack(means) @ torch.stack(means).T
        between = float(products.sum() - products.trace()) / (INSTANCES * (INSTANCES - 1))
        steps[baseline, n] = n * (sum(squares) / INSTANCES - between)
    return steps


@pytest.mark.parametrize(
    ("make", "shift", "seed", "k"),
    [(bandit, 0, 0, 2), (bandit, 0, 1, 1), (bandit, 5, 0, 2), (bandit, -5, 1, 2),
     (toy_llm, 0.0, 0, 2), (toy_llm, 0.5, 0, 1)],
)  # fmt: skip
def test_the_ranking_is_that_of_the_enumerated_variance_of_a_step(make, shift, seed, k):
    environment = make(shift=shift)
    policy, instances = environment.policy(seed), environment.instances(INSTANCES, seed)
    answer = ranked(rows_of(environment, policy, instances, k), BUDGET)
    steps = enumerated(environment, policy, instances, k)
    order = [(one.row.key.baseline, one.row.key.n) for one in answer.candidates]
    assert set(order) == set(steps)
    assert [steps[each] for each in order] == pytest.approx(sorted(steps.values()), rel=1e-7)
    ratios = [one.over_best.value for one in answer.candidates[1:]]
    best = min(steps.values())
    assert ratios == pytest.approx([steps[each] / best for each in order[1:]], rel=1e-7)


def test_records_without_products_between_instances_need_n():
    environment = bandit()
    rows = rows_of(environment, environment.policy(0), environment.instances(INSTANCES, 0), 2)
    for row in rows:
        object.__setattr__(row.units, "cross_products", None)
    with pytest.raises(LabError, match="Name one with --n, 2 or 3, to rank its baselines"):
        ranked(rows, BUDGET)
    answer = ranked(rows, BUDGET, 3)
    assert answer.no_between.startswith("no products of the instances' gradients")
    assert [one.row.key.n for one in answer.candidates] == [3, 3, 3, 3]
    values = [one.row.intervals["variance"].value for one in answer.candidates]
    assert values == sorted(values)
    assert answer.candidates[1].over_best.value == pytest.approx(values[1] / values[0])
