"""The check of functions: planted faults are found, right functions pass, and it ends in time."""

import itertools
import json
import math
import multiprocessing
import random
import re
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from maxk_lab import advantages
from maxk_lab.cli import app
from maxk_lab.cli.verbs.check import show_verdict
from maxk_lab.errors import LabError
from maxk_lab.own import child, evidence
from maxk_lab.own.check import check
from maxk_lab.own.child import check_path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import wrong_advantages as wrong

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("forked")]
# Words of the verdict, of the example and of the change.
MISTAKES = [
    (wrong.too_large_a_baseline, "maxk sample_loo: unbiased", "R = [1, 1, 1, 1, 1]", "K/n times"),
    (wrong.in_group_mean, "centred times 1 - K/n: right in direction", "w = [0, 0,", "n/(n - K)"),
    (wrong.gap_for_all, "biased for the gradient of J_4: cosine -1", "beside [0, 0, 0]", "of its"),
    (wrong.scale_biased_pkpo, "centred times n - K: right in direction", "[0, 0, 0, 1]", "n - K"),
    (wrong.listing_on_integers, "whole numbers are treated as", "w = [0, 0, 0, 0, 0]", "floats"),
    (wrong.beyond_rank_k, "biased for the gradient of J_4", "beside [0, 0, 0]", "subloo"),
    (wrong.binomials_as_floats, "up to n = 64, and not finite", "of 1200]", "binomials overflow"),
    (wrong.divided_by_the_deviation, "grpo[0.0001] times n: biased", "beside [0", "do not divide"),
    (wrong.z_scored_gaps, "biased for the gradient of J_4", "beside [0, 0, 0", "do not divide"),
]


@pytest.mark.parametrize(("function", "verdict", "example", "change"), MISTAKES)
def test_mistakes_of_public_code_are_named(function, verdict, example, change):
    found = check(function)
    assert verdict in found.verdict
    assert example in found.example
    assert change in found.change
    assert found.ok is (function is wrong.too_large_a_baseline)


def subloo(rewards, k):
    return advantages(rewards, k=k, baseline="subloo")


def divided_by_std(rewards, k):
    weights = subloo(rewards, k)
    return weights / (rewards.std() + 1e-6)


def flipped_at_a_negative_mean(rewards, k):
    return subloo(rewards, k) * (1 if rewards.double().mean() >= 0 else -1)


def baseline_with_own_sample(rewards, k):
    """Subtracts the value of all n samples, K/n too large at K = n."""
    weights = advantages(rewards, k=k, baseline="none")
    return weights - weights.sum() / k


def resampled(rewards, k):
    """Means over subsets that are drawn with replacement."""
    generator, weights = torch.Generator().manual_seed(0), torch.zeros(len(rewards)).double()
    for _ in range(40):
        subset = torch.randint(len(rewards), (k,), generator=generator)
        weights[subset] += rewards[subset].max().double() / 40
    return weights


def deviation_of_others_in_fp32(rewards):
    rewards, n = rewards.float(), len(rewards)
    others = torch.ones(n, n) - torch.eye(n)
    mean = others @ rewards / (n - 1)
    variance = (others @ rewards.square() / (n - 1) - mean.square()).clamp(min=0)
    off, std = rewards - mean, variance.sqrt()
    return torch.where(std > 0, off / (std + 1e-6), off)


def weighted_by_place(rewards, k):
    return subloo(rewards, k) * torch.linspace(0.9, 1.1, len(rewards))


PLANTED = [
    (divided_by_std, 4, "biased", "spread of the group"),
    (flipped_at_a_negative_mean, 4, "biased", ""),
    (baseline_with_own_sample, 4, "nothing: the mean of its estimate is 0", ""),
    (resampled, 2, "biased", ""),
    (deviation_of_others_in_fp32, 1, "rewards equal up to rounding count as equal", "squares"),
    (weighted_by_place, 4, "the order of samples", "rewards alone"),
]


@pytest.mark.parametrize(("function", "k", "verdict", "change"), PLANTED)
def test_planted_faults_are_found(function, k, verdict, change):
    found = check(function, k=k)
    assert not found.ok
    assert verdict in found.verdict
    assert change in found.change
    assert found.example


def weighted(baseline, factor=1.0):
    def function(rewards, k):
        return factor * len(rewards) * advantages(rewards, k=k, baseline=baseline)

    return function


def grouped(rewards, k):
    """Takes [B, n]."""
    return advantages(rewards, k=k, baseline="centred") * rewards.shape[1]


def listed(rewards):
    """Leave-one-out in plain Python, of a list."""
    assert isinstance(rewards, list)
    mean = sum(rewards) / len(rewards)
    return [reward - mean for reward in rewards]


def leave_one_out(rewards):
    n = len(rewards)
    return n / (n - 1) * (rewards - rewards.double().mean())


def flat_loo(rewards, num_generations):
    groups = rewards.view(-1, num_generations).double()
    total = groups.sum(1, keepdim=True)
    return (groups - (total - groups) / (num_generations - 1)).flatten()


def best_gap(rewards, k):
    """Gap to the second of the best, by samples in rank order."""
    order, ranks = rewards.argsort(), torch.arange(len(rewards), dtype=torch.float64)
    chance = torch.ones_like(ranks)
    for j in range(k - 1):
        chance = chance * (ranks - j).clamp(min=0) / (len(rewards) - 1 - j)
    gaps = torch.diff(rewards[order].double()) * chance[1:] * k / len(rewards)
    return torch.zeros_like(ranks).scatter(0, order[1:], gaps.cumsum(0))


async def asynchronous(rewards, k):
    return subloo(rewards, k)


def in_place(rewards, k):
    weights = subloo(rewards, k)
    rewards -= rewards.double().mean().to(rewards.dtype)
    return weights, rewards


def in_float32_by_lgamma(rewards, k):
    """Binomials by logarithms, with rounding errors of 5e-05."""
    n, (ranked, order) = len(rewards), rewards.float().sort()
    rank = torch.arange(n).float()

    def chance(below, size):
        bottom = torch.lgamma(torch.tensor(n + 1.0)) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        top = torch.lgamma(below + 1) - math.lgamma(size + 1) - torch.lgamma(below - size + 1)
        return (top - bottom).exp() * (below >= size)

    above = chance(rank.sub(1).clamp(min=k - 2), k - 2) * (rank > 0) * ranked
    weights = chance(rank.clamp(min=k - 1), k - 1) * (rank >= k - 1) * ranked
    weights += above.sum() - above.cumsum(0)
    return torch.zeros(n).scatter(0, order, weights)


def for_verl(token_level_rewards, response_mask, index, config=None, **kwargs):
    scores = (token_level_rewards * response_mask).sum(-1)
    weights = torch.zeros(len(scores), dtype=torch.float64)
    for group in set(index):
        mask = torch.from_numpy(index == group)
        weights[mask] = advantages(scores[mask], k=config.maxk_k, baseline="subloo")
    return (weights.unsqueeze(-1) * response_mask,) * 2


RIGHT = [
    (weighted("none"), {"k": 8}),
    *((weighted(baseline), {}) for baseline in ("sample_loo", "pkpo_sloo", "subloo", "affine")),
    (weighted("subloo"), {"binary": True}),
    (weighted("centred"), {"k": 1, "binary": True}),
    (lambda rewards, k: subloo(rewards, k).bfloat16(), {"k": 2}),
    (grouped, {"k": 2}),
    (listed, {"k": 1}),
    (lambda rewards, k: list(subloo(rewards, k)), {"k": 2}),
    (leave_one_out, {"k": 1}),
    (flat_loo, {"k": 1, "signature": "flat"}),
    (best_gap, {"k": 3}),
    (asynchronous, {"k": 2}),
    (in_place, {"k": 2}),
    (in_float32_by_lgamma, {"k": 2}),
    (for_verl, {"k": 2, "signature": "verl"}),
]


@pytest.mark.parametrize(("function", "options"), RIGHT)
def test_right_functions_pass(function, options):
    found = check(function, **options)
    assert found.ok, found.verdict
    assert "does not" not in found.verdict
    assert "groups: n = " in found.seen


def test_groups_up_to_twice_a_large_k_are_tried():
    found = check(weighted("subloo"), k=32)
    assert found.ok
    assert "n = 32 to 64 and 1,200" in found.seen
    assert "nothing is left at n = K" in check(wrong.in_group_mean, k=32).verdict


def clipped(rewards, k):
    return subloo(rewards.clamp(-10, 10), k)


def in_cents(rewards, k):
    return (100 * subloo(rewards, k)).round() / 100


def twelve_best(rewards, k):
    if len(rewards) < 13:
        return subloo(rewards, k)
    best = rewards.argsort(descending=True)[:12]
    return torch.zeros(len(rewards)).double().scatter(0, best, subloo(rewards[best].double(), k))


def divided_when_large(rewards, k):
    weights = subloo(rewards, k)
    return weights / rewards.std() if rewards.double().std() > 5 else weights


def drawn_subsets(rewards, k):
    n = len(rewards)
    if math.comb(n, k) <= 500:
        return advantages(rewards, k=k, baseline="none")
    weights = torch.zeros(n, dtype=torch.float64)
    for _ in range(20):
        subset = random.sample(range(n), k)
        weights[subset] += rewards[subset].max() / 20
    return weights


def sometimes_nothing(rewards, k):
    return subloo(rewards, k) * (random.random() < 0.5)


def nothing_for_many(rewards, k):
    return subloo(rewards, k) * (len(rewards) < 1000)


def int64_binomials(rewards, k):
    n, order = len(rewards), rewards.argsort()
    factorials = np.concatenate([[1], np.cumprod(np.arange(1, n + 1))])

    def share(a, b):
        below = factorials[b] * factorials[a - b] if 0 <= b <= a else 1
        return factorials[a] // below * k / n / math.comb(n - 1, k - 1) if 0 <= b <= a else 0.0

    weights = [share(i, k - 1) for i in range(n)]
    return torch.zeros(n).double().scatter(0, order, torch.tensor(weights) * rewards[order])


def rloo_in_bfloat16(rewards):
    rewards = rewards.bfloat16()
    return rewards - rewards.mean()


@pytest.mark.parametrize(
    ("function", "k", "verdict"),
    [
        (clipped, 4, "biased for large rewards, unbiased for J_4 on all others"),
        (in_cents, 4, "biased for J_4"),
        (sometimes_nothing, 2, "random at n = 2: two calls with the same rewards differ"),
        (nothing_for_many, 2, "unbiased for J_2 at n = 2, and 0 times it at n = 1,200"),
        (twelve_best, 4, "unbiased for J_4 up to n = 12, and biased from n = 13"),
        (divided_when_large, 4, "biased for large rewards, unbiased for J_4 on all others"),
        (drawn_subsets, 2, "random at n = 33: two calls with the same rewards differ"),
        (int64_binomials, 8, "biased for the gradient of J_8"),
        (wrong.in_group_mean, 8, "short by 1 - K/n: nothing is left at n = K"),
        (lambda rewards, k: -subloo(rewards, k), 2, "reversed: -1 times the gradient of J_2"),
        (lambda rewards: rewards * 0, 2, "nothing: the mean of its estimate is 0"),
        (lambda rewards: rewards * math.nan, 2, "undefined: its weights are not finite"),
        (lambda rewards: rewards - rewards.mean(), 4, "the gradient of J_1 (the mean), not of J_4"),
        (rloo_in_bfloat16, 4, "the gradient of J_1 (the mean), not of J_4"),
        (lambda rewards, eps: rewards / eps, 2, "does not run: it needs eps, which"),
        (lambda rewards: rewards.nothing, 2, "does not run: it raises AttributeError"),
        (lambda rewards: rewards[:2], 2, "does not run: it returns shape [2]"),
    ],
)
def test_verdicts(function, k, verdict):
    found = check(function, k=k)
    assert verdict in found.verdict
    assert not found.ok


def test_a_bias_of_one_in_a_hundred_is_found():
    def slightly(rewards, k):
        weights = subloo(rewards, k)
        return torch.where(weights == weights.max(), 0.99 * weights, weights)

    found = check(slightly)
    assert not found.unbiased
    assert len(found.example.splitlines()) == 2


def test_the_best_of_all_n():
    def gap(rewards):
        (best, second), places = rewards.topk(2)
        return torch.zeros_like(rewards).scatter(0, places[:1], (best - second).unsqueeze(0))

    found = check(gap, k=3)
    assert "the gradient of J_n (the best of all n samples), not of J_3" in found.verdict
    assert found.objective == "J_n"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rounding_of_the_returned_type_is_no_bias(dtype):
    found = check(lambda rewards, k: subloo(rewards.to(dtype), k).to(dtype), k=2)
    assert found.ok
    assert f"{str(dtype).removeprefix('torch.')}, up to rounding" in found.seen


@pytest.mark.parametrize(
    ("function", "change"),
    [
        (clipped, "do not clip or rescale"),
        (divided_when_large, "do not clip or rescale"),
        (lambda rewards, k: subloo((1e6 * rewards.double()).round(), k), "do not round"),
        (lambda rewards, k: subloo(rewards.abs(), k), "is unbiased"),
    ],
)
def test_advice_fits_the_cause(function, change):
    advice = check(function).change
    assert change in advice
    assert "divide by" not in advice


def test_a_function_that_divides_by_the_mean_gets_advice_about_the_mean():
    def maxrl(rewards):
        return (rewards - rewards.double().mean()) / (rewards.double().mean() + 1e-6)

    found = check(maxrl, k=1)
    assert "on rewards of 0 and 1 it equals maxrl times n" in found.verdict
    assert "do not divide by the mean of the group" in found.change
    laws = {law.name: law for law in found.laws}
    assert "whole numbers are treated as floats" in laws


def test_a_failure_at_equal_rewards_only_is_shown_with_its_group():
    def fails(rewards, k):
        if bool((rewards == rewards[0]).all()):
            raise ZeroDivisionError("no spread")
        return subloo(rewards, k)

    found = check(fails, k=2)
    assert found.unbiased
    assert not found.ok
    assert "groups of equal rewards have finite weights" in found.verdict
    assert "R = [1, 1, 1]: it raises ZeroDivisionError: no spread (test_check.py:" in found.example


def test_whole_numbers_may_differ_by_rounding():
    found = check(lambda rewards: rewards.float() - rewards.float().mean(), k=1)
    laws = {law.name: law for law in found.laws}
    assert laws["whole numbers are treated as floats"].holds


def test_a_gap_beside_raw_scores_is_biased():
    def gap_for_the_best(token_level_rewards, response_mask, index, eps=1e-6, **kwargs):
        scores = token_level_rewards.sum(-1).clone()
        for group in set(index):
            places = torch.from_numpy(np.flatnonzero(index == group))
            (best, second), order = scores[places].topk(2)
            scores[places[order[0]]] = best - second
        return (scores.unsqueeze(-1) * response_mask,) * 2

    found = check(gap_for_the_best, k=2, signature="verl")
    assert "biased for the gradient of J_2: 1.858 to 11.27 times it" in found.verdict
    assert len(found.example.splitlines()) == 2


def test_groups_of_a_batch_that_mix_are_found():
    def whitened(rewards, num_generations):
        groups = rewards.view(-1, num_generations)
        off = groups - groups.mean(1, keepdim=True)
        return (off * (1 + groups.mean())).flatten()

    assert "groups of a batch do not mix" in check(whitened, k=1, signature="flat").verdict


def test_a_function_of_one_group_says_so():
    def alone(rewards, num_generations):
        assert len(rewards) == num_generations, "one group only"
        return rewards - rewards.mean()

    found = check(alone, k=1, signature="flat")
    assert "groups of a batch do not mix" in found.verdict
    assert "it raises AssertionError: one group only" in found.example


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k must be at least 1"),
        ({"k": 33}, "at most 32"),
        ({"signature": "trlx"}, "must be one of rewards, flat, verl"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(LabError, match=message):
        check(weighted("subloo"), **options)


def pass_at_k(n, c, k):
    return 1 - math.comb(n - c, k) / math.comb(n, k)


@pytest.mark.parametrize(
    ("function", "k", "verdict", "example"),
    [
        (pass_at_k, 4, "unbiased for pass@4", ""),
        (lambda r, k: float(torch.as_tensor(r).sort().values[-1]), 1, "it is the best of all", ""),
        (lambda rewards, k: max(rewards[:k]), 2, "up to n = 2, and wrong from n = 3", "is right"),
        (
            lambda n, c, k: 1 - (1 - c / n) ** k,
            4,
            "biased for pass@4: it is the best of k draws with replacement",
            "R = [1, 0, 0, 0], k = 4: 0.6836, where 1 is right",
        ),
        (lambda n, c: c / n, 2, "does not run: it", ""),
        (
            lambda rewards, k: (
                sum(map(max, itertools.combinations(rewards, k))) / math.comb(len(rewards), k)
            ),
            2,
            "unbiased for Max@2",
            "",
        ),
        (
            lambda num_correct, num_samples, k: pass_at_k(num_samples, num_correct, k),
            4,
            "unbiased for pass@4",
            "",
        ),
        (lambda n, c, k: pass_at_k(n, c, k) if c else 1 / c, 2, "biased", "raises ZeroDivision"),
    ],
)
def test_metrics(function, k, verdict, example):
    found = check(function, k=k, metric=True, limit=2.0)
    assert verdict in found.verdict
    assert example in found.example
    assert found.ok is verdict.startswith("unbiased")


FILE = """
import os, time
def slow(rewards):
    if len(rewards) > 8: time.sleep(1000)
    return rewards - rewards.mean()
def hangs(rewards):
    time.sleep(1000)
def ends(rewards):
    os._exit(3)
def prints(rewards, k):
    print("no part of the answer")
    return rewards - rewards.mean()
"""


def test_a_hanging_function_ends_with_what_was_seen(tmp_path, monkeypatch):
    (tmp_path / "slow.py").write_text(FILE)
    clock, lines = SimpleNamespace(now=0.0), []
    monkeypatch.setattr(child, "time", SimpleNamespace(monotonic=lambda: clock.now))

    def progress(verdict):
        lines.append(verdict.seen)
        clock.now += 30 * ("n = 2 to " in verdict.seen)

    found = check_path(f"{tmp_path}/slow.py:slow", k=2, progress=progress)
    assert "the gradient of J_1" in found.verdict
    assert re.search(r"n = 2 to [3-8], .*; ended after \d+ s$", found.seen)
    assert found.seen.startswith(lines[-1])
    assert not multiprocessing.active_children()


def test_a_function_whose_first_call_hangs_ends(tmp_path):
    (tmp_path / "slow.py").write_text(FILE)
    found = check_path(f"{tmp_path}/slow.py:hangs", limit=0.5)
    assert found.verdict == "no answer: its first calls take too long"
    assert found.seen.startswith("ended after ")
    assert not found.ok


@pytest.mark.parametrize(
    ("calls", "verdict", "seen"),
    [
        (1, "no answer: its first calls", ""),
        (2, "no answer: its calls take too long for groups", "1 group: n = 2, rewards"),
        (12, "so far it equals maxk subloo", "11 groups: n = 2 to 3, rewards in"),
    ],
)
def test_a_slow_function_is_not_ok_before_all_laws_are_tried(calls, verdict, seen, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    fake = SimpleNamespace(monotonic=lambda: clock.now, process_time=time.process_time)
    monkeypatch.setattr(evidence, "time", fake)

    def slow(rewards, k):
        clock.now += 10
        return subloo(rewards, k)

    found = check(slow, k=2, limit=10 * calls - 5)
    assert not found.ok
    assert found.verdict.startswith(verdict)
    assert found.seen.startswith(seen)
    assert not seen or found.seen.endswith("take too long for larger groups")


def test_a_slow_metric_is_not_ok_before_all_laws_are_tried(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    fake = SimpleNamespace(monotonic=lambda: clock.now, process_time=time.process_time)
    monkeypatch.setattr(evidence, "time", fake)

    def slow(n, c, k):
        clock.now += 10
        return pass_at_k(n, c, k)

    found = check(slow, k=2, limit=75, metric=True)
    assert not found.ok
    assert found.verdict == "so far unbiased for pass@2"
    assert found.seen.startswith("7 groups: n = 2 to 3, rewards of 0 and 1; its calls take too")


def test_the_verb_ends_well(tmp_path):
    (tmp_path / "f.py").write_text(FILE)
    command = ["check", f"{tmp_path}/f.py:prints", "--k", "1", "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["equals"] == "maxk centred"
    result = CliRunner().invoke(app, ["check", f"{tmp_path}/f.py:ends"])
    assert result.exit_code == 1
    assert "it ends the process with exit code 3" in result.stdout


def test_a_variance_without_a_gradient_is_printed_as_undefined(capsys):
    show_verdict(check(baseline_with_own_sample, k=4))
    printed = capsys.readouterr().out
    assert "undefined" in printed
    assert "nan" not in printed
