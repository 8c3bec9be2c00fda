"""The ranking of n and baseline against the variance of a step, all groups enumerated."""

from __future__ import annotations

import itertools

import pytest
import small_environments
import torch
from score_tables import bandit, pool_of

from maxk_lab.errors import LabError
from maxk_lab.estimators.method import Method
from maxk_lab.execution.record import Record, content_of
from maxk_lab.gradients.sampled.measures import measure_cells
from maxk_lab.gradients.scores.per_trajectory import trained, trajectory_scores
from maxk_lab.reports.report import make_report
from maxk_lab.studies.gradient.recommend import ranked

BASELINES, SIZES, BUDGET, INSTANCES = ("none", "sample_loo", "centred", "subloo"), (2, 3, 4), 12, 6


def toy_llm(shift):
    sizes = {"vocab_size": 3, "max_length": 2, "prompt_length": 2}
    policy = {"embed_dim": 8, "init_std": 0.5 + shift}
    return small_environments.make("toy_llm", policy=policy, **sizes)


QUESTIONS = [
    *(
        (bandit, {"shift": shift}, seed)
        for shift, seed in ((0, 0), (0, 1), (0, 2), (5, 0), (-5, 1))
    ),
    *((toy_llm, {"shift": shift}, 0) for shift in (0.0, 0.5)),
]


def rows_of(environment, policy, instances, k):
    """The rows of the grid, from records of a pool."""
    pool = pool_of(environment, 16, INSTANCES, (k,), policy, instances)
    shared = {"study": "gradient", "environment": {"name": "tiny"}, "policy": {}, "seed": 0}
    shared |= {"stage": 0, "warmup": {}, "complete": True, "instances": INSTANCES, "pool": 16}
    cells = [
        shared | {"id": f"{b}-{n}", "estimator": "maxk", "baseline": b, "n": n, "k": k}
        for b, n in itertools.product(BASELINES, SIZES)
        if Method.parse("maxk", b, k).refusal(n) is None
    ]
    measures = dict(measure_cells(pool, [cell | {"partitions": 1} for cell in cells], seed=0))
    cells = [cell | {"partitions": 1} for cell in cells]
    records = [
        Record(cell, "done", x, content=content_of(cell, x))
        for cell in cells
        for x in [measures[cell["id"]]]
    ]
    return make_report(cells, records, name="tiny").studies["gradient"].rows


def enumerated(environment, policy, instances, k):
    """n (E‖ĝ‖² − mean over i ≠ j of ⟨μ_i, μ_j⟩) of every baseline and n, from all groups."""
    listed = []
    for i in range(INSTANCES):
        actions, rewards = environment.enumerate(instances[i : i + 1])
        log_probs = environment.log_probs(policy, instances[i : i + 1], actions.unsqueeze(0))[0]
        scores = trajectory_scores(log_probs, trained(policy)).double()
        listed.append((log_probs.detach().double().exp(), rewards.double(), scores))
    steps = {}
    for baseline, n in itertools.product(BASELINES, SIZES):
        method = Method.parse("maxk", baseline, k)
        if method.refusal(n) is not None:
            continue
        squares, means = [], []
        for p, rewards, scores in listed:
            groups = torch.cartesian_prod(*[torch.arange(len(p))] * n).view(-1, n)
            chance, weights = p[groups].prod(1), method.weights(rewards[groups])
            by_row = torch.zeros(len(groups), len(p)).double().scatter_add_(1, groups, weights)
            estimates = by_row @ scores
            squares.append(float(chance @ estimates.square().sum(1)))
            means.append(chance @ estimates)
        products = torch.stack(means) @ torch.stack(means).T
        between = float(products.sum() - products.trace()) / (INSTANCES * (INSTANCES - 1))
        steps[baseline, n] = n * (sum(squares) / INSTANCES - between)
    return steps


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize(("make", "how", "seed"), QUESTIONS)
def test_the_ranking_is_that_of_the_enumerated_variance_of_a_step(make, how, seed, k):
    environment = make(**how)
    policy, instances = environment.policy(seed), environment.instances(INSTANCES, seed)
    answer = ranked(rows_of(environment, policy, instances, k), BUDGET)
    steps = enumerated(environment, policy, instances, k)
    best = min(steps.values())
    order = [(one.row.key.baseline, one.row.key.n) for one in answer.candidates]
    assert set(order) == set(steps)
    assert [steps[each] for each in order] == pytest.approx(sorted(steps.values()), rel=1e-7)
    ratios = [one.over_best.value for one in answer.candidates[1:]]
    assert ratios == pytest.approx([steps[each] / best for each in order[1:]], rel=1e-7)


def test_records_without_products_between_instances_need_n():
    environment = bandit()
    policy, instances = environment.policy(0), environment.instances(INSTANCES, 0)
    rows = rows_of(environment, policy, instances, 2)
    for row in rows:
        object.__setattr__(row.units, "cross_products", None)
    with pytest.raises(LabError, match="Name one with --n, 2 or 3 or 4, to rank its baselines"):
        ranked(rows, BUDGET)
    answer = ranked(rows, BUDGET, 4)
    assert answer.no_between.startswith("no products of the instances' gradients")
    assert [one.row.key.n for one in answer.candidates] == [4, 4, 4, 4]
    values = [one.row.intervals["variance"].value for one in answer.candidates]
    assert values == sorted(values)
    assert answer.candidates[1].over_best.value == pytest.approx(values[1] / values[0])
