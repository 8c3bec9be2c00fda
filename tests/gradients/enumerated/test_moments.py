"""Enumeration over multisets of classes against the sum over all A^n tuples; its verdicts."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from maxk_lab.environments.environment import make_environment
from maxk_lab.estimators import advantages, maxk_reward_estimate
from maxk_lab.estimators.method import Method
from maxk_lab.gradients.enumerated.moments import Outcomes, complete_moments
from maxk_lab.gradients.enumerated.multisets import _long_multisets, multisets
from maxk_lab.gradients.sampled.measures import measure_cells
from maxk_lab.gradients.scores.draw import draw_pool
from maxk_lab.statistics.bias import bias_verdicts
from maxk_lab.statistics.intervals import interval
from maxk_lab.statistics.measures import claimable
from maxk_lab.statistics.units import Units

PAIRS = [
    ("maxk", "none", 2),
    ("maxk", "subloo", 2),
    ("maxk", "centred", 1),
    ("maxk", "optimal[length]", 2),
    ("maxk", "optimal[grad_norm]", 2),
    ("reinforce", "eob", 1),
    ("reinforce", "otb_loo", 1),
    ("grpo", "none", 1),
    ("leader_reward", "none", 1),
]


def bandit(shift=0.0, arms=3, dtype="float64"):
    return make_environment(
        {"name": "bandit", "arms": arms, "reward_shift": shift}, {"init_std": 0.5, "dtype": dtype}
    )


def cell(estimator, baseline, n, k, complete=True):
    asked = {"complete": True} if complete else {}
    axes = {"estimator": estimator, "baseline": baseline, "n": n, "k": k, "partitions": 1}
    return {"id": f"{estimator}/{baseline}/{n}/{k}"} | axes | asked


def measured(environment, cells, count=12, size=64, policy=None):
    ks = [c["k"] for c in cells]
    pool = draw_pool(
        environment,
        policy or environment.policy(0),
        environment.instances(count, 1),
        count,
        size,
        objectives=ks,
        seed=3,
    )
    found = dict(measure_cells(pool, cells, seed=0))
    for result in found.values():
        if isinstance(result, Exception):
            raise result
    return found


def outcomes_and_scores(rewards, lengths, seed):
    """A policy of A trajectories whose scores [A, 5] are random but for Σ_a p_a ψ_a = 0."""
    generator = torch.Generator().manual_seed(seed)
    p = torch.rand(len(rewards), generator=generator).double() + 0.1
    p /= p.sum()
    scores = torch.randn(len(rewards), 5, generator=generator).double()
    scores -= p @ scores
    gram = scores @ scores.T
    g = {
        "length": torch.tensor(lengths).double(),
        "logit_proxy": scores.abs().sum(1),
        "grad_norm": gram.diagonal(),
    }
    return p, torch.tensor(rewards).double(), g, gram, scores


@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize(
    "rewards", [[0.3, -1.0, 2.0, 0.5], [1.0, 0.0, 0.0, 1.0], [2.0, 2.0, 2.0, 2.0]]
)
@pytest.mark.parametrize(("estimator", "baseline", "k"), PAIRS)
def test_moments_equal_the_sum_over_all_tuples(estimator, baseline, k, rewards, n):
    p, rewards, g, gram, scores = outcomes_and_scores(rewards, [1.0, 3.0, 3.0, 1.0], seed=n)
    kind = Method.parse(estimator, baseline).needed_weight

    def weigh(rewards, g, ratios):
        weights = {} if kind is None else {kind: g}
        return advantages(
            rewards, estimator=estimator, baseline=baseline, k=k, trajectory_weights=weights
        )

    tuples = torch.tensor(list(itertools.product(range(4), repeat=n)))
    chance = p[tuples].prod(1)
    weights = weigh(rewards[tuples], None if kind is None else g[kind][tuples], None)
    estimates = torch.einsum("sn,snp->sp", weights, scores[tuples])
    outcomes = Outcomes.of(p, rewards, None if kind is None else g[kind], gram)
    moments = complete_moments(outcomes, n, weigh)
    assert moments.second == pytest.approx(
        (chance @ estimates.square().sum(1)).item(), rel=1e-11, abs=1e-14
    )
    torch.testing.assert_close(
        moments.coefficients @ scores, chance @ estimates, rtol=1e-10, atol=1e-13
    )


def test_trajectories_that_no_weight_tells_apart_share_a_class():
    p, rewards, g, gram, _ = outcomes_and_scores([1.0, 0.0, 0.0, 1.0], [1.0, 3.0, 2.0, 1.0], seed=0)
    assert len(Outcomes.of(p, rewards, None, gram).classes) == 2
    assert len(Outcomes.of(p, rewards, g["length"], gram).classes) == 3


def test_impossible_trajectories_are_left_out_and_the_others_sum_to_one():
    p, rewards, _, gram, _ = outcomes_and_scores([0.3, 1.0, 2.0], [1.0, 1.0, 1.0], seed=0)
    padded = Outcomes.of(
        torch.cat([p * (1 + 1e-7), torch.zeros(2).double()]),
        torch.nn.functional.pad(rewards, (0, 2)),
        None,
        torch.nn.functional.pad(gram, (0, 2, 0, 2)),
    )
    assert padded.probabilities.sum().item() == pytest.approx(1.0, abs=1e-15)
    assert padded.gram.shape == (3, 3)


VERDICTS = {
    ("reinforce", "rloo", 4, 1): "unbiased",
    ("reinforce", "opo_loo", 4, 1): "unbiased",
    ("reinforce", "otb_loo", 4, 1): "unbiased",
    ("reinforce", "eob_loo", 4, 1): "unbiased",
    ("maxk", "optimal[grad_norm]", 4, 2): "unbiased",
    ("maxk", "none", 4, 2): "unbiased",
    ("maxk", "subloo", 4, 3): "unbiased",
    ("reinforce", "mean", 4, 1): "scale bias",
    ("maxk", "group_mean", 4, 2): "scale bias",
    ("grpo", "none", 4, 1): "biased",
    ("reinforce", "otb", 4, 1): "biased",
    ("reinforce", "eob", 4, 1): "biased",
    ("leader_reward", "none", 4, 1): "biased",
}


@pytest.mark.parametrize("shift", [0.0, 1000.0])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_bias_is_proven_or_refuted_without_sampling(shift, dtype):
    found = measured(bandit(shift, dtype=dtype), [cell(*key) for key in VERDICTS])
    assert {metrics["against"] for metrics in found.values()} == {"complete"}
    units = {key: Units.from_metrics(found[cell(*key)["id"]]) for key in VERDICTS}
    verdicts = bias_verdicts(units)
    assert {key: verdict.verdict for key, verdict in verdicts.items()} == VERDICTS
    assert all(np.isnan(v.p_value) for v in verdicts.values())
    assert {v.detectable for v in verdicts.values()} == {1e-9 if dtype == "float64" else 1e-4}
    assert verdicts["reinforce", "mean", 4, 1].relative_bias == pytest.approx(0.25, rel=1e-9)


def test_otb_equals_eob_where_the_logit_proxy_is_the_squared_norm():
    found = measured(bandit(), [cell("reinforce", "eob", 4, 1), cell("reinforce", "otb", 4, 1)])
    eob, otb = (Units.from_metrics(metrics) for metrics in found.values())
    np.testing.assert_allclose(eob.columns(), otb.columns(), rtol=1e-9)
    for proxies in (metrics["proxies"] for metrics in found.values()):
        assert proxies["length"] == [None] * 12
        assert proxies["logit_proxy"] == pytest.approx([1.0] * 12, abs=1e-12)


@pytest.mark.slow
def test_sampled_measures_estimate_the_enumerated_ones():
    keys = [
        ("maxk", "centred", 4, 2),
        ("reinforce", "eob_loo", 4, 1),
        ("maxk", "optimal[logit_proxy]", 4, 2),
    ]
    exact = measured(bandit(), [cell(*key) for key in keys])
    sampled = measured(bandit(), [cell(*key, complete=False) for key in keys], size=30_000)
    for name, metrics in exact.items():
        assert sampled[name]["against"] == "exact"
        assert "bias" not in sampled[name]
        assert sampled[name]["variance"] == pytest.approx(metrics["variance"], rel=0.03)
        assert sampled[name]["mean_square"] == pytest.approx(metrics["mean_square"], rel=0.15)


def test_every_measure_of_one_enumerated_instance_has_its_value():
    found = measured(bandit(), [cell("maxk", "none", 4, 2)], count=1)["maxk/none/4/2"]
    assert found["undefined"] == {}
    units = Units.from_metrics(found)
    for name in {"objective", *claimable("ratio")} - {"effective_sample_size", "kl", "ratio_std"}:
        assert interval(units, name).value == pytest.approx(found[name], rel=1e-12, abs=1e-25)
    assert found["scale"] == pytest.approx(1.0, abs=1e-12)
    assert bias_verdicts({0: units})[0].verdict == "unbiased"


def test_too_many_groups_fall_back_to_sampling():
    found = measured(
        bandit(arms=20), [cell("maxk", "centred", 8, 2), cell("maxk", "centred", 2, 1)]
    )
    assert found["maxk/centred/8/2"]["against"] == "exact"
    assert found["maxk/centred/2/1"]["against"] == "complete"


def test_a_pool_too_small_for_groups_is_no_obstacle_to_enumeration():
    found = measured(bandit(), [cell("maxk", "centred", 8, 2)], size=1)
    assert found["maxk/centred/8/2"]["against"] == "complete"


@pytest.mark.parametrize(
    "key", [("maxk", "subloo", 3, 2), ("maxk", "optimal[grad_norm]", 3, 2), ("grpo", "none", 3, 1)]
)
def test_a_policy_of_tokens_is_judged_as_a_table_is(key):
    row_settings = {
        "name": "toy_llm",
        "task": "edit",
        "vocab_size": 3,
        "max_length": 2,
        "prompt_length": 2,
    }
    rest = {"temperature": 1.0, "top_p": 1.0, "rewards": (), "reward_weights": ()}
    environment = make_environment(
        row_settings | rest,
        {
            "embed_dim": 8,
            "num_layers": 1,
            "num_heads": 2,
            "init_std": 0.5,
            "dtype": "float64",
            "pretrained": "",
        },
    )
    found = measured(environment, [cell(*key)], count=2)[cell(*key)["id"]]
    assert found["against"] == "complete"
    expected = "biased" if key[0] == "grpo" else "unbiased"
    assert bias_verdicts({0: Units.from_metrics(found)})[0].verdict == expected
    assert all(-1 <= value <= 1 for values in found["proxies"].values() for value in values)


@pytest.mark.parametrize(
    "estimator", ["top_m[2]", "median", "trimmed_mean[0.2]", "l_statistic[0.5 0.0 -1.5]"]
)
def test_every_objective_is_proven_unbiased(estimator):
    cells = [
        cell(estimator, baseline, 5, 3) for baseline in ("none", "centred", "subloo", "group_mean")
    ]
    environment = bandit(1000.0)
    pool = draw_pool(
        environment,
        environment.policy(0),
        environment.instances(12, 1),
        12,
        64,
        objectives=[Method.parse(estimator, k=3).objective],
        seed=3,
    )
    found = dict(measure_cells(pool, cells, seed=0))
    verdicts = bias_verdicts({c["baseline"]: Units.from_metrics(found[c["id"]]) for c in cells})
    assert [verdict.verdict for verdict in verdicts.values()] == ["unbiased"] * 3 + ["scale bias"]


@pytest.mark.parametrize(("baseline", "n"), [("none", 4), ("none", 6), ("loo", 4), ("loo", 6)])
def test_weights_that_see_the_order_of_drawing_are_enumerated_over_all_of_them(baseline, n):
    p, rewards, _, gram, scores = outcomes_and_scores([0.3, -1.0, 2.0], [1.0] * 3, seed=n)

    def weigh(rewards, g, ratios):
        return advantages(rewards, estimator=f"partitioned[{baseline}]", baseline="none", k=2)

    tuples = torch.tensor(list(itertools.product(range(3), repeat=n)))
    chance = p[tuples].prod(1)
    estimates = torch.einsum("sn,snp->sp", weigh(rewards[tuples], None, None), scores[tuples])
    moments = complete_moments(Outcomes.of(p, rewards, None, gram), n, weigh, ordered=True)
    assert moments.second == pytest.approx((chance @ estimates.square().sum(1)).item(), rel=1e-11)
    found = measured(bandit(), [cell(f"partitioned[{baseline}]", "none", n, 2)])
    (metrics,) = found.values()
    assert metrics["against"] == "complete"
    assert bias_verdicts({0: Units.from_metrics(metrics)})[0].verdict == "unbiased"


def test_the_measures_of_weights_and_values_equal_the_sum_over_all_tuples():
    environment = bandit()
    policy, instances = environment.policy(0), environment.instances(12, 1)
    instances[0] = torch.tensor([0.0, 0.0, 1.0])
    pool = draw_pool(environment, policy, instances, 12, 64, objectives=[2], seed=3)
    ((_, found),) = measure_cells(pool, [cell("maxk", "subloo", 4, 2)], seed=0)
    tuples = torch.tensor(list(itertools.product(range(3), repeat=4)))
    chance = policy().exp().detach()[tuples].prod(1)
    for i in range(12):
        rewards = instances[i][tuples]
        weights = advantages(rewards, estimator="maxk", baseline="subloo", k=2)
        dead = weights.eq(0).all(1)
        share = weights[~dead].square().sum(1) / weights[~dead].abs().sum(1).square()
        values = maxk_reward_estimate(rewards, 2)
        expected = {
            "objective": chance @ values,
            "value_variance": chance @ values.square() - (chance @ values).square(),
            "dead_gradient_rate": chance[dead].sum(),
            "weight_concentration": chance[~dead] @ share / chance[~dead].sum(),
        }
        for name, value in expected.items():
            assert found["measures"][name][i] == pytest.approx(value.item(), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("kinds", "n"), [(1, 9), (2, 7), (3, 8), (4, 5), (5, 3)])
def test_multisets_by_counts_are_those_listed_one_by_one(kinds, n):
    for found, expected in zip(_long_multisets(kinds, n), multisets(kinds, n)):
        torch.testing.assert_close(found, expected, rtol=1e-14, atol=1e-13)


def test_two_outcomes_are_enumerated_however_many_samples():
    """ρ̂ of c successes among n is 1 − C(n−c, K)/C(n, K), and c is binomial."""
    n, k, chance = 1600, 8, 0.02
    rewards, p = torch.tensor([[0.0, 1.0], [1 - chance, chance]], dtype=torch.float64)
    environment = make_environment(
        {"name": "bandit", "arms": 2, "reward_shift": 0.0}, {"init_std": 0.5, "dtype": "float64"}
    )
    policy = environment.policy(0)
    with torch.no_grad():
        policy.logits.copy_(p.log())
    pool = draw_pool(environment, policy, rewards.unsqueeze(0), 1, 8, objectives=[k], seed=3)
    cells = [cell("maxk", "centred", n, k), cell("maxk", "centred", 100_000, k)]
    (_, found), (_, too_many) = measure_cells(pool, cells, seed=0)
    successes = np.arange(n + 1)
    failed = [math.comb(n - int(c), k) / math.comb(n, k) for c in successes]
    density = stats.binom.pmf(successes, n, chance)
    mean = density @ failed
    assert found["value_variance"] == pytest.approx(
        density @ (np.array(failed) - mean) ** 2, rel=1e-9
    )
    assert mean == pytest.approx((1 - chance) ** k)
    assert found["dead_gradient_rate"] == pytest.approx((1 - chance) ** n + chance**n, rel=1e-9)
    assert bias_verdicts({0: Units.from_metrics(found)})[0].verdict == "unbiased"
    assert "at least 2 are needed" in str(too_many)
