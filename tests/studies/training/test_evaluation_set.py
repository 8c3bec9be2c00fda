"""The evaluation set of a training: stored once, redrawn when damaged, the user's file; optima."""

import json

import pytest
import torch
from small_environments import make

from maxk_lab.environments.catalogue import hash_of_data
from maxk_lab.errors import LabError
from maxk_lab.seeds import derive_seed
from maxk_lab.studies.training import held_out
from maxk_lab.studies.training.held_out import evaluation_set, optima_record
from maxk_lab.training.settings import EvaluationSettings

SIX = EvaluationSettings(instances=6)


@pytest.fixture(scope="module")
def tsp5():
    return make("tsp", num_loc=5)


def test_instances_are_drawn_from_the_seed_and_again_only_if_the_file_is_damaged(
    tsp5, tmp_path, monkeypatch
):
    expected = tsp5.instances(6, derive_seed("instances", 7), held_out=True)
    data = {"instances": tsp5.instances_hash(expected), "source": "drawn"}
    path = tmp_path / f"instances-{7:016x}-6-{data['instances']}.npz"
    draw = tsp5.instances

    def check(cache):
        instances, described = evaluation_set(tsp5, SIX, 7, cache)
        assert torch.equal(instances["locs"], expected["locs"])
        assert described == data
        assert [*tmp_path.iterdir()] == ([path] if cache else [])

    damages = (
        lambda: path.write_bytes(b"no archive"),
        lambda: tsp5.write_instances(draw(6, 0), path),  # not what its name says
        lambda: monkeypatch.setattr(tsp5, "instances", lambda *_, **__: pytest.fail("drawn again")),
    )
    check(None)
    check(tmp_path)
    for damage in damages:
        damage()
        check(tmp_path)
        assert torch.equal(tsp5.read_instances(path)["locs"], expected["locs"])


def test_environments_without_files_draw_each_time(tmp_path):
    bandit = make("bandit")
    instances, data = evaluation_set(bandit, SIX, 3, tmp_path)
    assert torch.equal(instances, bandit.instances(6, derive_seed("instances", 3), held_out=True))
    assert data == {"instances": None, "source": "drawn"}
    best = instances.max(1).values.tolist()
    record = optima_record(bandit, instances, "auto", tmp_path, data)
    assert record == {"kind": "enumeration", "exact": True, "per_instance": best}
    assert [*tmp_path.iterdir()] == []


def test_a_file_of_the_user_is_read_up_to_the_number_of_instances(tsp5, tmp_path):
    path, content = tmp_path / "own.npz", tsp5.instances(8, 1)
    tsp5.write_instances(content, path)
    file = {"path": str(path), "sha256": hash_of_data(path, "tsp")}
    for most, expected in ((6, content[:6]), (128, content)):
        settings = EvaluationSettings(instances=most, data=file)
        instances, data = evaluation_set(tsp5, settings, 7, tmp_path)
        assert torch.equal(instances["locs"], expected["locs"])
        assert data == {"instances": tsp5.instances_hash(expected), "source": str(path)}
    tsp5.write_instances(tsp5.instances(8, 2), path)
    with pytest.raises(LabError, match=r"own\.npz has changed since the run was planned"):
        evaluation_set(tsp5, settings, 7, tmp_path)
    with pytest.raises(LabError, match="Bandit reads no files of instances"):
        evaluation_set(make("bandit"), settings, 7, tmp_path)


def test_optima_are_stored_and_go_on_where_they_were_interrupted(tsp5, tmp_path, monkeypatch):
    instances, data = evaluation_set(tsp5, SIX, 7, None)
    expected = optima_record(tsp5, instances, "auto", None, data)
    assert (expected["kind"], expected["exact"]) == ("milp", True)
    path = tmp_path / f"reference-tsp-milp-{data['instances']}.json"
    compute, calls = held_out.optima, []

    def interrupted(environment, block, method):
        calls.append(len(block))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return compute(environment, block, method)

    monkeypatch.setattr(held_out, "BLOCK", 2)
    monkeypatch.setattr(held_out, "optima", interrupted)
    with pytest.raises(KeyboardInterrupt):
        optima_record(tsp5, instances, "auto", tmp_path, data)
    for reference in ("auto", "exact"):
        assert optima_record(tsp5, instances, reference, tmp_path, data) == expected
    assert calls == [2, 2, 2, 2]
    assert [*tmp_path.iterdir()] == [path]
    assert json.loads(path.read_text()) == expected
    for damage in ("", "[]", '{"kind": "milp"}'):
        path.write_text(damage)
        assert optima_record(tsp5, instances, "auto", tmp_path, data) == expected


def test_without_an_optimum_auto_has_a_reason_and_exact_is_refused(tmp_path):
    sdvrp = make("sdvrp", num_loc=20)
    instances, data = evaluation_set(sdvrp, SIX, 0, tmp_path)
    record = optima_record(sdvrp, instances, "auto", tmp_path, data)
    assert record == {"kind": "none", "reason": "no optimum is known for this environment and size"}
    assert optima_record(sdvrp, instances, "none", tmp_path, data)["kind"] == "none"
    with pytest.raises(LabError, match=r"evaluate.reference: exact: "):
        optima_record(sdvrp, instances, "exact", tmp_path, data)
