"""Samples of a training, measured: by scores, Gram matrices or a graph, against exact variances."""

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from maxk_lab import measure
from maxk_lab.cli import app
from maxk_lab.errors import LabError
from maxk_lab.estimators.check.bandit import TinyBandit
from maxk_lab.estimators.method import Method
from maxk_lab.own.audit import Audit

BANDIT = TinyBandit((0.3, -0.8, 0.5, 0.1), (-6.25, -5.0, -4.1, -5.5))


def samples(prompts=4, count=512, seed=0):
    """Rewards [P, M] and scores [P, M, A] of the same bandit for every prompt."""
    generator = torch.Generator().manual_seed(seed)
    chance = torch.softmax(torch.tensor(BANDIT.logits, dtype=torch.float64), 0)
    arms = torch.multinomial(chance, prompts * count, replacement=True, generator=generator)
    rewards = torch.tensor(BANDIT.rewards, dtype=torch.float64)[arms]
    return rewards.view(prompts, count), BANDIT.scores(1)[0][arms].view(prompts, count, -1)


def variances(report):
    """The variance by baseline."""
    rows = report._report.studies["gradient"].rows
    return {row.key.baseline: row.intervals["variance"].value for row in rows}


@pytest.mark.slow
def test_variances_are_those_of_all_groups():
    rewards, scores = samples(count=2048)
    found = variances(measure(rewards, scores=scores, n=4, k=2))
    for baseline, variance in found.items():
        exact = BANDIT.trace_variance(4, Method.parse("maxk", baseline, 2))
        assert variance == pytest.approx(exact, rel=0.1)
    assert list(found) == ["none", "sample_loo", "pkpo_sloo", "centred", "subloo"]


def test_scores_products_and_graphs_are_one():
    rewards, scores = samples(count=64)
    by_scores = variances(measure(rewards, scores=scores.numpy(), n=8, k=4))
    by_gram = variances(measure(rewards.numpy(), gram=scores @ scores.mT, n=8, k=4))
    assert by_gram == pytest.approx(by_scores)
    logits = nn.Parameter(torch.tensor(BANDIT.logits, dtype=torch.float64))
    arms = scores.argmax(-1)
    log_probs = logits.log_softmax(0)[arms]
    by_graph = variances(measure(rewards, log_probs=log_probs, parameters=[logits], n=8, k=4))
    assert by_graph == pytest.approx(by_scores)


def test_a_report_says_which_baseline_to_use():
    rewards, scores = samples()
    report = measure(rewards, scores=scores, n=16, k=8)
    assert "Use " in report.text
    assert "sample_loo" in report.text
    assert report.chart("variance").to_dict()["datasets"]
    with pytest.raises(LabError, match="no chart 'varience'; this run has variance"):
        report.chart("varience")


def test_rewards_alone_are_audited():
    rewards, _ = samples()
    found = measure(rewards, k=[1, 4])
    assert isinstance(found, Audit)
    assert found.groups == len(rewards)
    assert set(found.rows.k) == {1, 4}


def said(*words):
    return CliRunner().invoke(app, ["measure", *map(str, words)])


def test_a_file_of_arrays_on_the_command_line(tmp_path):
    rewards, scores = samples()
    np.savez(tmp_path / "samples.npz", rewards=rewards, scores=scores, prompts=np.array([{}]))
    torch.save({"rewards": rewards, "gram": (scores @ scores.mT).half()}, tmp_path / "samples.pt")
    out = tmp_path / "report"
    shown = said(tmp_path / "samples.npz", "-n", 8, "-k", 2, "--out", out)
    assert shown.exit_code == 0
    assert "4 prompts with 512 samples each" in shown.output
    assert (out / "report.html").is_file()
    assert "4 prompts with 512" in said(tmp_path / "samples.pt", "-n", 8, "-k", 2).output


def test_rewards_alone_in_any_file_are_audited(tmp_path):
    rewards, _ = samples()
    np.savez(tmp_path / "a.npz", rewards=rewards)
    np.save(tmp_path / "a.npy", rewards)
    torch.save(rewards, tmp_path / "a.pt")
    outputs = {said(tmp_path / f"a.{suffix}").output for suffix in ("npz", "npy", "pt")}
    assert "Take: K = " in outputs.pop()
    assert not outputs


class Anything:
    """What only pickle can load."""


@pytest.mark.parametrize("suffix", ["npz", "npy", "pt", "yaml"])
def test_a_file_that_is_no_array_is_refused_without_advice_to_run_its_code(suffix, tmp_path):
    path = tmp_path / f"a.{suffix}"
    if suffix == "npz":
        np.savez(path, rewards=np.array([Anything()]))
    elif suffix == "npy":
        np.save(path, np.array([Anything()]))
    elif suffix == "pt":
        torch.save({"rewards": Anything()}, path)
    else:
        path.write_text("name: a")
    output = " ".join(said(path).output.split())
    assert "holds no arrays of numbers: write an .npz file with numpy.savez" in output
    assert "pickle" not in output
    assert "weights_only" not in output


def test_a_file_without_rewards_or_none_at_all_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", reward=np.ones((2, 8)))
    output = " ".join(said(tmp_path / "a.npz").output.split())
    assert "no array `rewards` [prompts, samples] (did you mean reward?); it has reward" in output
    assert "absent.npz is no file" in said(tmp_path / "absent.npz").output


def changed(position, value):
    rewards, scores = samples(count=16)
    gram = scores @ scores.mT
    gram[(1, *position)] = value
    return rewards, gram


@pytest.mark.parametrize(
    ("position", "value", "problem"),
    [
        ((2, 3), 9.0, "is not symmetric"),
        ((2, 2), -1e-9, "has a negative squared norm on its diagonal"),
        ((2, 2), 0.0, "is not positive semidefinite"),
    ],
)
def test_a_gram_matrix_of_no_gradients_is_refused(position, value, problem):
    rewards, gram = changed(position, value)
    with pytest.raises(LabError, match=f"gram {problem} at prompt 1"):
        measure(rewards, gram=gram)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 300}, "n must be from 1 to half of the 512 samples"),
        ({"scores": torch.zeros(4, 100, 3)}, r"scores must have the shape \[4, 512, 3\], got"),
        (
            {"gram": torch.zeros(4, 512, 3), "scores": None},
            r"gram must have the shape \[4, 512, 512\], got",
        ),
        ({"rewards": torch.zeros(3)}, "rewards must have 2 dimensions"),
        ({"rewards": torch.full((4, 512), torch.nan)}, "rewards must be finite"),
        ({"rewards": "many"}, "rewards must be numbers"),
        ({"rewards": torch.zeros(0, 4)}, r"rewards must have 2 dimensions, got \[0, 4\]"),
        ({"rewards": torch.full((4, 512), 1e30)}, r"rewards must be finite, at most 1e\+15"),
        ({"rewards": torch.zeros(4, 512).to_sparse()}, "rewards must be numbers"),
        ({"log_probs": torch.zeros(4, 512), "scores": None}, "need the parameters"),
        ({"log_probs": torch.zeros(4, 512)}, "pass one of scores, gram and log_probs"),
        ({"rewards": torch.zeros(4, 512) * 1j}, "rewards must be numbers"),
        ({"baselines": ["eob"], "k": 4}, "no estimator can run"),
    ],
)
def test_refusals(changes, message):
    rewards, scores = samples()
    with pytest.raises(LabError, match=message):
        measure(**{"rewards": rewards, "scores": scores} | changes)
