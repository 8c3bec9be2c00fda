"""Flat batches: any order, any sizes, missing rewards, every pair that needs only rewards."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maxk_lab import advantages
from maxk_lab.adapters import Weighting, grouped_advantages, grouped_curve
from maxk_lab.errors import LabError, LabWarning
from maxk_lab.estimators import maxk_reward_estimate
from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS
from maxk_lab.estimators.method import Method

PAIRS = [
    (estimator.name, baseline.name)
    for estimator in ESTIMATORS
    for baseline in BASELINES
    for method in [Method.parse(estimator.name, baseline.name, 2)]
    if method.needs_rewards_alone and method.pair_refusal is None and method.refusal(4) is None
]


@pytest.mark.parametrize(("estimator", "baseline"), PAIRS)
def test_every_pair_is_n_times_its_weights(estimator, baseline):
    rewards = torch.tensor([0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0])
    found = grouped_advantages(
        rewards, [0] * 4 + [1] * 4, estimator=estimator, baseline=baseline, k=2
    )
    exact = 4 * advantages(rewards.view(2, 4), estimator=estimator, baseline=baseline, k=2)
    torch.testing.assert_close(found, exact.flatten())
    assert found.dtype == torch.float32


@given(
    samples=st.lists(
        st.tuples(st.sampled_from("abc"), st.none() | st.floats(-1e3, 1e3)), min_size=1, max_size=24
    ),
    order=st.randoms(use_true_random=False),
)
def test_order_is_free_and_missing_rewards_touch_nobody(samples, order):
    def weighed(pairs):
        names, rewards = zip(*pairs, strict=True)
        return grouped_advantages(list(rewards), names, k=2, small_groups="zero")

    found = weighed(samples)
    for name in "abc":
        at = [i for i, (one, _) in enumerate(samples) if one == name]
        there = [i for i in at if samples[i][1] is not None]
        exact = np.zeros(len(there))
        if len(there) > 2:
            exact = len(there) * advantages([samples[i][1] for i in there], k=2).numpy()
        np.testing.assert_allclose(found[there], exact, rtol=1e-12, atol=1e-9)
        assert not found[[i for i in at if i not in there]].any()
    places = list(range(len(samples)))
    order.shuffle(places)
    np.testing.assert_allclose(weighed([samples[i] for i in places]), found[places], atol=1e-9)


def test_types_follow_the_rewards():
    names = np.array(["x", "y", "x", "y", "x", "y"])
    half = torch.tensor([1.0, 2.0, 3.0, 5.0, 8.0, 13.0], dtype=torch.bfloat16)
    assert grouped_advantages(half, names, k=2).dtype == torch.bfloat16
    assert grouped_advantages(half.float().numpy(), names, k=2).dtype == np.float32
    whole = grouped_advantages([1, 2, 3, 5, 8, 13], names.tolist(), k=2)
    assert whole.dtype == np.float64
    by_numpy = grouped_advantages([1, 2, 3, 5, 8, 13], names.tolist(), k=np.int64(2))
    np.testing.assert_array_equal(by_numpy, whole)
    missing, masked = [1, 2, None, 5, 8, 13], np.ma.masked_equal([1, 2, 99, 5, 8, 13], 99)
    found, exact = (grouped_advantages(each, [0] * 6, k=2) for each in (masked, missing))
    np.testing.assert_array_equal(found, exact)
    by_tensor = grouped_advantages(half, torch.tensor([0, 1] * 3), k=2)
    np.testing.assert_allclose(by_tensor.double(), whole, rtol=1e-2)


def test_a_baseline_that_weighs_by_length_gets_lengths():
    rewards, lengths = torch.rand(2, 6).double(), torch.tensor([[3.0, 1, 4, 1, 5, 9]] * 2).double()
    pair = {"k": 2, "baseline": "optimal[length]"}
    found = grouped_advantages(
        rewards.flatten(), [0] * 6 + [1] * 6, lengths=lengths.flatten(), **pair
    )
    exact = advantages(rewards, **pair, trajectory_weights={"length": lengths})
    torch.testing.assert_close(found.view(2, 6), 6 * exact)


def test_a_curve_of_every_group():
    rewards = [1.0, 5.0, None, 2.0, 4.0, 9.0]
    found = grouped_curve(rewards, ["a", "b", "a", "b", "a", "b"], [1, 2, 3])
    assert found[0].tolist() == pytest.approx([2.5, 4.0, np.nan], nan_ok=True)
    group = torch.tensor([5.0, 2.0, 9.0]).double()
    exact = [float(maxk_reward_estimate(group, k)) for k in (1, 2, 3)]
    assert found[1].tolist() == pytest.approx(exact)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"k": None}, "needs k"),
        ({"k": 4}, "2 of 2 groups have 4 samples with a reward or fewer: centred needs"),
        ({"rewards": [None] * 4 + [1.0] * 4}, "1 of 2 groups have 0 samples with"),
        ({"baseline": "centered"}, "centred"),
        ({"baseline": "optimal[length]"}, "needs the length of every trajectory"),
        ({"baseline": "optimal[grad_norm]"}, "needs the gradient of every trajectory"),
        ({"estimator": "grpo", "baseline": "centred"}, "takes no baseline"),
        ({"groups": [0, 1]}, "8 rewards need as many groups, got 2"),
        ({"groups": None}, "one name per sample"),
        ({"k": 0, "small_groups": "zero"}, "whole number of at least 1, got 0"),
        ({"k": 2.0, "small_groups": "zero"}, "whole number of at least 1, got 2.0"),
        ({"small_groups": "skip"}, "must be raise or zero, got 'skip'"),
        ({"rewards": [[1.0] * 4] * 2}, "flat"),
        ({"rewards": ["x"] * 8}, "must be numbers"),
        ({"rewards": [np.inf] * 8}, "finite"),
    ],
)
def test_what_cannot_be_right_is_refused(options, words):
    options = {"rewards": [1.0, 2.0] * 4, "groups": [0] * 4 + [1] * 4, "k": 2} | options
    with pytest.raises(LabError, match=words.replace("[", r"\[")):
        grouped_advantages(**options)


def test_groups_may_be_named_by_rows_and_there_may_be_none():
    rewards = torch.tensor([1.0, 2.0, 4.0, 3.0, 5.0, 9.0])
    prompts = torch.tensor([[7, 8], [7, 9]] * 3)
    found = grouped_advantages(rewards, prompts, k=2)
    torch.testing.assert_close(found, grouped_advantages(rewards, [0, 1] * 3, k=2))
    torch.testing.assert_close(found, grouped_advantages(rewards, list(prompts[:, 1]), k=2))
    assert grouped_advantages([], [], k=2).shape == (0,)
    assert Weighting.chosen(k=2).metrics([], [], [1]) == {"maxk/too_few_rewards": 0}


def test_the_mean_curve_is_of_the_same_groups_at_every_k():
    rewards = [1.0, 2.0, 4.0, 100.0, None, None]
    found = Weighting.chosen(k=2).metrics(rewards, [0, 0, 0, 1, 1, 1], [1, 2, 4])
    exact = {"max@1": 7 / 3, "max@2": 10 / 3, "maxk/too_few_rewards": 0.5}
    assert found == pytest.approx(exact)


def test_what_changes_nothing_or_trains_nothing_is_warned_of():
    with pytest.warns(LabWarning, match="reinforce has K = 1: k = 8 changes nothing"):
        found = grouped_advantages([1.0, 2.0], [0, 0], estimator="reinforce", k=8)
    assert found.tolist() == [-1, 1]
    with pytest.warns(LabWarning, match="all advantages are 0: maxk needs 1 <= K <= n"):
        found = grouped_advantages([1.0, 2.0], [0, 0], k=8, small_groups="zero")
    assert found.tolist() == [0, 0]


def test_a_level_that_is_gone_is_refused_at_construction():
    with pytest.raises(LabError, match="depends on the level of the rewards, but TRL"):
        Weighting.chosen(k=2, baseline="sample_loo", centred_by="TRL")
    with pytest.raises(LabError, match="centred needs 1 <= K < n"):
        Weighting.chosen(k=8, n=8)
    assert Weighting.chosen(k=8, n=16, centred_by="TRL").method.k == 8
