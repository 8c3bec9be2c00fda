"""Trajectories of another policy: enumeration against all tuples, verdicts, and sampling."""

import itertools

import numpy as np
import pytest
import torch

from maxk_lab.environments.environment import make_environment
from maxk_lab.estimators import advantages, effective_sample_size
from maxk_lab.gradients.sampled.measures import measure_cells
from maxk_lab.gradients.scores.behaviour import perturbed
from maxk_lab.gradients.scores.draw import draw_pool
from maxk_lab.gradients.scores.pool import ScorePool
from maxk_lab.statistics.bias import bias_verdicts
from maxk_lab.statistics.units import Units


def bandit(arms=3):
    return make_environment(
        {"name": "bandit", "arms": arms, "reward_shift": 0.0}, {"init_std": 0.5, "dtype": "float64"}
    )


def cell(estimator, baseline, n=4, k=2, complete=True):
    axes = {"estimator": estimator, "baseline": baseline, "n": n, "k": k, "partitions": 1}
    return (
        {"id": f"{estimator}/{baseline}/{n}/{k}"} | axes | ({"complete": True} if complete else {})
    )


def drawn_pool(size=64, distance=0.7, enumerable=True, count=12):
    environment = bandit()
    environment.enumerable = enumerable
    policy = environment.policy(0)
    behaviour = None if distance is None else perturbed(policy, distance, seed=2)
    instances = environment.instances(count, 1)
    pool = draw_pool(
        environment, policy, instances, count, size, objectives=[2], seed=3, behaviour=behaviour
    )
    return pool, policy, behaviour, instances


def measured(pool, *cells):
    found = dict(measure_cells(pool, cells, seed=0))
    for result in found.values():
        if isinstance(result, Exception):
            raise result
    return found


def test_a_perturbed_policy_lies_at_its_distance_on_a_line_that_the_seed_alone_gives():
    policy = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)).double()
    policy[0].bias.requires_grad_(False)

    def step(distance, seed):
        moved = perturbed(policy, distance, seed)
        assert torch.equal(moved[0].bias, policy[0].bias)
        pairs = zip(moved.parameters(), policy.parameters(), strict=True)
        return torch.cat([(a - b).detach().flatten() for a, b in pairs])

    near, far = step(0.5, 1), step(2.0, 1)
    assert near.norm().item() == pytest.approx(0.5, rel=1e-12)
    torch.testing.assert_close(4 * near, far, rtol=1e-10, atol=1e-12)
    assert not torch.allclose(near, step(0.5, 2))
    with pytest.raises(ValueError, match="distance must be at least 0, got -1"):
        perturbed(policy, -1, 1)


def test_without_another_policy_the_ratios_are_exactly_one():
    pool, *_ = drawn_pool(distance=None)
    still, *_ = drawn_pool(distance=0.0)
    for found in (pool, still):
        assert found.ratios.eq(1).all()
        for part in found.parts:
            assert torch.equal(part.listed.behaviour, part.listed.probabilities)
        assert not found.off_policy
    plain, with_ratios = measured(
        pool, cell("maxk", "subloo"), cell("off_policy_maxk", "subloo")
    ).values()
    assert with_ratios["variance"] == pytest.approx(plain["variance"], rel=1e-12)
    assert "kl" not in plain["measures"]


@pytest.mark.parametrize("enumerable", [True, False])
def test_ratios_are_those_of_the_two_policies(enumerable):
    pool, policy, behaviour, _ = drawn_pool(enumerable=enumerable)
    p, b = policy().exp().detach(), behaviour().exp().detach()
    values, ratios = torch.stack([pool.rewards[0], pool.ratios[0]], 1).unique(dim=0).T
    assert len(values) == 3
    assert ratios.sort().values.tolist() == pytest.approx((p / b).sort().values.tolist(), rel=1e-12)
    assert pool.trajectory_weight("logit_proxy")[0].unique().tolist() == pytest.approx(
        ((1 - p).square() + p.square().sum() - p.square()).sort().values.tolist()
    )
    if enumerable:
        torch.testing.assert_close(pool.parts[0].listed.behaviour, b)
        torch.testing.assert_close(pool.parts[0].listed.ratios, p / b)
    again = ScorePool.from_arrays(pool.to_arrays())
    assert torch.equal(again.ratios, pool.ratios)
    assert again.off_policy


@pytest.mark.parametrize(
    "pair", [("off_policy_maxk", "none"), ("off_policy_maxk", "centred"), ("maxk", "subloo")]
)
def test_moments_and_measures_equal_the_sum_over_all_tuples(pair):
    pool, policy, behaviour, instances = drawn_pool(count=2)
    found = measured(pool, cell(*pair))[cell(*pair)["id"]]
    p, b = policy().exp().detach(), behaviour().exp().detach()
    scores = torch.eye(3).double() - p
    tuples = torch.tensor(list(itertools.product(range(3), repeat=4)))
    chance, ratios = b[tuples].prod(1), (p / b)[tuples]
    for i in range(2):
        rewards = instances[i][tuples]
        given = {"ratios": ratios} if pair[0] == "off_policy_maxk" else {}
        weights = advantages(rewards, estimator=pair[0], baseline=pair[1], k=2, **given)
        estimates = torch.einsum("sn,snp->sp", weights, scores[tuples])
        mean = chance @ estimates
        assert found["units"]["m2"][i] == pytest.approx((chance @ estimates.square().sum(1)).item())
        assert found["units"]["mean_square"][i] == pytest.approx(mean.square().sum().item())
        sizes = effective_sample_size(ratios) / 4
        assert found["measures"]["effective_sample_size"][i] == pytest.approx(
            (chance @ sizes).item()
        )
        assert found["measures"]["kl"][i] == pytest.approx((b @ (b / p).log()).item())
        spread = (b @ (p / b).square() - 1).sqrt().item()
        assert found["measures"]["ratio_std"][i] == pytest.approx(spread)
        parts = [
            found["measures"][f"variance_{name}"][i]
            for name in ("first", "cross", "baseline", "interaction")
        ]
        variance = found["units"]["m2"][i] - found["units"]["mean_square"][i]
        assert sum(parts) == pytest.approx(variance, rel=1e-10)


def test_ratios_make_the_gradient_unbiased_and_nothing_less_does():
    pairs = {
        ("off_policy_maxk", "none"): "unbiased",
        ("off_policy_maxk", "centred"): "unbiased",
        ("off_policy_maxk", "subloo"): "unbiased",
        ("off_policy_first_order", "none"): "biased",
        ("maxk", "centred"): "biased",
    }
    pool, *_ = drawn_pool()
    found = measured(pool, *(cell(*pair) for pair in pairs))
    verdicts = bias_verdicts({pair: Units.from_metrics(found[cell(*pair)["id"]]) for pair in pairs})
    assert {pair: verdict.verdict for pair, verdict in verdicts.items()} == pairs


@pytest.mark.slow
def test_sampled_measures_estimate_the_enumerated_ones():
    pairs = [("off_policy_maxk", "none"), ("off_policy_maxk", "subloo"), ("maxk", "centred")]
    pool, *_ = drawn_pool(size=30_000)
    exact = measured(pool, *(cell(*pair) for pair in pairs))
    sampled = measured(pool, *(cell(*pair, complete=False) for pair in pairs))
    for name, metrics in exact.items():
        assert sampled[name]["against"] == "exact"
        for measure in ("variance", "value_variance", "effective_sample_size", "kl", "ratio_std"):
            assert sampled[name][measure] == pytest.approx(metrics[measure], rel=0.04)
        assert sampled[name]["scale"] == pytest.approx(metrics["scale"], abs=0.1)


@pytest.mark.slow
def test_without_the_exact_gradient_the_reference_has_ratios():
    pool, *_ = drawn_pool(size=20_000, enumerable=False)
    cells = [
        cell("off_policy_maxk", "centred", complete=False),
        cell("maxk", "centred", complete=False),
    ]
    reference, biased = measured(pool, *cells).values()
    assert reference["is_reference"]
    assert reference["against"] == biased["against"] == "reference:off_policy_maxk with centred"
    assert not biased["is_reference"]
    exact, *_ = drawn_pool(distance=0.7)
    assert biased["kl"] == pytest.approx(
        measured(exact, cell("maxk", "centred"))["maxk/centred/4/2"]["kl"], rel=0.05
    )
    ((_, refused),) = measure_cells(pool, [cell("median", "centred", k=3, complete=False)], seed=0)
    assert "median@3 under a behaviour policy needs the exact gradient" in str(refused)
    assert np.isfinite(biased["effective_sample_size"])
