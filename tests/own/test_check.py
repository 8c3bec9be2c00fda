"""The check of functions: planted faults are found, right functions pass, and it ends in time."""

import functools
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

import pytest
import torch
from typer.testing import CliRunner

from maxk_lab import advantages
from maxk_lab.cli import app
from maxk_lab.cli.verbs.check import show_verdict
from maxk_lab.errors import LabError
from maxk_lab.own import check as check_module
from maxk_lab.own import child, evidence
from maxk_lab.own.check import check
from maxk_lab.own.child import check_path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import wrong_advantages as wrong

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("forked")]


@pytest.fixture(autouse=True)
def _fewer_sizes(monkeypatch):
    """Half of the sizes: test_in_place and test_docs check with all."""
    monkeypatch.setattr(check_module, "SIZES", (*range(2, 14), 32, 33, 64, 1200))


def subloo(rewards, k):
    return advantages(rewards, k=k, baseline="subloo")


def flipped_at_a_negative_mean(rewards, k):
    return subloo(rewards, k) * (1 if rewards.double().mean() >= 0 else -1)


def baseline_with_own_sample(rewards, k):
    """Subtracts the value of all n samples, K/n too large at K = n."""
    weights = advantages(rewards, k=k, baseline="none")
    return weights - weights.sum() / k


def deviation_of_others_in_fp32(rewards):
    rewards, n = rewards.float(), len(rewards)
    others = torch.ones(n, n) - torch.eye(n)
    mean = others @ rewards / (n - 1)
    variance = (others @ rewards.square() / (n - 1) - mean.square()).clamp(min=0)
    off, std = rewards - mean, variance.sqrt()
    return torch.where(std > 0, off / (std + 1e-6), off)


def weighted_by_place(rewards, k):
    return subloo(rewards, k) * torch.linspace(0.9, 1.1, len(rewards))


def a_hundredth_too_small(rewards, k):
    weights = subloo(rewards, k)
    return torch.where(weights == weights.max(), 0.99 * weights, weights)


def clipped(rewards, k):
    return subloo(rewards.clamp(-10, 10), k)


def rounded(rewards, k):
    return subloo((1e6 * rewards.double()).round(), k)


def twelve_best(rewards, k):
    if len(rewards) < 13:
        return subloo(rewards, k)
    best = rewards.argsort(descending=True)[:12]
    return torch.zeros(len(rewards)).double().scatter(0, best, subloo(rewards[best].double(), k))


def divided_when_large(rewards, k):
    weights = subloo(rewards, k)
    return weights / rewards.std() if rewards.double().std() > 5 else weights


def divided_by_the_mean(rewards):
    return (rewards - rewards.double().mean()) / (rewards.double().mean() + 1e-6)


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


def gap_to_the_second(rewards):
    (best, second), places = rewards.topk(2)
    return torch.zeros_like(rewards).scatter(0, places[:1], (best - second).unsqueeze(0))


def fails_at_equal_rewards(rewards, k):
    if bool((rewards == rewards[0]).all()):
        raise ZeroDivisionError("no spread")
    return subloo(rewards, k)


def level_of_the_batch(rewards, num_generations):
    groups = rewards.view(-1, num_generations)
    return ((groups - groups.mean(1, keepdim=True)) * (1 + groups.mean())).flatten()


def one_group_only(rewards, num_generations):
    assert len(rewards) == num_generations, "one group only"
    return rewards - rewards.mean()


LARGE = "biased for large rewards, unbiased for J_2 on all others"
MIXED, FLAT = "groups of a batch do not mix", {"signature": "flat"}
# Function and K; words of the verdict, of the change and of the example; arguments.
WRONG = [
    (wrong.in_group_mean, 2, "short by 1 - K/n: nothing is left at n = K", "n/(n - K)", "w = [0, "),
    (wrong.gap_for_all, 3, "biased for the gradient of J_3: cosine -1", "of its", "beside [0, 0]"),
    (wrong.scale_biased_pkpo, 2, "centred times n - K: right in direction", "n - K", "[0, 1]"),
    (wrong.listing_on_integers, 2, "whole numbers are treated as", "floats", "w = [0, 0, 0]"),
    (wrong.beyond_rank_k, 2, "biased for the gradient of J_2", "subloo", "beside [0]"),
    (wrong.binomials_as_floats, 3, "not finite from n = 1,200", "binomials overflow", "of 1200]"),
    (wrong.divided_by_the_deviation, 4, "grpo[0.0001] times n: biased", "the spread", "beside [0"),
    (wrong.z_scored_gaps, 2, "biased for the gradient of J_2", "do not divide", "beside [0, 0]"),
    (
        flipped_at_a_negative_mean,
        2,
        "biased for the gradient of J_2: cosine -1",
        "subloo",
        "beside [-2]",
    ),
    (
        baseline_with_own_sample,
        2,
        "nothing: the mean of its estimate is 0",
        "subloo",
        "R = [0, 0, 1]",
    ),
    (deviation_of_others_in_fp32, 1, "rewards equal up to rounding count as", "squares", "beside"),
    (weighted_by_place, 2, "the order of samples", "rewards alone", "moves the weight by 1.1"),
    (a_hundredth_too_small, 4, "biased for", "is unbiased", "\nbeside"),
    (clipped, 2, LARGE, "do not clip or rescale", "\nbeside"),
    (rounded, 2, "biased for tiny rewards, unbiased for J_2 on all", "do not round", "beside [-"),
    (divided_when_large, 2, LARGE, "do not clip or rescale", "\nbeside"),
    (
        divided_by_the_mean,
        1,
        "of 0 and 1 it equals maxrl times n",
        "divide by the mean",
        "\nbeside",
    ),
    (sometimes_nothing, 2, "random at n = 2: two calls with the same", "draw at random", "then w"),
    (drawn_subsets, 2, "random at n = 33: two calls with the same", "draw at random", "then w"),
    (
        nothing_for_many,
        2,
        "unbiased for J_2 at n = 2, and 0 times it at n = 1,200",
        "subloo",
        "of 1200]",
    ),
    (
        twelve_best,
        2,
        "unbiased for J_2 up to n = 12, and biased from n = 13",
        "is unbiased",
        "of 12], ",
    ),
    (lambda rewards, k: -subloo(rewards, k), 2, "reversed: -1 times the gradient", "the sign", ""),
    (lambda rewards, k: subloo(rewards.abs(), k), 2, "biased for", "is unbiased", "\nbeside"),
    (lambda rewards: rewards * math.nan, 2, "undefined: its weights are not finite", "sub", "nan"),
    (lambda r: r.bfloat16() - r.bfloat16().mean(), 2, "of J_1 (the mean), not of J_2", "sub", ""),
    (gap_to_the_second, 3, "of J_n (the best of all n samples), not of J_3", "subloo", ""),
    (lambda rewards, eps: rewards / eps, 2, "does not run: it needs eps, which", "", ""),
    (
        fails_at_equal_rewards,
        2,
        "groups of equal rewards have finite",
        "",
        "[1, 1, 1]: it raises Z",
    ),
    (level_of_the_batch, 1, MIXED, "within each group", "beside [0]", FLAT),
    (one_group_only, 1, MIXED, "within each group", "it raises AssertionError: one group", FLAT),
]


@pytest.mark.parametrize("row", WRONG, ids=lambda row: row[0].__name__)
def test_faults_are_named_with_an_example_and_advice(row, monkeypatch):
    function, k, verdict, change, example, *options = row
    if "1,200" in verdict:
        monkeypatch.setattr(evidence, "_SLOW", 60.0)  # other programs may slow its calls down
    result = check(function, k=k, limit=600.0, **dict(*options))
    assert verdict in result.verdict
    for words, text in ((change, result.change), (example, result.example)):
        assert words in text
        assert bool(words) is bool(text)
    assert not result.ok
    assert ("divide" in result.change) is ("divide" in change or "the spread" in change)


def in_type(dtype):
    return lambda rewards, k: subloo(rewards.to(dtype), k).to(dtype)


def weighted(baseline):
    return lambda rewards, k: len(rewards) * advantages(rewards, k=k, baseline=baseline)


def flat_loo(rewards, num_generations):
    groups = rewards.view(-1, num_generations).double()
    total = groups.sum(1, keepdim=True)
    return (groups - (total - groups) / (num_generations - 1)).flatten()


def rounded_weights(rewards, k):
    """Relative errors up to 4e-05, as of binomials by their logarithms in float32."""
    return subloo(rewards, k) * (1 + 4e-5 * rewards.double().cos())


def for_verl(token_level_rewards, response_mask, index, config=None, **kwargs):
    scores = (token_level_rewards * response_mask).sum(-1)
    weights = torch.zeros(len(scores), dtype=torch.float64)
    for group in set(index):
        mask = torch.from_numpy(index == group)
        weights[mask] = advantages(scores[mask], k=config.maxk_k, baseline="subloo")
    return (weights.unsqueeze(-1) * response_mask,) * 2


# Function, arguments, and words about the groups that were tried.
RIGHT = [
    *((weighted(name), {"k": 2}, "groups: n = ") for name in ("none", "sample_loo", "pkpo_sloo")),
    (weighted("affine"), {"k": 3}, "groups: n = "),
    (weighted("subloo"), {"k": 32}, "n = 32 to 64 and 1,200"),
    (weighted("subloo"), {"binary": True}, "rewards of 0 and 1"),
    (weighted("centred"), {"k": 1, "binary": True}, "rewards of 0 and 1"),
    (in_type(torch.bfloat16), {"k": 2}, "bfloat16, up to rounding"),
    (in_type(torch.float16), {"k": 2}, "float16, up to rounding"),
    (lambda rewards: rewards.float() - rewards.float().mean(), {"k": 1}, "float32, up to rounding"),
    (rounded_weights, {"k": 2}, "float64, up to rounding"),
    (lambda r, k: subloo(r, k) * (1 + 2e-3 / len(r)), {"k": 2}, "float64"),
    (flat_loo, {"k": 1, **FLAT}, "float64"),
    (for_verl, {"k": 2, "signature": "verl"}, "float64"),
]


@pytest.mark.parametrize(("function", "options", "seen"), RIGHT)
def test_right_functions_pass(function, options, seen, monkeypatch):
    if "1,200" in seen:
        monkeypatch.setattr(evidence, "_SLOW", 60.0)  # other programs may slow its calls down
    result = check(function, limit=600.0, **options)
    assert result.ok, result.verdict
    assert "does not" not in result.verdict
    assert seen in result.seen
    laws = {law.name: law for law in result.laws}
    assert "binary" in options or laws["whole numbers are treated as floats"].holds


def test_an_unbiased_row_with_too_large_a_baseline_is_named(monkeypatch):
    monkeypatch.setattr(check_module, "SIZES", range(2, 14))
    result = check(wrong.too_large_a_baseline, k=2)
    assert "maxk sample_loo: unbiased for the gradient of J_2; at n = 6 its v" in result.verdict
    assert "K/n times" in result.change
    assert "R = [1, 1, 1]" in result.example
    assert result.ok


def test_refusals():
    for options, message in (
        ({"k": 0}, "k must be at least 1"),
        ({"k": 33}, "at most 32"),
        ({"signature": "trlx"}, "must be one of rewards, flat, verl"),
    ):
        with pytest.raises(LabError, match=message):
            check(subloo, **options)


def pass_at_k(n, c, k):
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def correct_first(num_correct, num_samples, k):
    return pass_at_k(num_samples, num_correct, k)


def over_all_subsets(rewards, k):
    return sum(map(max, itertools.combinations(rewards, k))) / math.comb(len(rewards), k)


WITH_REPLACEMENT = "biased for pass@4: it is the best of k draws with replacement"
METRICS = [
    (pass_at_k, 4, "unbiased for pass@4", ""),
    (correct_first, 4, "unbiased for pass@4", ""),
    (over_all_subsets, 2, "unbiased for Max@2", ""),
    (
        lambda r, k: float(torch.as_tensor(r).sort().values[-1]),
        1,
        "it is the best of all",
        "1, where 0.5 is right",
    ),
    (lambda rewards, k: max(rewards[:k]), 2, "up to n = 2, and wrong from n = 3", "is right"),
    (lambda n, c, k: 1 - (1 - c / n) ** k, 4, WITH_REPLACEMENT, "k = 4: 0.6836, where 1 is right"),
    (lambda n, c: c / n, 2, "does not run: it", ""),
    (lambda n, c, k: pass_at_k(n, c, k) if c else 1 / c, 2, "biased", "raises ZeroDivision"),
]


@pytest.mark.parametrize(("function", "k", "verdict", "example"), METRICS)
def test_metrics(function, k, verdict, example):
    result = check(function, k=k, metric=True, limit=2.0)
    assert verdict in result.verdict
    assert example in result.example
    assert bool(example) is bool(result.example)
    assert result.ok is verdict.startswith("unbiased")


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


@pytest.fixture
def file(tmp_path):
    (tmp_path / "slow.py").write_text(FILE)
    return f"{tmp_path}/slow.py"


def test_a_hanging_function_ends_with_what_was_seen(file, monkeypatch):
    clock, lines = SimpleNamespace(now=0.0), []
    monkeypatch.setattr(child, "time", SimpleNamespace(monotonic=lambda: clock.now))

    def progress(verdict):
        lines.append(verdict.seen)
        clock.now += 30 * ("n = 2 to " in verdict.seen)

    verdict = check_path(f"{file}:slow", k=2, progress=progress)
    assert "the gradient of J_1" in verdict.verdict
    assert re.search(r"n = 2 to [3-8], .*; ended after \d+ s$", verdict.seen)
    assert verdict.seen.startswith(lines[-1])
    assert not multiprocessing.active_children()


def test_a_function_whose_first_call_hangs_ends(file):
    verdict = check_path(f"{file}:hangs", limit=0.5)
    assert verdict.verdict == "no answer: its first calls take too long"
    assert verdict.seen.startswith("ended after ")
    assert not verdict.ok


@pytest.mark.parametrize(
    ("function", "calls", "verdict", "seen"),
    [
        (subloo, 1, "no answer: its first calls", ""),
        (subloo, 2, "no answer: its calls take too long for groups", "1 group: n = 2, rewards"),
        (subloo, 12, "so far it equals maxk subloo", "11 groups: n = 2 to 3, rewards in"),
        (pass_at_k, 8, "so far unbiased for pass@2", "7 groups: n = 2 to 3, rewards of 0 and 1"),
    ],
)
def test_slow_functions_are_not_ok_before_all_laws_are_tried(
    function, calls, verdict, seen, monkeypatch
):
    clock = SimpleNamespace(now=0.0)
    fake = SimpleNamespace(monotonic=lambda: clock.now, process_time=time.process_time)
    monkeypatch.setattr(evidence, "time", fake)

    @functools.wraps(function)
    def slow(*arguments, **names):
        clock.now += 10
        return function(*arguments, **names)

    result = check(slow, k=2, limit=10 * calls - 5, metric=function is pass_at_k)
    assert not result.ok
    assert result.verdict.startswith(verdict)
    assert result.seen.startswith(seen)
    assert not seen or result.seen.endswith("take too long for larger groups")


def test_the_verb_ends_well(file):
    result = CliRunner().invoke(app, ["check", f"{file}:prints", "--k", "1", "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["equals"] == "maxk centred"
    result = CliRunner().invoke(app, ["check", f"{file}:ends"])
    assert result.exit_code == 1
    assert "it ends the process with exit code 3" in result.stdout


def test_a_variance_without_a_gradient_is_printed_as_undefined(capsys):
    show_verdict(check(lambda rewards: 0 * rewards, k=1))
    printed = capsys.readouterr().out
    assert "undefined" in printed
    assert "nan" not in printed
