"""Complete enumeration over multisets of classes against the sum over all A^n tuples, and the verdicts it proves."""

import itertools

import numpy as np
import pytest
import torch

from maxk_lab.environments.protocol import make_environment
from maxk_lab.estimators import advantages
from maxk_lab.estimators.catalogue import needed_weight
from maxk_lab.gradients.bias import bias_verdicts
from maxk_lab.gradients.complete import Outcomes, complete_moments
from maxk_lab.gradients.draw import draw_pool
from maxk_lab.gradients.measures import measure_cells
from maxk_lab.gradients.statistics import MEASURES, interval
from maxk_lab.gradients.units import Units

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
        ks=ks,
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
@pytest.mark.parametrize("rewards", [[0.3, -1.0, 2.0, 0.5], [1.0, 0.0, 0.0, 1.0], [2.0, 2.0, 2.0, 2.0]])
@pytest.mark.parametrize(("estimator", "baseline", "k"), PAIRS)
def test_moments_equal_the_sum_over_all_tuples(estimator, baseline, k, rewards, n):
    p, rewards, g, gram, scores = outcomes_and_scores(rewards, [1.0, 3.0, 3.0, 1.0], seed=n)
    kind = needed_weight(estimator, baseline)

    def weigh(rewards, g):
        weights = {} if kind is None else {kind: g}
        return advantages(rewards, estimator=estimator, baseline=baseline, k=k, trajectory_weights=weights)

    tuples = torch.tensor(list(itertools.product(range(4), repeat=n)))
    chance = p[tuples].prod(1)
    weights = weigh(rewards[tuples], None if kind is None else g[kind][tuples])
    estimates = torch.einsum("sn,snp->sp", weights, scores[tuples])
    outcomes = Outcomes.of(p, rewards, None if kind is None else g[kind], gram)
    moments = complete_moments(outcomes, n, weigh)
    assert moments.second == pytest.approx((chance @ estimates.square().sum(1)).item(), rel=1e-11, abs=1e-14)
    torch.testing.assert_close(moments.coefficients @ scores, chance @ estimates, rtol=1e-10, atol=1e-13)


def test_trajectories_that_no_weight_tells_apart_share_a_class():
    p, rewards, g, gram, _ = outcomes_and_scores([1.0, 0.0, 0.0, 1.0], [1.0, 3.0, 2.0, 1.0], seed=0)
    assert Outcomes.of(p, rewards, None, gram).multisets(8) == 9
    assert Outcomes.of(p, rewards, g["length"], gram).multisets(2) == 6


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


def test_sampled_measures_estimate_the_enumerated_ones():
    keys = [("maxk", "centred", 4, 2), ("reinforce", "eob_loo", 4, 1), ("maxk", "optimal[logit_proxy]", 4, 2)]
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
    for name in MEASURES:
        assert interval(units, name).value == pytest.approx(found[name], rel=1e-12, abs=1e-25)
    assert found["scale"] == pytest.approx(1.0, abs=1e-12)
    assert bias_verdicts({0: units})[0].verdict == "unbiased"


def test_too_many_groups_fall_back_to_sampling():
    found = measured(bandit(arms=20), [cell("maxk", "centred", 8, 2), cell("maxk", "centred", 2, 1)])
    assert found["maxk/centred/8/2"]["against"] == "exact"
    assert found["maxk/centred/2/1"]["against"] == "complete"


def test_a_pool_too_small_for_groups_is_no_obstacle_to_enumeration():
    found = measured(bandit(), [cell("maxk", "centred", 8, 2)], size=1)
    assert found["maxk/centred/8/2"]["against"] == "complete"


@pytest.mark.parametrize(
    "key", [("maxk", "subloo", 3, 2), ("maxk", "optimal[grad_norm]", 3, 2), ("grpo", "none", 3, 1)]
)
def test_a_policy_of_tokens_is_judged_as_a_table_is(key):
    row_settings = {"name": "toy_llm", "task": "edit", "vocab_size": 3, "max_length": 2, "prompt_length": 2}
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
