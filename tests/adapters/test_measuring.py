"""What is measured while a trainer trains, and what is refused before it does."""

import math

import pytest
import torch
from torch import nn

from maxk_lab.adapters.measuring import Measuring
from maxk_lab.errors import LabError, LabWarning
from maxk_lab.estimators.check.bandit import TinyBandit
from maxk_lab.estimators.method import Method

BANDIT = TinyBandit((0.3, -0.8, 0.5, 0.1), (0.0, 1.0, 2.0, 4.0))
MODEL = nn.Linear(2, 2)


def measured(rewards, scores=None, **options):
    """The log of rewards [prompts, 8], at K = 2."""
    measuring = Measuring(**options)
    measuring.begin(rewards.shape[1], 2)
    return measuring.metrics(rewards, begun=0.0, scores=scores)


@pytest.mark.slow
def test_variances_are_relative_to_the_lowest_of_the_unbiased():
    chance = torch.softmax(torch.tensor(BANDIT.logits, dtype=torch.float64), 0)
    generator = torch.Generator().manual_seed(0)
    arms = torch.multinomial(chance, 512 * 8, replacement=True, generator=generator).view(512, 8)
    rewards = torch.tensor(BANDIT.rewards, dtype=torch.float64)[arms]
    baselines = ["none", "group_mean", "centred", "subloo"]
    found = measured(rewards, BANDIT.scores(1)[0][arms], parameters="w", baselines=baselines)
    exact = {
        name: BANDIT.trace_variance(4, Method.parse("maxk", name, 2))
        for name in ("none", "centred", "subloo")
    }
    for name, variance in exact.items():
        ratio = variance / min(exact.values())
        assert found[f"maxk/variance_over_lowest/{name}@2"] == pytest.approx(ratio, rel=0.15)
    # Shorter than the gradient, and so of less variance for nothing.
    assert "maxk/variance_over_lowest/group_mean@2" not in found
    signal = BANDIT.gradient(2).square().sum() / exact["centred"]
    assert found["maxk/snr/centred@2"] == pytest.approx(float(signal), rel=0.3)
    assert found["maxk/relative_variance/centred@2"] == pytest.approx(
        1 / found["maxk/snr/centred@2"]
    )
    assert {name[-2:] for name in found if "@" in name} == {"@1", "@2"}


@pytest.mark.slow
def test_where_the_gradient_cannot_be_told_from_0_there_is_no_signal_to_log():
    generator = torch.Generator().manual_seed(0)
    rewards = torch.rand(16, 8, generator=generator)
    scores = torch.randn(16, 8, 32, generator=generator)  # of which the rewards know nothing
    found = measured(rewards, scores, parameters="w", baselines=["centred", "subloo"])
    assert not [name for name in found if "snr" in name or "relative" in name]
    assert found["maxk/variance_over_lowest/subloo@2"] > 1


def test_rewards_alone_give_the_groups_without_signal():
    rewards = torch.tensor([[1.0, 0, 0, 0], [1, 1, 1, 1], [math.nan, 0, 1, 1]])
    assert measured(rewards, k=2)["maxk/no_signal/centred@2"] == 0.5
    assert measured(rewards[2:], k=2) == {}


def begun(size, trained_k, **options):
    return lambda: Measuring(parameters="w", **options).begin(size, trained_k)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Measuring(every=0), "every must be a whole number of at least 1, got 0"),
        (lambda: Measuring(every=2.5), "got 2.5"),
        (lambda: Measuring(dimension=0), "dimension must be"),
        (lambda: Measuring(prompts=0), "prompts must be"),
        (lambda: Measuring(n=0), "n must be"),
        (lambda: Measuring(k=[4, 0]), "k must be"),
        (lambda: Measuring(k=[1, 2.5]), "k must be a whole number of at least 1, got 2.5"),
        (lambda: Measuring(k=9).begin(8, 2), "groups of n = 8 are too small to measure K = 9$"),
        (lambda: Measuring().begin(1, 1), "groups of n = 1 are too small"),
        (lambda: Measuring(baselines=["sublo"]), "did you mean subloo"),
        (lambda: Measuring(parameters="("), "not a regular expression"),
        (begun(8, 2, n=5), "two groups of n = 5 must fit"),
        (begun(4, 2, k=8), "no pair can be measured in groups of n = 2"),
    ],
)
def test_what_makes_no_sense_or_no_trainer_can_give_is_refused(call, words):
    with pytest.raises(LabError, match=words):
        call()


def test_a_pair_that_needs_larger_groups_is_warned_of():
    with pytest.warns(LabWarning, match="measure sample_loo at K = 4, .*larger groups"):
        begun(8, 4)()


def test_steps_are_those_of_the_trainer_and_each_trainer_begins_anew():
    measuring = Measuring(every=4, parameters="weight")
    measuring.begin(8, 2)
    assert [step for step in range(10) if measuring.due(step)] == [0, 4, 8]
    assert not measuring.due(9)
    assert measuring.due(0)  # trained once more
    first = measuring.sketch(MODEL)
    assert measuring.sketch(MODEL) is first
    measuring.begin(8, 2)
    assert measuring.due(6)  # gone on from a checkpoint
    assert not measuring.due(7)
    assert measuring.due(8)
    assert measuring.sketch(MODEL) is not first
