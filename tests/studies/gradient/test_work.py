"""The work of gradient studies: the same bytes with any cells, cache or interruption."""

import json
import sys

import pytest
from sweep_files import measured_here

from maxk_lab import leaving
from maxk_lab.planning.plan import make_plan
from maxk_lab.studies.gradient.work import measure
from maxk_lab.sweep_file.load import load_spec

SWEEP = """\
name: small
seeds: [0]
environment: {name: bandit, arms: 5}
gradient:
  stages: [0, 4]
  warmup: {batch: 4, n: 4}
  instances: 3
  pool: 64
  partitions: 2
  grid: {estimator: maxk, baseline: [none, centred], n: [4], k: [2]}
"""


@pytest.fixture
def plan_of(tmp_path):
    def plan(*overrides, environment="bandit, arms: 5"):
        path = tmp_path / "small.yaml"
        path.write_text(SWEEP.replace("bandit, arms: 5", environment))
        return make_plan(load_spec(path, overrides))

    return plan


def test_cache_and_more_baselines_change_no_byte(plan_of, tmp_path):
    """A baseline that is added later is measured from the cached pools, without a rollout."""

    def metrics(baselines, cache):
        events, cells = [], {}
        for unit in plan_of(f"gradient.grid.baseline=[{baselines}]").units:
            cells |= measured_here(unit, cache, lambda name, payload: events.append(name))
        return {cell: json.dumps(numbers) for cell, numbers in cells.items()}, {*events}

    expected, _ = metrics("subloo, centred, none", None)
    first, drawn = metrics("none, centred", tmp_path)
    later, reused = metrics("none, centred, subloo", tmp_path)
    assert later == expected
    assert first.items() < expected.items()
    assert (drawn, reused) == ({"warmup", "scores", "cells"}, {"cells"})


def test_a_pool_or_policy_of_older_code_is_not_reused(plan_of, tmp_path, monkeypatch):
    """The names of cached files depend on the user's code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def metrics(factor, cache):
        code = f"def by_code(x):\n    return {factor} * x[..., 0]\n"
        (tmp_path / "rewards_by_code.py").write_text(code)
        sys.modules.pop("rewards_by_code", None)
        gaussian = "gaussian, reward: 'rewards_by_code:by_code'"
        (unit,) = plan_of("gradient.stages=4", environment=gaussian).units
        return measured_here(unit, cache)

    older, expected = metrics(1.5, tmp_path), metrics(70.5, None)
    assert metrics(70.5, tmp_path) == expected
    assert [each["value"] for each in older.values()] != [e["value"] for e in expected.values()]


def test_enumerated_and_sampled_cells_share_a_pool(plan_of, tmp_path):
    unit = plan_of("gradient.stages=0").units[0].as_dict()
    axes = {"id": "c", "estimator": "reinforce", "baseline": "eob", "n": 4, "k": 1, "partitions": 1}
    events = []

    def measured(**settings):
        cells = measure(
            unit | settings,
            [axes | settings],
            cache=tmp_path,
            event=lambda name, payload: events.append(name),
        )
        return dict(cells)["c"]

    sampled, enumerated, again = measured(), measured(complete=True), measured()
    assert (events.count("scores"), len(list(tmp_path.glob("pool-*")))) == (3, 1)
    assert (sampled["against"], enumerated["against"]) == ("exact", "complete")
    assert sampled == again
    assert sampled["proxies"] == enumerated["proxies"]
    json.dumps(enumerated, allow_nan=False)


def test_a_warm_up_that_is_interrupted_resumes_to_the_same_bytes(plan_of, tmp_path, monkeypatch):
    unit = plan_of().units[1]
    assert unit.stage == 4

    def measured(cache, most):
        """The metrics and the number of steps, left after `most` steps."""
        steps = []
        monkeypatch.setattr(leaving, "_checks", [lambda: len(steps) >= most])
        metrics = measured_here(
            unit, cache, lambda name, payload: steps.extend([name] * (name == "warmup"))
        )
        return json.dumps(metrics), len(steps)

    expected, _ = measured(None, 1000)
    for most in (1, 2):
        with pytest.raises(leaving.Leaving):
            measured(tmp_path, most)
    saved = sorted(int(path.stem.rpartition("-")[2]) for path in tmp_path.glob("policy-*.pt"))
    assert saved == [1, 3]
    assert measured(tmp_path, 1000) == (expected, 1)
