"""The audit of logs: curves, groups without signal and logged advantages."""

import json
from itertools import combinations
from statistics import mean

import pandas as pd
import pytest
import torch

from maxk_lab import advantages
from maxk_lab.own import log
from maxk_lab.own.audit import audit, audit_log

GROUPS = {
    (0, "a"): [0.0, 1.0, 0.5, 0.0],
    (0, "b"): [1.0, 1.0, 1.0, 1.0],
    (1, "a"): [0.0, 0.25, 0.0, 1.0],
    (1, "c"): [0.0, 0.0, 2.0],
    (2, "b"): [0.5, 0.5, 0.0, 0.75],
}


def rows(advantage=torch.tensor):
    for (step, prompt), rewards in GROUPS.items():
        for reward, weight in zip(rewards, advantage(rewards).tolist()):
            yield {"step": step, "prompt": prompt, "reward": reward, "advantage": weight}


def written(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def best_of(k):
    """The mean over groups of the mean maximum of all K-subsets."""
    groups = [rewards for rewards in GROUPS.values() if len(rewards) >= k]
    return mean(mean(map(max, combinations(rewards, k))) for rewards in groups)


def overall(log):
    return log.curve[[step is None for step in log.curve.step]].set_index("k")


def test_the_curve_is_the_mean_maximum_of_all_subsets(tmp_path):
    log = audit(written(tmp_path / "log.jsonl", rows()), ks=(1, 2, 3, 4))
    curve = overall(log)
    for k in (1, 2, 3, 4):
        assert curve.value[k] == pytest.approx(best_of(k), rel=1e-12)
        assert curve.low[k] < curve.value[k] < curve.high[k]
    assert curve.groups.tolist() == [5, 5, 5, 4]
    alone = overall(audit(tmp_path / "log.jsonl", ks=(4,)))
    assert alone.value.tolist() == [curve.value[4]], "the group of three has no Max@4"
    assert (log.samples, log.groups, log.steps, log.sizes) == (19, 5, 3, (3, 4))
    assert log.constant == 1 / 5
    first = log.curve[(log.curve.step == 0) & (log.curve.k == 1)]
    assert first.value.item() == pytest.approx((0.375 + 1) / 2)


def test_intervals_are_over_prompts(tmp_path):
    """The same groups again say nothing new, so that they do not narrow the interval."""
    again = [line | {"step": line["step"] + 3 * i} for i in range(5) for line in rows()]
    once, often = (
        overall(audit(written(tmp_path / "log.jsonl", lines))) for lines in (rows(), again)
    )
    assert ((often.high - often.low) / (once.high - once.low)).min() == pytest.approx(1)


def test_signal_and_noise_by_hand(tmp_path):
    found = audit(written(tmp_path / "log.jsonl", rows())).rows.set_index(["baseline", "k"])
    # b in step 0 has equal rewards; the second best of the others is below their best, but in b of
    # step 2 too.
    assert found.signal["centred", 1] == 4 / 5
    assert found.signal["subloo", 2] == 4 / 5
    assert found.signal["subloo", 4] == 3 / 4
    weights = [advantages(rewards, k=2, baseline="centred") for rewards in GROUPS.values()]
    noise = sum(float(each.square().sum()) for each in weights) / 5
    assert found.noise["centred", 2] == pytest.approx(noise)
    assert found.relative.groupby("k").min().eq(1).all()
    assert found.relative["sample_loo", 1] > 2


def deviations(rewards):
    values = torch.tensor(rewards, dtype=torch.float64)
    return values - values.mean()


def scaled(least, correction=1):
    """GRPO's advantages with a constant beside the deviation."""
    return lambda r: deviations(r) / (deviations(r).std(correction=correction) + least)


def rounded(rewards):
    return (len(rewards) * advantages(rewards, k=1)).double().round(decimals=2)


@pytest.mark.parametrize(
    ("advantage", "trained"),
    [
        (lambda rewards: 4 * advantages(rewards, k=2, baseline="subloo"), ("maxk subloo", 2, "4")),
        (lambda rewards: 4 * advantages(rewards, k=2, baseline="none"), ("maxk", 2, "4")),
        (lambda rewards: len(rewards) * advantages(rewards, k=2), ("maxk centred", 2, "n")),
        (lambda rewards: torch.tensor(rewards).square(), None),
        (lambda rewards: -advantages(rewards, k=1), None),
        (scaled(1e-4), ("grpo[0.0001]", 1, "n")),
        (scaled(1e-6), ("grpo[0.0001]", 1, "n")),
        (scaled(1e-8, correction=0), ("grpo[0.0001]", 1, "n sqrt(n/(n - 1))")),
        (deviations, ("maxk centred", 1, "n - 1")),
        (lambda r: deviations(r) / 0.49, ("maxk centred", 1, "4.082 at n = 3, 6.122 at n = 4")),
        (rounded, ("maxk centred", 1, "n")),
    ],
)
def test_logged_advantages_are_named_where_a_row_has_them(tmp_path, advantage, trained):
    assert audit(written(tmp_path / "log.jsonl", rows(advantage))).trained == trained


def test_an_advice_keeps_the_signal(tmp_path):
    one_success = [
        {"prompt": i, "reward": float(i % 2 == 0 and j == 0)} for i in range(40) for j in range(8)
    ]
    advice = audit(written(tmp_path / "log.jsonl", one_success)).advice
    assert advice.startswith("K = 8 with subloo: 50% of the groups")
    nothing = [{"prompt": i, "reward": 1.0} for i in range(4) for _ in range(4)]
    assert audit(written(tmp_path / "b.jsonl", nothing)).advice.startswith("no K has a signal: all")


@pytest.mark.parametrize(
    ("solved", "reason"),
    [
        (0, "the same on all 30 prompts: no interval"),
        (1, "an effective 1.1 of 30 prompts carry its spread: no interval"),
        (2, ""),
    ],
)
def test_an_interval_that_too_few_prompts_carry_is_withheld(tmp_path, solved, reason):
    lines = [{"group": i // 4, "reward": int(i % 4 == 0 and i < 4 * solved)} for i in range(120)]
    curve = overall(audit(written(tmp_path / "log.jsonl", lines), ks=(2,))).loc[2]
    assert curve.reason == reason
    assert (curve.low <= curve.value <= curve.high) == (not reason)


@pytest.mark.slow
def test_intervals_cover_the_mean_over_prompts():
    """Of 24 prompts with different chances in 3 steps each, with rare successes among them."""
    generator = torch.Generator().manual_seed(0)
    covered = 0
    for _ in range(60):
        chance = torch.rand(24, generator=generator).square().repeat_interleave(3)
        drawn = torch.rand(len(chance), 4, generator=generator)
        table = pd.DataFrame({"reward": (drawn < chance[:, None]).double().flatten().numpy()})
        table["group"] = [f"{sample // 12}" for sample in range(len(table))]
        table["step"] = (torch.arange(len(table)) // 4 % 3).numpy()
        curve = overall(audit_log(log.Log(table, ""), (2,))).loc[2]
        # E[1 - (1 - p)^2] of p the square of a uniform number
        covered += curve.low <= 2 / 3 - 1 / 5 <= curve.high
    assert covered / 60 > 0.92
