"""The difference of two logs: pairs by prompt, independent samples, and the settled K."""

import json
from itertools import combinations

import numpy as np
import pytest

from maxk_lab.errors import LabError
from maxk_lab.own.plans.difference import compare_logs


def written(path, groups, first=0):
    lines = [
        {"prompt": f"p{first + i}", "reward": float(reward)}
        for i, rewards in enumerate(groups)
        for reward in rewards
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def best_of(rewards, k):
    return np.mean([max(each) for each in combinations(rewards, k)])


def test_the_difference_is_that_of_the_mean_maxima_of_all_subsets(tmp_path):
    rng = np.random.default_rng(0)
    first, second = rng.random((30, 4)).round(2), rng.random((30, 4)).round(2) * 0.8
    paths = [written(tmp_path / f"{i}.jsonl", each) for i, each in enumerate((first, second))]
    found = compare_logs(paths[:1], paths[1:], {})
    assert found.paired
    assert not found.binary
    for row in found.curve.itertuples():
        means = [np.mean([best_of(each, row.k) for each in groups]) for groups in (first, second)]
        assert [row.first, row.second] == pytest.approx(means)
        assert row.difference == pytest.approx(means[0] - means[1])
        assert row.low < row.difference < row.high
    assert found.curve.k.tolist() == [1, 2, 3, 4]


def test_settled_signs_and_the_prompts_for_the_rest(tmp_path):
    """pass@1 up and pass@4 equal: one K is settled, the others need more prompts."""
    first = [[1, 1, 1, 0]] * 30 + [[0, 0, 0, 0]] * 10
    second = [[1, 0, 0, 0]] * 27 + [[0, 0, 0, 0]] * 8 + [[1, 0, 0, 0]] * 5
    paths = [written(tmp_path / f"{i}.jsonl", each) for i, each in enumerate((first, second))]
    found = compare_logs(paths[:1], paths[1:], {})
    signs = dict(zip(found.curve.k, found.curve.sign, strict=True))
    assert (signs[1], signs[4]) == (1, 0)
    assert found.verdict.startswith("pass@K is higher in the first log at K = 1")
    needed = found.curve.prompts.iloc[3]
    half = found.curve.high.iloc[3] - found.curve.difference.iloc[3]
    assert needed == np.ceil(40 * (half / found.curve.difference.iloc[3]) ** 2)


def test_prompts_of_one_log_are_left_out_or_make_independent_samples(tmp_path):
    rng = np.random.default_rng(0)
    groups = (rng.random((20, 4)) < 0.4).astype(float)
    first, second = written(tmp_path / "a.jsonl", groups), written(tmp_path / "b.jsonl", groups, 5)
    found = compare_logs([first], [second], {})
    assert found.notes == (
        "15 prompts in both logs, compared in pairs",
        "left out, in one log only: 5 and 5",
    )
    apart = compare_logs([first], [written(tmp_path / "c.jsonl", groups, 100)], {})
    assert not apart.paired
    assert apart.notes == ("20 and 20 prompts, none in both: independent samples",)
    assert apart.curve.difference.tolist() == [0.0] * 4
    assert np.isinf(apart.curve.prompts).all()
    one = written(tmp_path / "d.jsonl", groups[:1])
    with pytest.raises(LabError, match="two prompts at least"):
        compare_logs([first], [one], {})
    (tmp_path / "e.jsonl").write_text('{"prompt": "p0", "reward": null}\n' * 2)
    with pytest.raises(LabError, match=r"no sample: .*, 2 rows without a reward left out"):
        compare_logs([first], [tmp_path / "e.jsonl"], {})
