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


def samples(count=64):
    """Rewards [4, M] and scores [4, M, A] of the same bandit for every prompt."""
    generator = torch.Generator().manual_seed(0)
    chance = torch.softmax(torch.tensor(BANDIT.logits, dtype=torch.float64), 0)
    arms = torch.multinomial(chance, 4 * count, replacement=True, generator=generator)
    rewards = torch.tensor(BANDIT.rewards, dtype=torch.float64)[arms]
    return rewards.view(4, count), BANDIT.scores(1)[0][arms].view(4, count, -1)


def variances(report):
    """The variance by baseline."""
    rows = report._report.studies["gradient"].rows
    return {row.key.baseline: row.intervals["variance"].value for row in rows}


@pytest.mark.slow
def test_variances_are_those_of_all_groups():
    rewards, scores = samples(count=1024)
    by_baseline = variances(measure(rewards, scores=scores, n=4, k=2))
    for baseline, variance in by_baseline.items():
        exact = BANDIT.trace_variance(4, Method.parse("maxk", baseline, 2))
        assert variance == pytest.approx(exact, rel=0.1)
    assert list(by_baseline) == ["none", "sample_loo", "pkpo_sloo", "centred", "subloo"]


def test_scores_products_and_graphs_are_one():
    rewards, scores = samples()
    report = measure(rewards, scores=scores.numpy(), n=8, k=4)
    by_gram = variances(measure(rewards.numpy(), gram=scores @ scores.mT, n=8, k=4))
    assert by_gram == pytest.approx(variances(report))
    logits = nn.Parameter(torch.tensor(BANDIT.logits, dtype=torch.float64))
    log_probs = logits.log_softmax(0)[scores.argmax(-1)]
    by_graph = variances(measure(rewards, log_probs=log_probs, parameters=[logits], n=8, k=4))
    assert by_graph == pytest.approx(variances(report))
    assert "Use " in report.text
    assert "sample_loo" in report.text
    assert report.chart("variance").to_dict()["datasets"]
    with pytest.raises(LabError, match="no chart 'varience'; this run has variance"):
        report.chart("varience")


def said(*words):
    return CliRunner().invoke(app, ["measure", *map(str, words)])


def test_a_file_of_arrays_on_the_command_line(tmp_path):
    rewards, scores = samples()
    np.savez(tmp_path / "samples.npz", rewards=rewards, scores=scores, prompts=np.array([{}]))
    torch.save({"rewards": rewards, "gram": (scores @ scores.mT).half()}, tmp_path / "samples.pt")
    out = tmp_path / "report"
    shown = said(tmp_path / "samples.npz", "-n", 8, "-k", 2, "--out", out)
    assert shown.exit_code == 0
    assert "4 prompts with 64 samples each" in shown.output
    assert (out / "report.html").is_file()
    assert "4 prompts with 64" in said(tmp_path / "samples.pt", "-n", 8, "-k", 2).output


def test_rewards_alone_are_audited(tmp_path):
    rewards, _ = samples(count=16)
    log = measure(rewards, k=[1, 4])
    assert isinstance(log, Audit)
    assert log.groups == len(rewards)
    assert set(log.rows.k) == {1, 4}
    np.savez(tmp_path / "a.npz", rewards=rewards)
    np.save(tmp_path / "a.npy", rewards)
    torch.save(rewards, tmp_path / "a.pt")
    outputs = {said(tmp_path / f"a.{suffix}").output for suffix in ("npz", "npy", "pt")}
    assert "Take: K = " in outputs.pop()
    assert not outputs
    refused = said(tmp_path / "a.npy", "--out", tmp_path / "report")
    assert refused.exit_code == 2
    assert "--out and --format need scores or gram" in refused.output


class Anything:
    """What only pickle can load."""


def test_a_file_without_rewards_is_refused_without_advice_to_run_its_code(tmp_path):
    np.savez(tmp_path / "a.npz", rewards=np.array([Anything()]))
    np.save(tmp_path / "a.npy", np.array([Anything()]))
    torch.save({"rewards": Anything()}, tmp_path / "a.pt")
    (tmp_path / "a.yaml").write_text("name: a")
    np.savez(tmp_path / "b.npz", reward=np.ones((2, 8)))
    no_array = "holds no arrays of numbers: write an .npz file with numpy.savez"
    named = "no array `rewards` [prompts, samples] (did you mean reward?); it has reward"
    for name, message in {
        **dict.fromkeys(("a.npz", "a.npy", "a.pt", "a.yaml"), no_array),
        "b.npz": named,
        "absent.npz": "absent.npz is no file",
    }.items():
        output = " ".join(said(tmp_path / name).output.split())
        assert message in output
        assert "pickle" not in output
        assert "weights_only" not in output


def changed(position, value):
    """A Gram matrix with another number at prompt 1."""
    _, scores = samples()
    gram = scores @ scores.mT
    gram[(1, *position)] = value
    return {"gram": gram, "scores": None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (changed((2, 3), 9.0), "gram is not symmetric at prompt 1"),
        (changed((2, 2), -1e-9), "gram has a negative squared norm on its diagonal at prompt 1"),
        (changed((2, 2), 0.0), "gram is not positive semidefinite at prompt 1"),
        ({"n": 33}, "n must be from 1 to half of the 64 samples"),
        ({"scores": torch.zeros(4, 9, 3)}, r"scores must have the shape \[4, 64, 3\], got"),
        (
            {"gram": torch.zeros(4, 64, 3), "scores": None},
            r"must have the shape \[4, 64, 64\], got",
        ),
        ({"rewards": torch.zeros(3)}, "rewards must have 2 dimensions"),
        ({"rewards": torch.full((4, 64), torch.nan)}, "rewards must be finite"),
        ({"rewards": "many"}, "rewards must be numbers"),
        ({"rewards": torch.zeros(0, 4)}, r"rewards must have 2 dimensions, got \[0, 4\]"),
        ({"rewards": torch.full((4, 64), 1e30)}, r"rewards must be finite, at most 1e\+15"),
        ({"rewards": torch.zeros(4, 64).to_sparse()}, "rewards must be numbers"),
        ({"rewards": torch.zeros(4, 64) * 1j}, "rewards must be numbers"),
        ({"log_probs": torch.zeros(4, 64), "scores": None}, "need the parameters"),
        ({"log_probs": torch.zeros(4, 64)}, "pass one of scores, gram and log_probs"),
        ({"baselines": ["eob"], "k": 4}, "no estimator can run"),
    ],
)
def test_refusals(changes, message):
    rewards, scores = samples()
    with pytest.raises(LabError, match=message):
        measure(**{"rewards": rewards, "scores": scores} | changes)
