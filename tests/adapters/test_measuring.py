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


def measured(prompts=512, size=8, begin=2, **options):
    """The log of samples of a bandit."""
    chance = torch.softmax(torch.tensor(BANDIT.logits, dtype=torch.float64), 0)
    generator = torch.Generator().manual_seed(0)
    arms = torch.multinomial(chance, prompts * size, replacement=True, generator=generator)
    rewards = torch.tensor(BANDIT.rewards, dtype=torch.float64)[arms].view(prompts, size)
    scores = BANDIT.scores(1)[0][arms].view(prompts, size, -1)
    measuring = Measuring(parameters="weight", **options)
    measuring.begin(size, begin)
    return measuring.metrics(rewards, begun=0.0, scores=scores)


@pytest.mark.slow
def test_variances_are_relative_to_the_lowest_of_the_unbiased():
    found = measured(baselines=["none", "group_mean", "centred", "subloo"])
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
    measuring = Measuring(parameters="w", baselines=["centred", "subloo"])
    measuring.begin(8, 2)
    found = measuring.metrics(rewards, begun=0.0, scores=scores)
    assert not [name for name in found if "snr" in name or "relative" in name]
    assert found["maxk/variance_over_lowest/subloo@2"] > 1


def test_rewards_alone_give_the_groups_without_signal():
    measuring = Measuring(k=2)
    measuring.begin(4, 2)
    rewards = torch.tensor([[1.0, 0, 0, 0], [1, 1, 1, 1], [math.nan, 0, 1, 1]])
    found = measuring.metrics(rewards, begun=0.0)
    assert found["maxk/no_signal/centred@2"] == 0.5
    assert measuring.metrics(rewards[2:], begun=0.0) == {}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"every": 0}, "every must be a whole number of at least 1, got 0"),
        ({"every": 2.5}, "got 2.5"),
        ({"dimension": 0}, "dimension must be"),
        ({"prompts": 0}, "prompts must be"),
        ({"n": 0}, "n must be"),
        ({"k": [4, 0]}, "k must be"),
        ({"baselines": ["sublo"]}, "did you mean subloo"),
        ({"parameters": "("}, "not a regular expression"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_made(options, words):
    with pytest.raises(LabError, match=words):
        Measuring(**options)


def test_what_a_trainer_cannot_give_is_said_when_it_begins():
    with pytest.raises(LabError, match="two groups of n = 5 must fit"):
        Measuring(parameters="w", n=5).begin(8, 2)
    with pytest.raises(LabError, match="no pair can be measured in groups of n = 2"):
        Measuring(parameters="w", k=8).begin(4, 2)
    with pytest.warns(LabWarning, match="measure sample_loo at K = 4, .*larger groups"):
        Measuring(parameters="w").begin(8, 4)


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
