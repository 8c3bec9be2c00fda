"""The audit of logs: curves, groups without signal and logged advantages, whatever the format."""

import json
from itertools import combinations

import pandas as pd
import pytest
import torch

from maxk_lab import advantages
from maxk_lab.errors import LabError
from maxk_lab.own import log
from maxk_lab.own.audit import _Sums, audit

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
    found = [
        sum(map(max, combinations(rewards, k))) / len(list(combinations(rewards, k)))
        for rewards in GROUPS.values()
        if len(rewards) >= k
    ]
    return sum(found) / len(found)


def same(one, other):
    """Whether the tables of two audits are the same up to rounding."""
    for name in ("curve", "rows"):
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name), check_dtype=False)
    return one.groups == other.groups


def overall(found):
    return found.curve[found.curve.step == -1].set_index("k")


def test_the_curve_is_the_mean_maximum_of_all_subsets(tmp_path):
    found = audit(written(tmp_path / "log.jsonl", rows()), ks=(1, 2, 3, 4))
    curve = overall(found)
    for k in (1, 2, 3, 4):
        assert curve.value[k] == pytest.approx(best_of(k), rel=1e-12)
        assert curve.low[k] < curve.value[k] < curve.high[k]
    assert curve.groups.tolist() == [5, 5, 5, 4]
    assert (found.samples, found.groups, found.steps, found.sizes) == (19, 5, 3, (3, 4))
    assert found.constant == 1 / 5
    first = found.curve[(found.curve.step == 0) & (found.curve.k == 1)]
    assert first.value.item() == pytest.approx((0.375 + 1) / 2)


def test_intervals_are_over_prompts(tmp_path):
    """The same groups again say nothing new, so that they do not narrow the interval."""
    once = audit(written(tmp_path / "once.jsonl", rows()))
    again = [line | {"step": line["step"] + 3 * i} for i in range(5) for line in rows()]
    often = audit(written(tmp_path / "often.jsonl", again))
    narrowed = overall(often).high - overall(often).low
    assert (narrowed / (overall(once).high - overall(once).low)).min() == pytest.approx(1)


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
    # subloo at K = n gives all weight to the best; where all four are weighted, as many carry it.
    assert found.effective["subloo", 4] == 1
    assert 1 < found.effective["centred", 1] <= 4


def test_logged_norms_weigh_the_noise(tmp_path):
    lines = [line | {"grad_norm": 1.0 + 3 * (line["reward"] > 0)} for line in rows()]
    plain, weighed = (
        audit(written(tmp_path / "a.jsonl", rows())),
        audit(written(tmp_path / "b.jsonl", lines)),
    )
    assert plain.equal_norms
    assert not weighed.equal_norms
    assert (weighed.rows.noise >= plain.rows.noise).all()
    assert weighed.rows.noise.sum() > plain.rows.noise.sum()


@pytest.mark.parametrize(
    ("advantage", "trained"),
    [
        (lambda rewards: 4 * advantages(rewards, k=2, baseline="subloo"), ("maxk subloo", 2, "4")),
        (lambda rewards: 4 * advantages(rewards, k=1), ("maxk centred", 1, "4")),
        (lambda rewards: 4 * advantages(rewards, k=2, baseline="none"), ("maxk", 2, "4")),
        (lambda rewards: len(rewards) * advantages(rewards, k=2), ("maxk centred", 2, "n")),
        (lambda rewards: torch.tensor(rewards).square(), None),
    ],
)
def test_logged_advantages_are_named_where_a_row_has_them(tmp_path, advantage, trained):
    assert audit(written(tmp_path / "log.jsonl", rows(advantage))).trained == trained


def test_missing_rewards_and_a_damaged_last_line(tmp_path):
    lines = list(rows())
    lines[5]["reward"] = None
    path = written(tmp_path / "log.jsonl", lines)
    path.write_text(path.read_text() + '{"step": 3, "prom')
    found = audit(path)
    assert (found.missing, found.damaged, found.samples) == (1, 1, 18)


def test_blocks_of_any_size_give_the_same(tmp_path, monkeypatch):
    path = written(tmp_path / "log.jsonl", rows())
    whole = audit(path)
    for size in (1, 3, 5):
        monkeypatch.setattr(log, "_ROWS", size)
        assert same(audit(path), whole)


def csv(folder):
    pd.DataFrame(list(rows())).to_csv(folder / "log.csv")
    return folder / "log.csv"


def parquet(folder):
    pytest.importorskip("pyarrow")
    pd.DataFrame(list(rows())).to_parquet(folder / "log.parquet")
    return folder / "log.parquet"


def dumps_of_verl(folder):
    for step in (0, 1, 2):
        lines = [
            {"input": line["prompt"], "output": "x", "score": line["reward"], "step": step}
            for line in rows()
            if line["step"] == step
        ]
        written(folder / f"{step + 9}.jsonl", lines)
    return folder


def functions_of_trl(folder):
    lines = [
        {"step": line["step"], "prompt": line["prompt"], "completion": "x", "advantage": 0.0}
        | {"correct": line["reward"] / 2, "short": line["reward"] / 2}
        for line in rows()
    ]
    return written(folder / "trl.jsonl", lines)


def in_any_order_within_a_step(folder):
    lines = sorted(rows(), key=lambda line: (line["step"], line["reward"]))
    return written(folder / "sorted.jsonl", lines)


def with_other_names(folder):
    lines = [{"r": line["reward"], "id": line["prompt"], "t": line["step"]} for line in rows()]
    return written(folder / "other.jsonl", lines), {"reward": "r", "group": "id", "step": "t"}


FORMS = [csv, parquet, dumps_of_verl, functions_of_trl, in_any_order_within_a_step]


@pytest.mark.parametrize("form", [*FORMS, with_other_names], ids=lambda form: form.__name__)
def test_a_log_in_any_form_says_the_same(tmp_path, form):
    (tmp_path / "log").mkdir()
    made = form(tmp_path / "log")
    path, asked = made if isinstance(made, tuple) else (made, {})
    assert same(audit(path, **asked), audit(written(tmp_path / "log.jsonl", rows())))


def test_an_advice_keeps_the_signal(tmp_path):
    one_success = [
        {"prompt": i, "reward": float(i % 2 == 0 and j == 0)} for i in range(40) for j in range(8)
    ]
    advice = audit(written(tmp_path / "log.jsonl", one_success)).advice
    assert advice.startswith("K = 8 with subloo: 50% of the groups")
    nothing = [{"prompt": i, "reward": 1.0} for i in range(4) for _ in range(4)]
    assert "no group has a signal" in audit(written(tmp_path / "b.jsonl", nothing)).advice


@pytest.mark.parametrize(
    ("lines", "asked", "message"),
    [
        ([{"reward": 1}], {}, "no column of the groups"),
        ([{"prompt": 1}], {}, "no column of the rewards"),
        ([{"reward": 1, "prompt": 1}], {"reward": "rewrd"}, "did you mean reward"),
        ([{"reward": 1, "prompt": 1}], {}, "no group of two samples"),
        (None, {}, "there is no file"),
    ],
)
def test_refusals(tmp_path, lines, asked, message):
    path = tmp_path / "log.jsonl"
    with pytest.raises(LabError, match=message):
        audit(path if lines is None else written(path, lines), **asked)
    (tmp_path / "empty").mkdir()
    with pytest.raises(LabError, match=r"has no \.jsonl"):
        audit(tmp_path / "empty")


@pytest.mark.slow
@pytest.mark.parametrize(("prompts", "times"), [(24, 1), (200, 3)])
def test_intervals_cover_the_mean_over_prompts_or_are_withheld(prompts, times):
    """Of groups whose prompts differ and come several times, with rare successes among them."""
    generator = torch.Generator().manual_seed(prompts + times)
    shown = covered = 0
    for _ in range(150):
        chance = torch.rand(prompts, generator=generator).square().repeat_interleave(times)
        drawn = torch.rand(len(chance), 4, generator=generator)
        rewards = (drawn < chance[:, None]).double()
        names = torch.arange(prompts).repeat_interleave(times * 4).numpy()
        names = [f"{name}-{_ % 7}" for name in names]
        table = pd.DataFrame({"group": names, "reward": rewards.flatten().numpy()})
        table["step"] = (torch.arange(len(table)) // 4 % times).numpy()
        sums = _Sums((2,))
        sums.add(table)
        (whole,) = sums.result(damaged=0).curve.query("step == -1").itertuples()
        exact = 2 / 3 - 1 / 5  # E[1 - (1 - p)^2] of p the square of a uniform number
        shown += whole.low == whole.low
        covered += whole.low <= exact <= whole.high
    assert shown > 125
    assert covered / shown > 0.92
