"""Training studies: their metrics, the same after any interruption; a failure stays in its cell."""

import dataclasses
import json
import traceback

import numpy as np
import pytest
import torch

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.checkpoints import policy_state
from maxk_lab.environments.environment import make_environment
from maxk_lab.environments.language.completions import Completions
from maxk_lab.files import resolved_file
from maxk_lab.studies.training import work as training_study
from maxk_lab.studies.training.work import measure as measure_training
from maxk_lab.training.batch import METRICS
from maxk_lab.training.evaluation import max_curves

TRAINING = {
    "steps": 7,
    "batch": 16,
    "learning_rate": 0.01,
    "inner_epochs": 2,
    "kl": {"place": "reward"},
    "checkpoint_every": 3,
    "evaluate": {"every": 3, "instances": 5, "samples": 6},
}


def defaults(name, **values):
    """Every parameter of an environment and of its policy."""
    row = ENVIRONMENTS.get(name)
    parameters, policy = (settings.defaults() for settings in (row.settings, row.policy_settings))
    for key, value in values.items():
        (parameters if key in parameters else policy)[key] = value
    return {"name": name} | parameters, policy


def unit(name="toy_llm", seed=0, training=TRAINING, **values):
    if name == "toy_llm":
        values = {
            "vocab_size": 6,
            "max_length": 4,
            "prompt_length": 4,
            "embed_dim": 16,
            "num_layers": 1,
        } | values
    environment, policy = defaults(name, **values)
    return {"environment": environment, "policy": policy, "seed": seed, "training": training}


def cell(estimator="reinforce", baseline="centred", n=4, k=1):
    return {
        "id": f"{estimator}-{baseline}-{n}-{k}",
        "estimator": estimator,
        "baseline": baseline,
        "n": n,
        "k": k,
    }


def quiet(name, payload):
    pass


def measured(about, *cells, cache=None, event=quiet):
    results = dict(measure_training(about, cells, cache=cache, event=event))
    for result in results.values():
        if isinstance(result, Exception):
            raise result
    return results


def untimed(results):
    """The bytes of the metrics but for the clock's."""
    return json.dumps(
        {name: {k: v for k, v in m.items() if k != "timings"} for name, m in results.items()},
        sort_keys=True,
    )


CELLS = (cell(), cell("maxk", "subloo", 4, 3))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "values"),
    [("toy_llm", {}), ("tsp", {"num_loc": 5, "embed_dim": 16, "num_heads": 2})],
)
def test_the_metrics_of_every_kind_of_environment(name, values):
    found = measured(unit(name, **values), *CELLS)
    assert list(found) == [c["id"] for c in CELLS]
    metrics = found["maxk-subloo-4-3"]
    json.dumps(metrics, allow_nan=False)
    assert (metrics["steps"], metrics["rollouts"]) == (7, 7 * 16)
    series, final = metrics["evaluations"], metrics["final"]
    assert series["step"] == [0, 3, 6, 7]
    assert series["rollouts"] == [0, 48, 96, 112]
    assert series["ks"] == final["ks"] == [1, 2, 3, 4, 6]
    for key in ("value", "low", "high"):
        assert [len(row) for row in series[key]] == [5] * 4
        assert len(final[key]) == 6
        assert series[key][-1] == [final[key][k - 1] for k in final["ks"]]
    assert all(a <= v <= b for a, v, b in zip(final["low"], final["value"], final["high"]))
    assert final["value"] == sorted(final["value"])
    for k, values_at_k in zip(final["ks"], final["per_instance"]):
        assert sum(values_at_k) / 5 == pytest.approx(final["value"][k - 1], rel=1e-9)
    assert set(metrics["log"]) == {"step", *METRICS}
    assert {len(values) for values in metrics["log"].values()} == {7}
    # Of five instances, one may carry the spread of all.
    assert set(metrics["undefined"]) <= {"low", "high"}
    assert metrics["extras"] == {}
    assert metrics["data"]["source"] == "drawn"
    seconds = metrics["timings"]["evaluations_seconds"]
    assert seconds[0] == 0
    assert seconds == sorted(seconds)

    first, second = found.values()
    starts = [each["evaluations"]["value"][0] for each in (first, second)]
    assert starts[0][:2] == starts[1][:2]
    assert first["log"]["reward/mean"][0] == second["log"]["reward/mean"][0]
    assert first["final"]["value"] != second["final"]["value"]


class KilledError(BaseException):
    """What no study may catch."""


@pytest.mark.slow
def test_a_damaged_checkpoint_or_one_of_another_policy_is_no_obstacle(tmp_path):
    measured(unit(vocab_size=5), CELLS[0], cache=tmp_path)
    whole = untimed(measured(unit(), CELLS[0], cache=tmp_path))
    path = tmp_path / f"training-{CELLS[0]['id']}.pt"
    path.write_bytes(path.read_bytes()[:5000])
    assert untimed(measured(unit(), CELLS[0], cache=tmp_path)) == whole
    assert policy_state(path)
    assert not list(tmp_path.glob(".*"))


TINY_TSP = {
    "num_loc": 5,
    "embed_dim": 16,
    "num_heads": 2,
    "num_encoder_layers": 1,
    "feedforward_hidden": 16,
}


@pytest.mark.slow
def test_policies_are_kept_on_the_way_and_trainings_go_on_from_them(tmp_path):
    about, one = unit(training=TRAINING | {"snapshots": [0, 2, 7]}), CELLS[0]
    whole = untimed(measured(about, one, cache=tmp_path))
    assert whole == untimed(measured(unit(), one))
    kept = [tmp_path / f"policy-{one['id']}-{step}.pt" for step in (0, 2, 7)]
    assert sorted(tmp_path.glob("policy-*.pt")) == kept
    for path, step in zip(kept, (0, 2, 7)):
        state = torch.load(path, weights_only=True)
        assert state["step"] == step
        given = json.loads(json.dumps([about["environment"], about["policy"]]))
        assert [state["environment"], state["policy_parameters"]] == given
    last = torch.load(tmp_path / f"training-{one['id']}.pt", weights_only=True)
    assert all(torch.equal(last["policy"][key], state["policy"][key]) for key in state["policy"])
    # One that training has passed is trained again, to the same.
    before = policy_state(kept[1])
    kept[1].unlink()
    assert untimed(measured(about, one, cache=tmp_path)) == whole
    assert all(torch.equal(before[key], value) for key, value in policy_state(kept[1]).items())

    warm = unit(training=TRAINING | {"snapshots": [0]})
    warm["policy"] = warm["policy"] | {"checkpoint": resolved_file(str(kept[1]), "checkpoint")}
    measured(warm, CELLS[1], cache=tmp_path)
    started = policy_state(tmp_path / f"policy-{CELLS[1]['id']}-0.pt")
    assert all(torch.equal(before[key], started[key]) for key in before)
    state = torch.load(tmp_path / f"training-{CELLS[1]['id']}.pt", weights_only=True)
    assert "checkpoint" not in state["policy_parameters"]


def dies(rollouts):
    raise RuntimeError("the simulator died")


def explodes(rollouts):
    return dataclasses.replace(rollouts, rewards=torch.full_like(rollouts.rewards, 3e38))


def with_rollouts(monkeypatch, change, asked=None):
    """Every environment from now on with rollouts that `change` makes of its own.

    The instances that it was asked for are noted in `asked`.
    """

    def changed(*arguments):
        environment = make_environment(*arguments)
        roll, draw = environment.rollout, environment.instances

        def instances(count, seed, *, held_out=False):
            if asked is not None:
                asked.append((count, seed, held_out))
            return draw(count, seed, held_out=held_out)

        def rollout(policy, *arguments, **keywords):
            return change(environment, roll, policy, *arguments, **keywords)

        monkeypatch.setattr(environment, "instances", instances)
        monkeypatch.setattr(environment, "rollout", rollout)
        return environment

    monkeypatch.setattr(training_study, "make_environment", changed)


def test_cells_share_their_instances_and_choose_and_are_told_on_others(monkeypatch):
    asked = []

    def plain(environment, roll, *arguments, **keywords):
        return roll(*arguments, **keywords)

    with_rollouts(monkeypatch, plain, asked)
    evaluate = TRAINING["evaluate"] | {"temperatures": [1.0, 2.0], "tuning": 3}
    measured(unit(training=TRAINING | {"evaluate": evaluate}), *CELLS)
    measured(unit(seed=1, training=TRAINING | {"evaluate": evaluate}), CELLS[0])
    first, second, other = asked[:9], asked[9:18], asked[18:]
    assert first == second
    assert not {seed for _, seed, _ in first} & {seed for _, seed, _ in other}
    assert [(count, held_out) for count, _, held_out in first] == [
        (5, True), (3, False), *7 * [(16 // 4, False)],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("flaw", "kind", "message"),
    [
        (explodes, FloatingPointError, "the training loss is -?inf at step 1"),
        (dies, RuntimeError, "the simulator died"),
    ],
)
def test_a_failure_is_of_its_cell_with_the_traceback(monkeypatch, flaw, kind, message):
    calls = []

    def third(environment, roll, *arguments, **keywords):
        calls.append(1)
        found = roll(*arguments, **keywords)
        return flaw(found) if len(calls) == 3 else found

    with_rollouts(monkeypatch, third)
    cells = [cell("reinforce", "none", 4), cell("maxk", "subloo", 3, 2), cell("maxk", "none", 4, 2)]
    about = unit(training=TRAINING | {"kl": {}})
    failed, unfit, done = dict(measure_training(about, cells, cache=None, event=quiet)).values()
    with pytest.raises(kind, match=message):
        raise failed
    assert "training/step.py" in "".join(traceback.format_exception(failed))
    assert "3 does not divide 16" in str(unfit)
    assert done["steps"] == 7


def test_log_probs_without_a_gradient_fail_the_cell_before_it_is_trained(monkeypatch):
    log_probs = Completions.log_probs
    monkeypatch.setattr(Completions, "log_probs", lambda *of: log_probs(*of).detach())
    steps = []
    measure = measure_training(unit(), [cell()], cache=None, event=lambda *one: steps.append(one))
    (result,) = dict(measure).values()
    assert "environment's log_probs returns a tensor that has no gradient" in str(result)
    assert not steps


@pytest.mark.parametrize(("least", "said"), [(1, "fewer than K scorable"), (99, "no sample of")])
def test_completions_without_a_score_are_left_out_and_said(tmp_path, monkeypatch, least, said):
    (tmp_path / f"picky_{least}.py").write_text(
        "def long(prompts, completions, **columns):\n"
        f"    return [float(len(c)) if len(c) > {least} else None for c in completions]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = measured(unit(rewards=(f"picky_{least}:long",)), cell())[cell()["id"]]
    json.dumps(found, allow_nan=False)
    assert found["log"]["frac_unscorable"][0] > 0
    assert said in found["undefined"]["value"]
    assert (set(found["final"]["value"]) == {None}) == (least == 99)


ALL_WAYS = {
    "extras": ["greedy", "multistart", "multistart_augmentation"],
    "temperatures": [0.5, 1.0, 2.0],
    "tuning": 3,
}
DECODED = TRAINING | {
    "start": "multistart",
    "k_schedule": {"kind": "step", "first": 1, "until": 4},
    "snapshots": [0, 2, 7],
    "evaluate": TRAINING["evaluate"] | {"last": 2} | ALL_WAYS,
}
ONE = cell("maxk", "centred", 4, 3)


@pytest.fixture(scope="module")
def decoded(tmp_path_factory):
    """The metrics of a policy that was decoded in every way, and its cache."""
    cache = tmp_path_factory.mktemp("decoded")
    return measured(unit("tsp", training=DECODED, **TINY_TSP), ONE, cache=cache), cache


def test_the_end_is_the_mean_over_the_last_checkpoints(decoded):
    found, state = decoded[0][ONE["id"]], torch.load(decoded[1] / f"training-{ONE['id']}.pt")
    last = state["evaluations"][-2:]
    assert [each["step"] for each in last] == found["last"] == [6, 7]
    assert all(not each["ways"] for each in state["evaluations"][:-2])
    curves = np.mean([max_curves(each["rewards"]).numpy() for each in last], axis=0)
    assert found["final"]["value"] == pytest.approx(curves.mean(0).tolist())
    assert found["final"]["per_instance"][1] == pytest.approx(curves[:, 1].tolist())
    at_the_end = found["evaluations"]["value"][-1]
    assert at_the_end != [found["final"]["value"][k - 1] for k in found["evaluations"]["ks"]]

    def mean(of, way):
        parts = [each["ways"][of][way] for each in last]
        curves = [max_curves(part) if part.dim() == 2 else part for part in parts]
        return np.mean([curve.numpy() for curve in curves], axis=0)

    whole = {float(t): one for t, one in found["tempered"].items()} | {"forced": found["forced"]}
    assert list(whole) == [0.5, 2.0, "forced"]
    for way, told in whole.items():
        curves = mean("held_out", way)
        assert told["value"] == pytest.approx(curves.mean(0).tolist())
        assert told["per_instance"][-1] == pytest.approx(curves[:, -1].tolist())
    for name, extra in found["extras"].items():
        assert extra["per_instance"] == pytest.approx(mean("held_out", name).tolist())
        assert found["tuning"]["extras"][name] == pytest.approx(mean("tuning", name).mean())
    assert set(found["tuning"]["tempered"]) == {"0.5", "1.0", "2.0"}
    for temperature, told in found["tuning"]["tempered"].items():
        curves = mean("tuning", float(temperature))
        assert curves.shape == (3, 6)
        assert told == pytest.approx(curves.mean(0).tolist())
    costs = {name: extra["trajectories"] for name, extra in found["extras"].items()}
    assert costs == {
        "greedy": 1,
        "greedy_multistart": 5,
        "multistart_sampling": 6,
        "greedy_multistart_augmented": 40,
    }


def test_more_ways_of_decoding_change_none_of_the_others(decoded):
    evaluate = TRAINING["evaluate"] | {"last": 2}
    about = unit("tsp", training=DECODED | {"evaluate": evaluate}, **TINY_TSP)
    found, alone = decoded[0][ONE["id"]], measured(about, ONE)[ONE["id"]]
    for part in ("final", "evaluations", "log", "last"):
        assert found[part] == alone[part]
    assert alone["tempered"] == alone["extras"] == {}
    assert not {"tuning", "forced"} & set(alone)


@pytest.mark.slow
@pytest.mark.parametrize("left_at", [4, 6])
def test_an_interrupted_cell_goes_on_to_the_same_bytes(decoded, tmp_path, left_at):
    about, steps = unit("tsp", training=DECODED, **TINY_TSP), []
    whole, cache = decoded

    def stop(name, payload):
        steps.append((name, payload["step"], payload["steps"]))
        if payload["step"] == left_at:
            raise KilledError

    with pytest.raises(KilledError):
        measured(about, ONE, cache=tmp_path, event=stop)
    assert steps == [("training", step, 7) for step in range(1, left_at + 1)]
    # Twice: from the checkpoint, and from the finished training, whose last one holds all.
    for _ in range(2):
        assert untimed(measured(about, ONE, cache=tmp_path)) == untimed(whole)
    for step in DECODED["snapshots"]:
        kept = f"policy-{ONE['id']}-{step}.pt"
        before, after = policy_state(cache / kept), policy_state(tmp_path / kept)
        assert all(torch.equal(before[key], after[key]) for key in before)


def test_the_log_is_thinned_evenly(monkeypatch):
    monkeypatch.setattr(training_study, "LOG_POINTS", 4)
    about = unit("bandit", training=TRAINING | {"kl": {}})
    log = measured(about, cell("reinforce", "none"))["reinforce-none-4-1"]["log"]
    assert log["step"] == [0, 2, 4, 6]
    assert {len(values) for values in log.values()} == {4}
    assert log["kl/token"] == [None] * 4
