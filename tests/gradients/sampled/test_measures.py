"""Measures from Gram matrices against gradients written out, and enumerated moments."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from maxk_lab.environments.bandit.environment import Bandit
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.environment import make_environment
from maxk_lab.estimators import Objective, advantages
from maxk_lab.estimators.method import Method
from maxk_lab.gradients.enumerated.exact import exact_value
from maxk_lab.gradients.sampled.groups import group_order
from maxk_lab.gradients.sampled.measures import measure_cells
from maxk_lab.gradients.scores.draw import draw_pool
from maxk_lab.gradients.scores.pool import ScorePool
from maxk_lab.statistics.errors import THESE
from maxk_lab.statistics.intervals import interval
from maxk_lab.statistics.units import Units

TSP_POLICY = {
    "embed_dim": 16,
    "num_encoder_layers": 1,
    "num_heads": 2,
    "feedforward_hidden": 16,
    "dtype": "float64",
}


def bandit(arms=3, shift=0.0):
    return make_environment(
        {"name": "bandit", "arms": arms, "reward_shift": shift},
        {"init_std": 0.5, "dtype": "float64"},
    )


def cell(baseline, n, k, estimator="maxk", partitions=1):
    return {
        "id": f"{baseline}-{n}-{k}",
        "estimator": estimator,
        "baseline": baseline,
        "n": n,
        "k": k,
        "partitions": partitions,
    }


def exact_moments(environment, policy, rewards, n, k, baseline):
    """E ĝ and tr Cov ĝ by listing all A^n groups."""
    probabilities = policy().exp().detach()
    scores = torch.eye(len(probabilities)).double() - probabilities
    groups = torch.tensor(list(itertools.product(range(len(probabilities)), repeat=n)))
    chance = probabilities[groups].prod(1)
    weights = advantages(rewards[groups], estimator="maxk", baseline=baseline, k=k)
    estimates = torch.einsum("gn,gnp->gp", weights, scores[groups])
    mean = chance @ estimates
    return mean, (chance @ estimates.square().sum(1) - mean.square().sum()).item()


@pytest.mark.slow
@pytest.mark.parametrize("baseline", ["none", "centred", "subloo", "group_mean", "sample_loo"])
def test_measures_agree_with_complete_enumeration(baseline):
    environment = bandit(shift=-1.0)
    policy, instances = environment.policy(0), environment.instances(12, 1)
    pool = draw_pool(environment, policy, instances, 12, 30_000, objectives=[2], seed=3)
    ((_, metrics),) = measure_cells(pool, [cell(baseline, 4, 2)], seed=0)
    truth = [exact_moments(environment, policy, instances[i], 4, 2, baseline) for i in range(12)]
    variance = np.mean([t[1] for t in truth])
    mean_square = np.mean([t[0].square().sum().item() for t in truth])
    assert metrics["variance"] == pytest.approx(variance, rel=0.03)
    assert metrics["mean_square"] == pytest.approx(mean_square, rel=0.15)
    scale = 1 - 2 / 4 if baseline == "group_mean" else 1.0
    assert metrics["scale"] == pytest.approx(scale, rel=0.1)
    assert metrics["cosine"] == pytest.approx(1.0, abs=0.05)
    assert metrics["against"] == "exact"


@pytest.mark.slow
def test_quadratic_forms_equal_the_gradients_written_out():
    environment = make_environment({"name": "tsp", "num_loc": 5}, TSP_POLICY)
    policy, instances = environment.policy(0), environment.instances(12, 1)
    pool = draw_pool(environment, policy, instances, 12, 12, objectives=[2], seed=3)
    parameters = list(policy.parameters())
    ((_, metrics),) = measure_cells(pool, [cell("centred", 4, 2)], seed=0)
    order = group_order(12, 12, 4, 1, 0)[:, 0]
    listed, _ = environment.enumerate(environment.select(instances, 0))
    for i in range(12):
        instance = environment.select(instances, i)
        estimates = []
        for group in order[i].flatten(0, 1):
            weights = advantages(pool.rewards[i, group], estimator="maxk", baseline="centred", k=2)
            log_probs = environment.log_probs(
                policy, instance, listed[pool.parts[i].rows[group]].unsqueeze(0)
            )[0]
            gradients = torch.autograd.grad(
                (weights * log_probs).sum(), parameters, allow_unused=True
            )
            estimates.append(
                torch.cat(
                    [
                        torch.zeros(p.numel()).double() if g is None else g.flatten()
                        for g, p in zip(gradients, parameters)
                    ]
                )
            )
        stacked = torch.stack(estimates)
        products = stacked @ stacked.T
        replicates = len(stacked)
        assert metrics["units"]["m2"][i] == pytest.approx(
            products.diagonal().mean().item(), rel=1e-9
        )
        off = (products.sum() - products.diagonal().sum()) / (replicates * (replicates - 1))
        assert metrics["units"]["mean_square"][i] == pytest.approx(off.item(), rel=1e-7, abs=1e-12)


@pytest.mark.slow
def test_reference_mode_judges_without_the_exact_gradient():
    environment = bandit()
    policy, instances = environment.policy(0), environment.instances(12, 1)
    exact = draw_pool(environment, policy, instances, 12, 20_000, objectives=[2], seed=3)
    parts = [
        replace(part, inner=part.inner[:, :0], norm=part.norm[:0], value=part.value[:0])
        for part in exact.parts
    ]
    blind = replace(exact, objectives=(), parts=tuple(parts))
    cells = [cell("centred", 4, 2), cell("group_mean", 4, 2), cell("subloo", 4, 2)]
    found = dict(measure_cells(blind, cells, seed=0))
    assert found["centred-4-2"]["is_reference"]
    assert found["centred-4-2"]["scale"] == 1.0
    assert found["group_mean-4-2"]["scale"] == pytest.approx(0.5, abs=1e-9)
    assert found["subloo-4-2"]["scale"] == pytest.approx(1.0, abs=0.1)
    assert found["subloo-4-2"]["against"] == "reference:centred"


def test_a_cell_does_not_depend_on_the_other_cells_asked_for():
    environment = bandit()
    policy, instances = environment.policy(0), environment.instances(12, 1)
    alone = draw_pool(environment, policy, instances, 12, 200, objectives=[2], seed=3)
    together = draw_pool(environment, policy, instances, 12, 200, objectives=[1, 2, 3], seed=3)
    ((_, one),) = measure_cells(alone, [cell("centred", 4, 2)], seed=0)
    many = dict(
        measure_cells(
            together, [cell("none", 8, 1), cell("centred", 4, 2), cell("subloo", 4, 3)], seed=0
        )
    )
    assert many["centred-4-2"] == one


def test_the_blocks_of_every_instance_tell_how_well_it_is_known():
    environment = bandit()
    pool = draw_pool(
        environment,
        environment.policy(0),
        environment.instances(2, 1),
        2,
        640,
        objectives=[2],
        seed=3,
    )
    ((_, metrics),) = measure_cells(pool, [cell("centred", 8, 2)], seed=0)
    units = Units.from_metrics(metrics)
    assert units.stratum.tolist() == [0, 0]
    assert units.groups == 2 * metrics["replicates"] == 2 * 80
    # 80 groups make 16 blocks; of so few instances a record keeps them all.
    assert units.within.shape == (4, 2, 16)
    assert units.deviations.along.freedom == 15
    assert units.deviations.anywhere.freedom == 7
    found = interval(units, "variance")
    assert (found.question, found.fallen_back) == (THESE, True)
    assert found.value == pytest.approx(metrics["variance"])
    assert found.low < found.value < found.high


def test_one_failing_cell_does_not_take_the_others_with_it():
    environment = bandit()
    pool = draw_pool(
        environment,
        environment.policy(0),
        environment.instances(12, 1),
        12,
        64,
        objectives=[2],
        seed=3,
    )
    found = dict(
        measure_cells(
            pool, [cell("centred", 4, 2), cell("subloo", 4, 1), cell("none", 64, 2)], seed=0
        )
    )
    assert found["centred-4-2"]["variance"] > 0
    assert isinstance(found["subloo-4-1"], Exception)
    assert "at least 2 are needed" in str(found["none-64-2"])


@pytest.mark.slow
def test_many_trajectories_take_the_exact_gradient_as_a_direction_to_the_same_numbers(monkeypatch):
    environment = make_environment({"name": "tsp", "num_loc": 5}, TSP_POLICY)
    policy, instances = environment.policy(0), environment.instances(12, 1)
    table = draw_pool(environment, policy, instances, 12, 40, objectives=[2, 3], seed=3)
    monkeypatch.setattr("maxk_lab.gradients.scores.draw.TABLE_LIMIT", 100)
    direct = draw_pool(environment, policy, instances, 12, 40, objectives=[2, 3], seed=3)
    for one, other in zip(direct.parts, table.parts):
        assert len(one.gram) < len(other.gram) == 120
        torch.testing.assert_close(one.norm, other.norm, rtol=1e-9, atol=0)
    cells = [cell("centred", 4, 2), cell("none", 8, 3)]
    fast, slow = (dict(measure_cells(pool, cells, seed=0)) for pool in (table, direct))
    for name, metrics in fast.items():
        for measure in ("variance", "mean_square", "scale", "squared_bias", "value"):
            assert slow[name][measure] == pytest.approx(metrics[measure], rel=1e-8, abs=1e-10)


class IntegratedBandit(Bandit):
    """A bandit whose arms cannot be listed but whose objectives are known."""

    enumerable = False
    has_exact = True

    def exact_objective(self, policy, instances, objective):
        return exact_value(policy().exp(), instances[0], objective)


def integrated_bandit(arms=3):
    row = ENVIRONMENTS.get("bandit")
    policy = {"name": "tabular", "init_std": 0.5, "dtype": "float64"}
    environment = IntegratedBandit(row, {"arms": arms, "reward_shift": 0.0}, policy)
    environment.enumerable = False
    return environment


MANY_FORMS = [
    cell("centred", 4, 2),
    cell("none", 8, 3),
    cell("optimal[grad_norm]", 4, 2),
    cell("affine[same_batch]", 4, 3),
    cell("ladder[cross_fit]", 8, 3, partitions=2),
]


@pytest.mark.parametrize("instances_drawn", [2, 12])
@pytest.mark.parametrize("exact", [True, False])
def test_scores_kept_as_they_are_give_the_numbers_of_their_gram_matrix(
    instances_drawn, exact, monkeypatch
):
    environment = integrated_bandit()
    environment.has_exact = exact
    policy, instances = environment.policy(0), environment.instances(instances_drawn, 1)

    def pool():
        return draw_pool(
            environment, policy, instances, instances_drawn, 200, objectives=[2, 3], seed=3
        )

    few = pool()
    monkeypatch.setattr("maxk_lab.gradients.scores.draw.FEW_PARAMETERS", 2)
    many = pool()
    for one, other in zip(few.parts, many.parts):
        assert one.scores.shape == (200, 3)
        assert other.gram.shape == (3, 3)
        assert one.gram is other.scores is None
    assert few.exact == exact
    torch.testing.assert_close(
        few.trajectory_weight("grad_norm"), many.trajectory_weight("grad_norm")
    )
    again = ScorePool.from_arrays(few.to_arrays())
    assert again.objectives == few.objectives
    found = [dict(measure_cells(p, MANY_FORMS, seed=0)) for p in (again, many)]
    for name, metrics in found[0].items():
        other = found[1][name]
        assert metrics["against"] == ("exact" if exact else "reference:centred")
        for part, values in metrics["units"].items():
            assert values == pytest.approx(other["units"][part], rel=1e-9, abs=1e-12)


def test_an_integrated_gradient_is_the_enumerated_one():
    listed, integrated = bandit(), integrated_bandit()
    policy, instances = listed.policy(0), listed.instances(12, 1)
    objectives = [Objective("max", 2), Objective("median", 3)]
    pools = [
        draw_pool(environment, policy, instances, 12, 64, objectives=objectives, seed=3)
        for environment in (listed, integrated)
    ]
    assert pools[0].objectives == pools[1].objectives == ("max@2", "median@3")
    for one, other in zip(pools[1].parts, pools[0].parts):
        torch.testing.assert_close(one.norm, other.norm, rtol=1e-10, atol=0)
        torch.testing.assert_close(one.value, other.value, rtol=1e-12, atol=0)
    cells = [cell("subloo", 4, 2), cell("centred", 4, 3, estimator="median")]
    for (_, one), (_, other) in zip(*(measure_cells(pool, cells, seed=0) for pool in pools)):
        assert one["units"]["inner"] == pytest.approx(other["units"]["inner"], rel=1e-9, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator", ["top_m[2]", "median", "cvar_lower[0.5]", "l_statistic[0.5 0.0 -1.5]"]
)
def test_an_objective_without_the_exact_gradient_is_judged_against_its_own_centred_row(estimator):
    environment = integrated_bandit()
    policy, instances = environment.policy(0), environment.instances(12, 1)
    objectives = [Method.parse(estimator, k=3).objective]
    exact = draw_pool(environment, policy, instances, 12, 20_000, objectives=objectives, seed=3)
    environment.has_exact = False
    blind = draw_pool(environment, policy, instances, 12, 20_000, objectives=objectives, seed=3)
    for pool in (exact, blind):
        ((_, own), (_, other)) = measure_cells(
            pool, [cell("centred", 5, 3, estimator), cell("subloo", 5, 3, estimator)], seed=0
        )
        assert other["scale"] == pytest.approx(1.0, abs=0.1)
        assert own["is_reference"] == (pool is blind)
    assert own["against"] == "reference:centred"
    assert own["value"] == pytest.approx(
        np.mean([part.value.item() for part in exact.parts]), abs=0.05
    )


@pytest.mark.slow
def test_the_weights_of_a_group_are_measured_and_dead_groups_left_out():
    environment = bandit()
    policy = environment.policy(0)
    rewards = torch.tensor([[0.0, 0.0, 1.0]] * 11 + [[2.0, 2.0, 2.0]]).double()
    pool = draw_pool(environment, policy, rewards, 12, 20_000, objectives=[2], seed=3)
    ((_, found),) = measure_cells(pool, [cell("subloo", 4, 2)], seed=0)
    best = policy().exp()[2].item()
    dead = (1 - best) ** 4 + best**4
    measures = found["measures"]
    assert measures["dead_gradient_rate"][:11] == pytest.approx([dead] * 11, abs=0.03)
    assert measures["dead_gradient_rate"][11] == 1.0
    assert measures["weight_concentration"][11] is None
    # Subloo weighs the winners alone, all alike: 1 over their number.
    chances = [math.comb(4, m) * best**m * (1 - best) ** (4 - m) for m in (1, 2, 3)]
    expected = sum(chance / m for m, chance in zip((1, 2, 3), chances)) / sum(chances)
    assert found["weight_concentration"] == pytest.approx(expected, abs=0.01)
    assert (
        interval(Units.from_metrics(found), "weight_concentration").value
        == found["weight_concentration"]
    )
    ((_, nothing),) = measure_cells(
        draw_pool(environment, policy, rewards[11:], 1, 64, objectives=[2], seed=3),
        [cell("subloo", 4, 2)],
        seed=0,
    )
    assert nothing["weight_concentration"] is None
    assert "undefined on every" in nothing["undefined"]["weight_concentration"]


def test_the_value_variance_is_that_between_groups():
    environment = bandit()
    pool = draw_pool(
        environment,
        environment.policy(0),
        environment.instances(12, 1),
        12,
        40,
        objectives=[2],
        seed=3,
    )
    ((_, found),) = measure_cells(pool, [cell("centred", 4, 2)], seed=0)
    order = group_order(12, 40, 4, 1, 0)[:, 0]
    for i in range(12):
        maxima = [
            np.mean(
                [max(pair) for pair in itertools.combinations(pool.rewards[i, group].tolist(), 2)]
            )
            for group in order[i].flatten(0, 1)
        ]
        assert found["measures"]["value_variance"][i] == pytest.approx(
            np.var(maxima, ddof=1), rel=1e-10
        )
