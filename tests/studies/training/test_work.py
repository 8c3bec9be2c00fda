"""Training studies: their metrics, the same after any interruption; a failure stays in its cell."""

import dataclasses
import json
import traceback

import numpy as np
import pytest
import torch
from small_environments import parameters_of, policy_of

from maxk_lab.environments.checkpoints import policy_state
from maxk_lab.environments.environment import make_environment
from maxk_lab.environments.language.completions import Completions
from maxk_lab.files import resolved_file
from maxk_lab.studies.training import work
from maxk_lab.training.batch import METRICS
from maxk_lab.training.evaluation import max_curves

EVALUATE = {"every": 2, "instances": 5, "samples": 6}
TRAINING = {
    "steps": 4,
    "batch": 16,
    "learning_rate": 0.01,
    "inner_epochs": 2,
    "kl": {"place": "reward"},
    "checkpoint_every": 2,
    "evaluate": EVALUATE,
}
SIZES = {
    "toy_llm": {"vocab_size": 6, "max_length": 4, "prompt_length": 4},
    "tsp": {"num_loc": 5},
    "bandit": {},
}


def unit(name="toy_llm", seed=0, training=None, **parameters):
    environment = parameters_of(name, **SIZES[name] | parameters)
    settings = TRAINING | (training or {})
    return {"environment": environment, "policy": policy_of(name), "seed": seed} | {
        "training": settings
    }


def cell(estimator="reinforce", baseline="centred", n=4, k=1):
    point = {"estimator": estimator, "baseline": baseline, "n": n, "k": k}
    return {"id": "-".join(map(str, point.values())), **point}


def outcomes(about, *cells, cache=None, event=lambda *_: None):
    """The metrics or the errors of cells, by id."""
    return dict(work.measure(about, cells, cache=cache, event=event))


def measured(about, *cells, **keywords):
    """The metrics of cells, in their order."""
    results = outcomes(about, *cells, **keywords)
    assert [*results] == [each["id"] for each in cells]
    for result in results.values():
        if isinstance(result, Exception):
            raise result
    return [*results.values()]


def untimed(metrics):
    """The bytes of the metrics without the clock."""
    return json.dumps({k: v for k, v in metrics.items() if k != "timings"}, sort_keys=True)


ENDS = ("low", "value", "high")
FIRST, SECOND = cell(), cell("maxk", "subloo", 4, 3)


def test_the_metrics_of_two_cells():
    training = {"evaluate": EVALUATE | {"instances": 12}}
    first, metrics = measured(unit(training=training), FIRST, SECOND)
    json.dumps(metrics, allow_nan=False)
    assert (metrics["steps"], metrics["rollouts"]) == (4, 4 * 16)
    series, final = metrics["evaluations"], metrics["final"]
    assert (series["step"], series["rollouts"]) == ([0, 2, 4], [0, 32, 64])
    assert series["ks"] == final["ks"] == [1, 2, 3, 4, 6]
    for end in ENDS:
        assert [len(row) for row in series[end]] == [5] * 3
        assert len(final[end]) == 6
        assert series[end][-1] == [final[end][k - 1] for k in final["ks"]]
    assert all(low <= value <= high for low, value, high in zip(*(final[end] for end in ENDS)))
    assert final["value"] == sorted(final["value"])
    for k, values_at_k in zip(final["ks"], final["per_instance"]):
        assert sum(values_at_k) / 12 == pytest.approx(final["value"][k - 1], rel=1e-9)
    assert set(metrics["log"]) == {"step", *METRICS}
    assert {len(values) for values in metrics["log"].values()} == {4}
    assert (metrics["undefined"], metrics["extras"], metrics["data"]["source"]) == ({}, {}, "drawn")
    seconds = metrics["timings"]["evaluations_seconds"]
    assert seconds[0] == 0 < seconds[1] < seconds[2]
    # The same start and data, and another training.
    assert first["evaluations"]["value"][0][:2] == series["value"][0][:2]
    assert first["log"]["reward/mean"][0] == metrics["log"]["reward/mean"][0]
    assert first["final"]["value"] != final["value"]


def assert_same_policy(path, expected):
    state = policy_state(path)
    assert all(torch.equal(expected[key], state[key]) for key in expected)


def test_snapshots_start_trainings_and_damaged_files_cost_only_time(tmp_path):
    about = unit(training={"steps": 2, "snapshots": [0, 1, 2]})
    (metrics,) = measured(unit(training={"steps": 2}), FIRST)
    path = tmp_path / f"training-{FIRST['id']}.pt"
    snapshots = [tmp_path / f"policy-{FIRST['id']}-{step}.pt" for step in (0, 1, 2)]

    def of_another_policy():
        torch.save(torch.load(path) | {"policy_parameters": {}}, path)

    damages = (
        lambda: None,
        of_another_policy,
        lambda: path.write_bytes(path.read_bytes()[:5000]),
        snapshots[1].unlink,
    )
    for damage in damages:
        damage()
        assert untimed(*measured(about, FIRST, cache=tmp_path)) == untimed(metrics)
        assert sorted(tmp_path.glob("policy-*.pt")) == snapshots
        assert not list(tmp_path.glob(".*"))
    for step, snapshot in enumerate(snapshots):
        state = torch.load(snapshot, weights_only=True)
        origin = json.loads(json.dumps([about["environment"], about["policy"]]))
        assert [state["environment"], state["policy_parameters"]] == origin
        assert state["step"] == step
    assert_same_policy(path, state["policy"])

    warm = unit(training={"steps": 1, "evaluate": EVALUATE, "snapshots": [0]})
    warm["policy"] |= {"checkpoint": resolved_file(str(snapshots[1]), "checkpoint")}
    measured(warm, SECOND, cache=tmp_path)
    started = tmp_path / f"policy-{SECOND['id']}-0.pt"
    assert_same_policy(started, policy_state(snapshots[1]))
    assert "checkpoint" not in torch.load(started, weights_only=True)["policy_parameters"]


def with_rollouts(monkeypatch, change=lambda rollouts: rollouts, draws=None):
    """Change the rollouts of every environment; `draws` gets what it draws instances of."""

    def changed(*arguments):
        environment = make_environment(*arguments)
        roll, draw = environment.rollout, environment.instances

        def instances(count, seed, *, held_out=False):
            if draws is not None:
                draws.append((count, seed, held_out))
            return draw(count, seed, held_out=held_out)

        monkeypatch.setattr(environment, "instances", instances)
        monkeypatch.setattr(environment, "rollout", lambda *a, **b: change(roll(*a, **b)))
        return environment

    monkeypatch.setattr(work, "make_environment", changed)


def test_cells_share_their_instances_and_choose_on_others(monkeypatch):
    with_rollouts(monkeypatch, draws=(draws := []))
    training = {"steps": 2, "evaluate": EVALUATE | {"temperatures": [1.0, 2.0], "tuning": 3}}
    measured(unit(training=training), FIRST, SECOND)
    measured(unit(seed=1, training=training), FIRST)
    assert draws[:4] == draws[4:8]
    assert not {seed for _, seed, _ in draws[:4]} & {seed for _, seed, _ in draws[8:]}
    sizes = [(count, held_out) for count, _, held_out in draws[:4]]
    assert sizes == [(5, True), (3, False), *2 * [(16 // 4, False)]]


def die(rollouts):
    raise RuntimeError("the simulator died")


def explode(rollouts):
    return dataclasses.replace(rollouts, rewards=torch.full_like(rollouts.rewards, 3e38))


@pytest.mark.parametrize(
    ("flaw", "kind", "message"),
    [
        (explode, FloatingPointError, "the training loss is -?inf at step 1"),
        (die, RuntimeError, "the simulator died"),
    ],
)
def test_a_failure_is_of_its_cell_with_the_traceback(monkeypatch, flaw, kind, message):
    calls = iter(range(100))
    with_rollouts(monkeypatch, lambda rollouts: flaw(rollouts) if next(calls) == 2 else rollouts)
    cells = [cell("reinforce", "none", 4), cell("maxk", "subloo", 3, 2), cell("maxk", "none", 4, 2)]
    about = unit(training={"steps": 2, "kl": {}})
    failed, unfit, done = outcomes(about, *cells).values()
    with pytest.raises(kind, match=message):
        raise failed
    assert "training/step.py" in "".join(traceback.format_exception(failed))
    assert "3 does not divide 16" in str(unfit)
    assert done["steps"] == 2


def test_log_probs_without_a_gradient_fail_the_cell_before_it_is_trained(monkeypatch):
    log_probs = Completions.log_probs
    monkeypatch.setattr(Completions, "log_probs", lambda *of: log_probs(*of).detach())
    (error,) = outcomes(unit(), FIRST, event=lambda *_: pytest.fail("trained")).values()
    assert "environment's log_probs returns a tensor that has no gradient" in str(error)


@pytest.mark.parametrize(("least", "reason"), [(1, "fewer than K scorable"), (99, "no sample of")])
def test_completions_without_a_score_are_left_out_with_the_reason(
    tmp_path, monkeypatch, least, reason
):
    (tmp_path / f"picky_{least}.py").write_text(
        "def long(prompts, completions, **columns):\n"
        f"    return [float(len(c)) if len(c) > {least} else None for c in completions]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    (metrics,) = measured(unit(training={"steps": 1}, rewards=(f"picky_{least}:long",)), FIRST)
    json.dumps(metrics, allow_nan=False)
    assert metrics["log"]["frac_unscorable"][0] > 0
    assert reason in metrics["undefined"]["value"]
    assert (set(metrics["final"]["value"]) == {None}) == (least == 99)


STEP = {"start": "multistart", "k_schedule": {"kind": "step", "first": 1, "until": 3}}
DECODED = STEP | {
    "snapshots": [0, 1, 4],
    "evaluate": EVALUATE
    | {
        "last": 2,
        "extras": ["greedy", "multistart", "multistart_augmentation"],
        "temperatures": [0.5, 1.0, 2.0],
        "tuning": 3,
    },
}
ONE = cell("maxk", "centred", 4, 3)


@pytest.fixture(scope="module")
def decoded(tmp_path_factory):
    """The metrics of a policy that was decoded in every way, and its cache."""
    cache = tmp_path_factory.mktemp("decoded")
    (metrics,) = measured(unit("tsp", training=DECODED), ONE, cache=cache)
    return metrics, cache


def test_the_end_is_the_mean_over_the_last_checkpoints(decoded):
    metrics, cache = decoded
    evaluations = torch.load(cache / f"training-{ONE['id']}.pt")["evaluations"]
    last = evaluations[-2:]
    assert [each["step"] for each in last] == metrics["last"] == [2, 4]
    assert all(not each["ways"] for each in evaluations[:-2])
    at_the_end, final = metrics["evaluations"]["value"][-1], metrics["final"]
    assert at_the_end != [final["value"][k - 1] for k in metrics["evaluations"]["ks"]]

    def mean(rewards):
        curves = [max_curves(each) if each.dim() == 2 else each for each in rewards]
        return np.mean([curve.numpy() for curve in curves], axis=0)

    ends = {float(temperature): end for temperature, end in metrics["tempered"].items()}
    assert list(ends) == [0.5, 2.0]
    curves = {"final": mean([each["rewards"] for each in last])}
    for way in (*ends, "forced"):
        curves[way] = mean([each["ways"]["held_out"][way] for each in last])
    for way, curve in curves.items():
        end = ends[way] if way in ends else metrics[way]
        assert end["value"] == pytest.approx(curve.mean(0).tolist())
        for k, values in zip(end["ks"], end["per_instance"], strict=True):
            assert values == pytest.approx(curve[:, k - 1].tolist())
    tuning = metrics["tuning"]
    for name, extra in metrics["extras"].items():
        values, tuned = (mean([e["ways"][of][name] for e in last]) for of in ("held_out", "tuning"))
        assert extra["per_instance"] == pytest.approx(values.tolist())
        assert tuning["extras"][name] == pytest.approx(tuned.mean())
    assert set(tuning["tempered"]) == {"0.5", "1.0", "2.0"}
    for temperature, values in tuning["tempered"].items():
        curve = mean([each["ways"]["tuning"][float(temperature)] for each in last])
        assert curve.shape == (3, 6)
        assert values == pytest.approx(curve.mean(0).tolist())
    assert {name: extra["trajectories"] for name, extra in metrics["extras"].items()} == {
        "greedy": 1,
        "greedy_multistart": 5,
        "multistart_sampling": 6,
        "greedy_multistart_augmented": 40,
    }


def test_more_ways_of_decoding_change_none_of_the_others(decoded):
    about = unit("tsp", training=STEP | {"evaluate": EVALUATE | {"last": 2}})
    (alone,) = measured(about, ONE)
    for part in ("final", "evaluations", "log", "last"):
        assert decoded[0][part] == alone[part]
    assert alone["tempered"] == alone["extras"] == {}
    assert not {"tuning", "forced"} & set(alone)


class KilledError(BaseException):
    """What no study may catch."""


def test_an_interrupted_cell_goes_on_to_the_same_bytes(decoded, tmp_path):
    metrics, cache = decoded
    about, steps = unit("tsp", training=DECODED), []

    def stop(name, payload):
        steps.append((name, payload["step"], payload["steps"]))
        if payload["step"] == 4:
            raise KilledError

    with pytest.raises(KilledError):
        measured(about, ONE, cache=tmp_path, event=stop)
    assert steps == [("training", step, 4) for step in (1, 2, 3, 4)]
    # From the checkpoint with the decodings of step 2, and from the finished training.
    for _ in range(2):
        assert untimed(*measured(about, ONE, cache=tmp_path)) == untimed(metrics)
    for step in DECODED["snapshots"]:
        name = f"policy-{ONE['id']}-{step}.pt"
        assert_same_policy(tmp_path / name, policy_state(cache / name))


def test_the_log_is_thinned_evenly(monkeypatch):
    monkeypatch.setattr(work, "LOG_POINTS", 4)
    about = unit("bandit", training={"steps": 7, "kl": {}})
    log = measured(about, cell("reinforce", "none"))[0]["log"]
    assert log["step"] == [0, 2, 4, 6]
    assert {len(values) for values in log.values()} == {4}
    assert log["kl/token"] == [None] * 4
