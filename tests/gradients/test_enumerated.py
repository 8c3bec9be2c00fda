"""Enumeration over multisets of classes against sums over all A^n tuples, and its verdicts."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from score_tables import (
    bandit,
    cell,
    estimates_of,
    every_group,
    measured,
    name_of,
    pool_of,
    table,
)
from sweep_files import problems

from maxk_lab.errors import LabError
from maxk_lab.estimators import effective_sample_size, objective_estimate, off_policy_value
from maxk_lab.estimators.method import Method
from maxk_lab.gradients.enumerated.exact import checked_probabilities, exact_gradient_weights
from maxk_lab.gradients.enumerated.moments import Outcomes
from maxk_lab.gradients.scores.draw import perturbed
from maxk_lab.statistics.bias import bias_verdicts
from maxk_lab.statistics.intervals import interval
from maxk_lab.statistics.measures import claimable
from maxk_lab.statistics.units import Units


def verdicts_of(pool, keys):
    """The metrics of cells with these keys, and the verdicts by key."""
    metrics = measured(pool, *(cell(*key) for key in keys))
    by_key = {key: Units.from_metrics(metrics[name_of(*key)]) for key in keys}
    return list(metrics.values()), bias_verdicts(by_key)


@pytest.mark.parametrize("probabilities", [[0.5, 0.4], [0.25, 0.16], [0.7, 0.6]])
def test_probabilities_that_do_not_sum_to_1_are_log_probs_fault_or_the_list_s(probabilities):
    log_probs = torch.tensor(probabilities).double().log()
    said = rf"log_probs, sum to {sum(probabilities):.6g} and not to 1: log_probs must be .* lacks"
    with pytest.raises(LabError, match=said):
        checked_probabilities(log_probs)


def test_trajectories_that_no_weight_tells_apart_share_a_class_and_impossible_ones_have_none():
    assert len(table([1.0, 0.0, 0.0, 1.0])[0].classes) == 2
    assert len(table([1.0, 0.0, 0.0, 1.0], weights="length")[0].classes) == 4 - 2
    assert len(table([1.0, 0.0, 0.0, 2.0], weights="number")[0].classes) == 4
    outcomes, _ = table([0.3, -1.0, 2.0])
    pad = torch.nn.functional.pad
    padded = Outcomes(
        pad(outcomes.probabilities * (1 + 1e-7), (0, 2)),
        pad(outcomes.rewards, (0, 2)),
        None,
        pad(outcomes.gram, (0, 2, 0, 2)),
    ).possible()
    assert padded.probabilities.sum().item() == pytest.approx(1.0, abs=1e-15)
    assert padded.gram.shape == (3, 3)


VERDICTS = {
    ("reinforce", "eob_loo", 4, 1): "unbiased",
    ("maxk", "optimal[grad_norm]", 4, 2): "unbiased",
    ("maxk", "subloo", 4, 3): "unbiased",
    ("maxk", "affine[cross_fit]", 4, 2): "unbiased",
    ("maxk", "ladder[cross_fit]", 4, 3): "unbiased",
    ("maxk", "affine[oracle]", 4, 2): "unbiased",
    ("maxk", "ladder[oracle]", 4, 3): "unbiased",
    ("maxk", "constant[oracle]", 4, 2): "unbiased",
    ("maxk", "joint_optimum", 4, 2): "unbiased",
    ("maxk", "joint_optimum", 4, 4): "unbiased",
    ("reinforce", "mean", 4, 1): "scale bias",
    ("reinforce", "otb", 4, 1): "biased",
}


@pytest.mark.parametrize(("dtype", "shift"), [("float64", 1000.0), ("float32", 0.0)])
def test_bias_is_proven_or_refuted_without_sampling(shift, dtype):
    pool = pool_of(bandit(shift=shift, dtype=dtype), count=6, objectives=[1, 2, 3, 4])
    metrics, verdicts = verdicts_of(pool, VERDICTS)
    assert {one["against"] for one in metrics} == {"complete"}
    assert {key: verdict.verdict for key, verdict in verdicts.items()} == VERDICTS
    assert all(np.isnan(v.p_value) for v in verdicts.values())
    assert {v.detectable for v in verdicts.values()} == {1e-9 if dtype == "float64" else 1e-4}
    assert verdicts["reinforce", "mean", 4, 1].relative_bias == pytest.approx(0.25, rel=1e-9)


def test_ratios_make_the_gradient_unbiased_and_nothing_less_does():
    expected = {("maxk", "centred", 4, 2): "biased"} | {
        ("off_policy_maxk", name, 4, 2): "unbiased" for name in ("none", "centred", "subloo")
    }
    environment = bandit()
    behaviour = perturbed(environment.policy(0), 0.7, seed=2)
    _, verdicts = verdicts_of(pool_of(environment, count=6, behaviour=behaviour), expected)
    assert {key: verdict.verdict for key, verdict in verdicts.items()} == expected


def test_every_measure_of_one_enumerated_instance_has_its_value():
    (metrics,) = measured(pool_of(bandit(), count=1), cell("maxk", "none", 4, 2)).values()
    assert metrics["undefined"] == {}
    units = Units.from_metrics(metrics)
    for name in {"objective", *claimable("ratio")} - {"effective_sample_size"}:
        assert interval(units, name).value == pytest.approx(metrics[name], rel=1e-12, abs=1e-25)
    assert metrics["scale"] == pytest.approx(1.0, abs=1e-12)
    # The logit proxy of a table is the squared norm of its score; all lengths are one.
    assert metrics["proxies"] == {"length": [None], "logit_proxy": [pytest.approx(1.0, abs=1e-12)]}


def test_groups_are_enumerated_where_there_are_few_of_them_however_small_the_pool():
    cells = cell("maxk", "centred", 8, 2), cell("maxk", "centred", 2, 1)
    pool = pool_of(bandit(arms=20), count=2, objectives=[1, 2])
    many, few = measured(pool, *cells[::-1]).values()
    assert (many["against"], few["against"]) == ("complete", "exact")
    (metrics,) = measured(pool_of(bandit(), size=1), cells[0]).values()
    assert metrics["against"] == "complete"


def selected_moments(estimates, chance, truth, shares, i, selection):
    """The moments of an update of instance i, from estimates that are 0 where a group goes."""
    divisor = max(shares[i], 1e-300) if selection == "drop_equal" else sum(shares) / len(shares)
    mean, second = chance @ estimates / divisor, chance @ estimates.square().sum(1) / divisor
    square = mean.square().sum()
    within = square if selection == "drop_equal" else 0.0  # the mean is over the kept groups
    second = within + (second - within) / divisor
    return {"m2": second, "mean_square": square, "inner": mean @ truth}


@pytest.mark.parametrize(
    ("estimator", "baseline", "k", "selection"),
    [
        ("maxk", "none", 2, "none"),
        ("maxk", "centred", 1, "none"),
        ("maxk", "subloo", 3, "none"),
        ("maxk", "sample_loo", 2, "none"),
        ("maxk", "optimal[length]", 2, "none"),
        ("maxk", "optimal[grad_norm]", 2, "none"),
        ("reinforce", "eob", 1, "none"),
        ("grpo", "none", 1, "none"),
        ("top_m[2]", "centred", 3, "none"),
        ("off_policy_maxk", "centred", 2, "none"),
        *(
            ("maxk", baseline, k, selection)
            for baseline, k in (("none", 2), ("subloo", 2), ("opo", 1))
            for selection in ("drop_equal", "resample_equal")
        ),
    ],
)
def test_the_measures_of_a_cell_equal_the_sum_over_all_tuples(estimator, baseline, k, selection):
    """Of rewards with ties, of some far from 0, and of some that are all the same."""
    method, environment = Method.parse(estimator, baseline, k), bandit(arms=4)
    policy, instances = environment.policy(0), environment.instances(3, 1)
    instances[0], instances[2] = torch.tensor([0.0, 0.0, 1.0, 1.0]), 2.0
    instances[1] += 1000.0
    p, scores = policy().exp().detach(), torch.eye(4).double() - policy().exp().detach()
    g = torch.ones(4).double() if method.needed_weight == "length" else scores.square().sum(1)
    for behaviour in (None, perturbed(policy, 0.7, seed=2))[: 2 if selection == "none" else 1]:
        setting = {"instances": instances, "policy": policy, "behaviour": behaviour}
        pool = pool_of(environment, count=3, objectives=[method.objective_at(4)], **setting)
        chosen = cell(estimator, baseline, 4, k) | {"selection": selection}
        (metrics,) = measured(pool, chosen).values()
        found = metrics["measures"] | metrics["units"]
        assert ("effective_sample_size" in metrics["measures"]) == (behaviour is not None)
        b = p if behaviour is None else behaviour().exp().detach()
        tuples, chance = every_group(b, 4)
        ratios = (p / b)[tuples]
        # The groups that selection keeps, and the share of them by instance.
        kept = [row[tuples].amax(1) > row[tuples].amin(1) for row in instances]
        if selection == "none":
            kept = [torch.ones_like(one) for one in kept]
        shares = [float(chance[one].sum()) for one in kept]
        for i in range(3):
            rewards = instances[i][tuples]
            by_ratios = {"ratios": ratios} if method.needs_ratios else {}
            by_g = {method.needed_weight: g[tuples]}
            weights = method.weights(rewards, trajectory_weights=by_g, **by_ratios)
            estimates = estimates_of(weights, scores, tuples) * kept[i].unsqueeze(1)
            truth = exact_gradient_weights(p, instances[i], method.objective_at(4)) @ scores
            expected = selected_moments(estimates, chance, truth, shares, i, selection)
            if selection == "none":
                plain = values = objective_estimate(rewards, method.objective_at(4))
                if by_ratios:
                    values = off_policy_value(rewards, ratios, k)
                expected |= {
                    "objective": p[tuples].prod(1) @ plain,
                    "dead_gradient_rate": chance[weights.eq(0).all(1)].sum(),
                    "value_variance": chance @ (values - chance @ values).square(),
                }
            if behaviour is not None:
                expected["effective_sample_size"] = chance @ effective_sample_size(ratios) / 4
            rel = 1e-9 if selection == "none" else 1e-12
            for name, value in expected.items():
                assert found[name][i] == pytest.approx(value.item(), rel=rel)


def test_selection_needs_all_groups(write):
    pool = pool_of(bandit(arms=4), count=2, objectives=[1])
    with pytest.raises(LabError, match="groups are too many to list"):
        measured(pool, cell("maxk", "centred", 200, 1) | {"selection": "drop_equal"})
    text = """\
name: selected
seeds: 1
environment: {name: bandit}
gradient:
  selection: [none, drop_equal]
  grid: {estimator: maxk, baseline: centred, n: 4, k: 2}
"""
    assert problems(write(text)) == [
        "sweep.yaml:5:14: gradient.selection: needs complete: true, which lists all groups"
    ]


def test_two_outcomes_are_enumerated_however_many_samples():
    """ρ̂ of c successes among n is 1 − C(n−c, K)/C(n, K), and c is binomial."""
    n, k, chance = 800, 8, 0.02
    rewards, p = torch.tensor([[0.0, 1.0], [1 - chance, chance]], dtype=torch.float64)
    environment = bandit(arms=2)
    policy = environment.policy(0)
    with torch.no_grad():
        policy.logits.copy_(p.log())
    pool = pool_of(environment, 8, 1, objectives=[k], policy=policy, instances=rewards.unsqueeze(0))
    (metrics,) = measured(pool, cell("maxk", "centred", n, k)).values()
    successes = np.arange(n + 1)
    failed = [math.comb(n - int(c), k) / math.comb(n, k) for c in successes]
    density = stats.binom.pmf(successes, n, chance)
    mean = density @ failed
    variance = density @ (np.array(failed) - mean) ** 2
    assert metrics["value_variance"] == pytest.approx(variance, rel=1e-9)
    assert mean == pytest.approx((1 - chance) ** k)
    assert metrics["dead_gradient_rate"] == pytest.approx((1 - chance) ** n + chance**n, rel=1e-9)
    assert bias_verdicts({0: Units.from_metrics(metrics)})[0].verdict == "unbiased"
    with pytest.raises(ValueError, match="at least 2 are needed"):
        measured(pool, cell("maxk", "centred", 100_000, k))
