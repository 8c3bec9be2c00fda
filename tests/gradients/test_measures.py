"""Measures from Gram matrices against the gradients written out, and against exact moments by complete enumeration."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from maxk_lab.environments.protocol import make_environment
from maxk_lab.estimators import advantages
from maxk_lab.gradients.draw import draw_pool
from maxk_lab.gradients.measures import measure_cells, pool_layout
from maxk_lab.gradients.units import Units

TSP_POLICY = {
    "embed_dim": 16,
    "num_encoder_layers": 1,
    "num_heads": 2,
    "feedforward_hidden": 16,
    "dtype": "float64",
}


def bandit(arms=3, shift=0.0):
    return make_environment(
        {"name": "bandit", "arms": arms, "reward_shift": shift}, {"init_std": 0.5, "dtype": "float64"}
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


@pytest.mark.parametrize("baseline", ["none", "centred", "subloo", "group_mean", "sample_loo"])
def test_measures_agree_with_complete_enumeration(baseline):
    environment = bandit(shift=-1.0)
    policy, instances = environment.policy(0), environment.instances(12, 1)
    pool = draw_pool(environment, policy, instances, 12, 30_000, ks=[2], seed=3)
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


def test_quadratic_forms_equal_the_gradients_written_out():
    environment = make_environment({"name": "tsp", "num_loc": 5}, TSP_POLICY)
    policy, instances = environment.policy(0), environment.instances(12, 1)
    pool = draw_pool(environment, policy, instances, 12, 12, ks=[2], seed=3)
    parameters = list(policy.parameters())
    ((_, metrics),) = measure_cells(pool, [cell("centred", 4, 2)], seed=0)
    order = pool_layout(pool, 4, 1, 0).order[0]
    listed, _ = environment.enumerate(environment.select(instances, 0))
    for i in range(12):
        instance = environment.select(instances, i)
        estimates = []
        for group in order[i, 0]:
            weights = advantages(pool.rewards[i, group], estimator="maxk", baseline="centred", k=2)
            log_probs = environment.log_probs(policy, instance, listed[pool.rows[i, group]].unsqueeze(0))[0]
            gradients = torch.autograd.grad((weights * log_probs).sum(), parameters, allow_unused=True)
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
        assert metrics["units"]["m2"][i] == pytest.approx(products.diagonal().mean().item(), rel=1e-9)
        off = (products.sum() - products.diagonal().sum()) / (replicates * (replicates - 1))
        assert metrics["units"]["mean_square"][i] == pytest.approx(off.item(), rel=1e-7, abs=1e-12)


def test_reference_mode_judges_without_the_exact_gradient():
    environment = bandit()
    policy, instances = environment.policy(0), environment.instances(12, 1)
    exact = draw_pool(environment, policy, instances, 12, 20_000, ks=[2], seed=3)
    blind = replace(
        exact, ks=(), inner=exact.inner[..., :0], norm=exact.norm[:, :0], value=exact.value[:, :0]
    )
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
    alone = draw_pool(environment, policy, instances, 12, 200, ks=[2], seed=3)
    together = draw_pool(environment, policy, instances, 12, 200, ks=[1, 2, 3], seed=3)
    ((_, one),) = measure_cells(alone, [cell("centred", 4, 2)], seed=0)
    many = dict(
        measure_cells(together, [cell("none", 8, 1), cell("centred", 4, 2), cell("subloo", 4, 3)], seed=0)
    )
    assert many["centred-4-2"] == one


def test_few_instances_are_resampled_in_blocks_of_the_pool():
    environment = bandit()
    pool = draw_pool(environment, environment.policy(0), environment.instances(2, 1), 2, 640, ks=[2], seed=3)
    ((_, metrics),) = measure_cells(pool, [cell("centred", 8, 2)], seed=0)
    units = Units.from_metrics(metrics)
    assert metrics["unit"] == "block"
    assert len(units.stratum) == 32
    assert set(units.stratum) == {0, 1}


def test_one_failing_cell_does_not_take_the_others_with_it():
    environment = bandit()
    pool = draw_pool(environment, environment.policy(0), environment.instances(12, 1), 12, 64, ks=[2], seed=3)
    found = dict(
        measure_cells(pool, [cell("centred", 4, 2), cell("subloo", 4, 1), cell("none", 64, 2)], seed=0)
    )
    assert found["centred-4-2"]["variance"] > 0
    assert isinstance(found["subloo-4-1"], Exception)
    assert "at least 2 are needed" in str(found["none-64-2"])


def test_many_trajectories_take_the_exact_gradient_as_a_direction_to_the_same_numbers(monkeypatch):
    environment = make_environment({"name": "tsp", "num_loc": 5}, TSP_POLICY)
    policy, instances = environment.policy(0), environment.instances(12, 1)
    table = draw_pool(environment, policy, instances, 12, 40, ks=[2, 3], seed=3)
    monkeypatch.setattr("maxk_lab.gradients.draw.TABLE_LIMIT", 100)
    direct = draw_pool(environment, policy, instances, 12, 40, ks=[2, 3], seed=3)
    assert direct.gram.shape[1] < table.gram.shape[1] == 120
    torch.testing.assert_close(direct.norm, table.norm, rtol=1e-9, atol=0)
    cells = [cell("centred", 4, 2), cell("none", 8, 3)]
    fast, slow = (dict(measure_cells(pool, cells, seed=0)) for pool in (table, direct))
    for name, metrics in fast.items():
        for measure in ("variance", "mean_square", "scale", "squared_bias", "value"):
            assert slow[name][measure] == pytest.approx(metrics[measure], rel=1e-8, abs=1e-10)
