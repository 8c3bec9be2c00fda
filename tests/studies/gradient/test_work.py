"""The work of gradient studies: the same bytes for any workers, cache or break."""

import json

import pytest

from maxk_lab import leaving
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.run import Run, execute
from maxk_lab.planning.plan import make_plan
from maxk_lab.studies.gradient.work import measure as measure_unit
from maxk_lab.sweep_file.load import load_spec

SWEEP = """\
name: small
seeds: [0, 1]
environment: {name: bandit, arms: 5}
gradient:
  stages: [0, 4]
  warmup: {batch: 4, n: 4}
  instances: 3
  pool: 64
  partitions: 2
  grid: {estimator: maxk, baseline: BASELINES, n: [4], k: [2]}
tracking: {wandb: disabled}
"""
LLM = """\
name: llm
seeds: [0]
environment:
  {name: toy_llm, task: deceptive, vocab_size: 5, max_length: 3, prompt_length: 3,
   rewards: ["rewards_by_code:by_code"]}
policy: {embed_dim: 8, num_layers: 1, num_heads: 1}
gradient: {instances: 2, pool: 16, grid: {estimator: maxk, baseline: centred, n: 4, k: 2}}
tracking: {wandb: disabled}
"""


@pytest.fixture
def spec(tmp_path):
    def load(baselines="[none, centred]"):
        path = tmp_path / "small.yaml"
        path.write_text(SWEEP.replace("BASELINES", baselines))
        return load_spec(path, [])

    return load


def metrics(spec, run):
    return {
        cell.id: json.dumps(run.read(cell.id).metrics, sort_keys=True)
        for cell in make_plan(spec).cells
    }


@pytest.mark.slow
@pytest.mark.deep
def test_workers_cache_and_more_baselines_change_no_byte(spec, tmp_path):
    one, two = RunDirectory(tmp_path / "one"), RunDirectory(tmp_path / "two")
    assert len(execute(Run(make_plan(spec()), one), jobs=1).done) == 8
    # The other way round: more baselines at once, in another order, with two workers.
    more = make_plan(spec("[subloo, centred, none]"))
    assert len(execute(Run(more, two), jobs=2).done) == 12
    expected = metrics(spec("[subloo, centred, none]"), two)
    assert metrics(spec(), one).items() <= expected.items()
    # A baseline that is added later is measured from the cached pools, without a rollout.
    events = []
    more = execute(
        Run(make_plan(spec("[none, centred, subloo]")), one),
        on_event=lambda name, payload: events.append((name, payload)),
    )
    assert (len(more.done), len(more.reused)) == (4, 8)
    assert not [payload for name, payload in events if payload.get("phase") in ("warmup", "scores")]
    assert metrics(spec("[none, centred, subloo]"), one) == expected


@pytest.mark.slow
@pytest.mark.deep
def test_forced_cells_are_measured_with_the_code_of_today(tmp_path, monkeypatch):
    """The names of pools do not tell the code of a reward."""
    monkeypatch.chdir(tmp_path)
    reward = "def by_code(prompts, completions, **columns): return [{} for one in completions]"
    (tmp_path / "rewards_by_code.py").write_text(reward.format("float(len(one))"))
    (tmp_path / "llm.yaml").write_text(LLM)
    wanted = load_spec(tmp_path / "llm.yaml", [])
    plan, run, fresh = make_plan(wanted), RunDirectory("run"), RunDirectory("fresh")
    execute(Run(plan, run))
    before = metrics(wanted, run)
    (tmp_path / "rewards_by_code.py").write_text(reward.format("7.0 * one.count('a') - len(one)"))
    execute(Run(plan, run), force=True)
    execute(Run(plan, fresh))
    assert metrics(wanted, run) == metrics(wanted, fresh) != before


def test_enumerated_and_sampled_cells_share_a_pool(tmp_path):
    unit = {
        "environment": {"name": "bandit", "arms": 4, "reward_shift": 0.0},
        "policy": {"init_std": 0.5, "dtype": "float64"},
        "warmup": {},
        "stage": 0,
        "seed": 0,
        "instances": 12,
        "pool": 64,
    }
    axes = {"estimator": "reinforce", "baseline": "eob", "n": 4, "k": 1, "partitions": 1}
    drawn = []

    def measured(asked):
        cells = [{"id": "c"} | axes | asked]
        found = measure_unit(
            unit | asked, cells, cache=tmp_path, event=lambda name, payload: drawn.append(name)
        )
        return dict(found)["c"]

    sampled, enumerated, again = measured({}), measured({"complete": True}), measured({})
    assert drawn.count("scores") == 12
    assert len(list(tmp_path.glob("pool-*"))) == 1
    assert (sampled["against"], enumerated["against"]) == ("exact", "complete")
    assert sampled == again
    assert sampled["proxies"] == enumerated["proxies"]
    json.dumps(enumerated, allow_nan=False)


class Watcher:
    """Asks to leave as soon as a number of steps has been told."""

    def __init__(self, steps):
        self.steps = steps

    def leaving(self):
        return self.steps <= 0

    def event(self, name, payload):
        self.steps -= name == "warmup"


def test_a_warm_up_is_left_and_gone_on_with(spec, tmp_path, monkeypatch):
    """Its numbers are those of one without a break, wherever that is."""
    plan = make_plan(spec())
    unit = next(unit for unit in plan.units if unit.stage == 4)
    cells = [cell.as_dict() for cell in unit.cells]

    def measured(cache, steps):
        watcher = Watcher(steps)
        monkeypatch.setattr(leaving, "_checks", [watcher.leaving])
        found = measure_unit(unit.as_dict(), cells, cache=cache, event=watcher.event)
        return json.dumps(list(found)), watcher.steps

    whole, _ = measured(None, 1000)
    for steps in (1, 2):
        with pytest.raises(leaving.Leaving):
            measured(tmp_path, steps)
    kept = sorted(int(path.stem.rpartition("-")[2]) for path in tmp_path.glob("policy-*.pt"))
    assert kept == [1, 3]
    assert measured(tmp_path, 1000) == (whole, 999)
