"""The check of advantage functions: mistakes of public code are named, right functions pass."""

import sys
from pathlib import Path

import pytest
import torch

from maxk_lab import advantages
from maxk_lab.errors import LabError
from maxk_lab.own.check import check

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import wrong_advantages as wrong

# Words of the verdict, of the example and of the change.
MISTAKES = [
    (wrong.too_large_a_baseline, "maxk sample_loo: unbiased", "R = [1, 1, 1, 1, 1]", "K/n times"),
    (wrong.in_group_mean, "centred times 1 - K/n: right in direction", "w = [0, 0,", "n/(n - K)"),
    (wrong.gap_for_all, "biased for the gradient of J_4: cosine -1", "w = [1, 1,", "of its own"),
    (wrong.scale_biased_pkpo, "centred times n - K: right in direction", "[1, 0, 0, 0]", "n - K"),
    (wrong.listing_on_integers, "whole numbers are treated as", "w = [0, 0, 0, 0, 0]", "floats"),
    (wrong.beyond_rank_k, "biased for the gradient of J_4", "R = [0, 0, 0, 1, 1]", "subloo"),
    (wrong.binomials_as_floats, "large groups have finite", "n = 1,200", "binomials overflow"),
    (wrong.divided_by_the_deviation, "grpo[0.0001] times n: biased", "0, 1]", "do not divide"),
    (wrong.z_scored_gaps, "biased for the gradient of J_4", "R = [0, 0, 0, 0, 1]", "do not divide"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("function", "verdict", "example", "change"), MISTAKES)
def test_mistakes_of_public_code_are_named(function, verdict, example, change):
    found = check(function)
    assert verdict in found.verdict
    assert example in found.example
    assert change in found.change
    assert found.ok is (function is wrong.too_large_a_baseline)


def weighted(baseline, factor=1.0):
    def function(rewards, k):
        return factor * len(rewards) * advantages(rewards, k=k, baseline=baseline)

    return function


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("baseline", ["none", "centred", "sample_loo"])
def test_rows_of_the_catalogue_are_found_and_unbiased(baseline, k):
    found = check(weighted(baseline), k=k)
    name = "maxk" if baseline == "none" else f"maxk {baseline}"
    if k > 1:
        assert (found.equals, found.factor) == (name, "n")
    assert found.unbiased
    assert found.ok
    assert all(bias.is_exact and bias.factors[0] == pytest.approx(bias.n) for bias in found.bias)


@pytest.mark.slow
def test_what_is_proven_by_enumeration_is_a_bias_of_one_in_a_hundred():
    """A function that leaves out one in a hundred of one weight."""

    def slightly(rewards, k):
        weights = advantages(rewards, k=k, baseline="subloo")
        return torch.where(weights == weights.max(), 0.99 * weights, weights)

    found = check(slightly)
    assert not found.unbiased
    assert "`subloo` has" in found.example


def test_a_function_for_another_objective_is_told_which():
    found = check(lambda rewards: rewards - rewards.mean(), name="dr_grpo")
    assert "it is for J_1, the mean, not for J_4" in found.verdict
    assert found.equals == "reinforce centred"
    assert found.factor == "n - 1"


def test_a_function_for_the_best_of_all_n_is_told_so():
    def gap_to_the_best(rewards):
        (best, second), places = rewards.topk(2)
        return torch.zeros_like(rewards).scatter(0, places[:1], (best - second).unsqueeze(0))

    found = check(gap_to_the_best, k=3)
    assert "best of all n samples, not of 3" in found.verdict
    assert not found.ok


@pytest.mark.parametrize(
    ("function", "verdict"),
    [
        (lambda rewards: rewards.nothing, "does not run: it raises AttributeError"),
        (lambda rewards: rewards[:2], "does not run: it returns shape [2]"),
        (lambda rewards: rewards * float("nan"), "undefined: its weights are not finite"),
        (lambda rewards: rewards * 0, "nothing: the mean of its estimate is 0"),
    ],
)
def test_what_cannot_be_weights(function, verdict):
    found = check(function, k=2)
    assert verdict in found.verdict
    assert not found.ok


def test_signatures_of_trainers():
    def flat(rewards, num_generations):
        groups = rewards.view(-1, num_generations)
        return (groups - groups.mean(1, keepdim=True)).flatten()

    def verl(token_level_rewards, response_mask, index, config=None, **kwargs):
        scores = (token_level_rewards * response_mask).sum(-1)
        assert len(set(index)) == 1
        token = weighted("centred")(scores, config["maxk_k"]).unsqueeze(1) * response_mask
        return token, token

    assert check(flat, k=1, signature="flat").equals == "maxk centred"
    found = check(verl, k=3, signature="verl")
    assert (found.equals, found.factor) == ("maxk centred", "n")


def test_binary_functions_are_tried_with_zeros_and_ones_alone():
    def passes(rewards, k):
        assert set(rewards.tolist()) <= {0.0, 1.0}
        return weighted("subloo")(rewards, k)

    found = check(passes, k=2, binary=True)
    assert found.ok
    assert "does not" not in found.verdict


def test_weights_that_take_nan_for_a_number_are_told():
    def as_zero(rewards, k):
        return weighted("subloo")(torch.nan_to_num(rewards), k)

    laws = {law.name: law for law in check(as_zero, k=2).laws}
    assert not laws["a reward of NaN is no number"].holds


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k must be at least 1"),
        ({"k": 9}, "at most 8"),
        ({"signature": "trlx"}, "must be one of rewards, flat, verl"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(LabError, match=message):
        check(weighted("subloo"), **options)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"k": 8}, {"k": 4, "binary": True}, {"k": 1, "binary": True}])
def test_few_groups_or_zeros_and_ones_are_enough_to_tell_what_is_unbiased(options):
    """Where few groups can be listed, and where every direction is right."""
    for function, right in ((weighted("centred"), True), (wrong.divided_by_the_deviation, False)):
        found = check(function, **options)
        assert (found.unbiased, found.ok) == (right, right)
