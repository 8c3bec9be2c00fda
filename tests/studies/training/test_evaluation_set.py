"""The evaluation set of a training: kept once, redrawn when damaged, the user's own; its optima."""

import json

import pytest
import torch

from maxk_lab.environments.catalogue import ENVIRONMENTS, hash_of_data
from maxk_lab.environments.environment import make_environment
from maxk_lab.errors import LabError
from maxk_lab.seeds import derive_seed
from maxk_lab.studies.training import held_out as module
from maxk_lab.studies.training.held_out import evaluation_set, optima_record
from maxk_lab.training.settings import EvaluationSettings

SIX = EvaluationSettings(instances=6)


def make(name="tsp", **parameters):
    row = ENVIRONMENTS.get(name)
    own = row.settings.defaults(later=False) | parameters
    policy = row.policy_settings.defaults(later=False)
    return make_environment({"name": name} | own, policy)


@pytest.fixture(scope="module")
def tsp5():
    return make(num_loc=5)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_instances_are_drawn_from_the_seed_alone_with_and_without_a_cache(tsp5, tmp_path):
    expected = tsp5.instances(6, derive_seed("instances", 7), held_out=True)
    for cache in (None, tmp_path, tmp_path):
        instances, data = evaluation_set(tsp5, SIX, 7, cache)
        assert torch.equal(instances["locs"], expected["locs"])
        assert data == {"instances": tsp5.instances_hash(expected), "source": "drawn"}
    assert names(tmp_path) == [f"instances-{7:016x}-6-{data['instances']}.npz"]


@pytest.mark.parametrize("damage", [None, b"no archive", "other"])
def test_kept_instances_are_drawn_again_only_from_a_damaged_file(
    tsp5, damage, tmp_path, monkeypatch
):
    instances, data = evaluation_set(tsp5, SIX, 7, tmp_path)
    (path,) = tmp_path.iterdir()
    if damage is None:
        monkeypatch.setattr(tsp5, "instances", lambda *args, **more: pytest.fail("drawn again"))
    elif damage == "other":  # whole, but not what its name says
        tsp5.write_instances(tsp5.instances(6, 0), path)
    else:
        path.write_bytes(damage)
    again, same = evaluation_set(tsp5, SIX, 7, tmp_path)
    assert torch.equal(again["locs"], instances["locs"])
    assert torch.equal(tsp5.read_instances(path)["locs"], instances["locs"])
    assert (same, names(tmp_path)) == (data, [path.name])


def test_environments_without_files_draw_each_time(tmp_path):
    bandit = make("bandit")
    instances, data = evaluation_set(bandit, SIX, 3, tmp_path)
    assert torch.equal(instances, bandit.instances(6, derive_seed("instances", 3), held_out=True))
    assert data == {"instances": None, "source": "drawn"}
    record = optima_record(bandit, instances, "auto", tmp_path, data)
    assert record == {
        "kind": "enumeration",
        "exact": True,
        "per_instance": instances.max(1).values.tolist(),
    }
    assert names(tmp_path) == []


def test_a_file_of_the_users_own_is_taken_up_to_so_many_instances(tsp5, tmp_path):
    path = tmp_path / "own.npz"
    own = tsp5.instances(8, 1)
    tsp5.write_instances(own, path)
    given = {"path": str(path), "sha256": hash_of_data(path, "tsp")}
    for most, expected in ((6, 6), (128, 8)):
        settings = EvaluationSettings(instances=most, data=given)
        instances, data = evaluation_set(tsp5, settings, 7, tmp_path)
        assert torch.equal(instances["locs"], own["locs"][:expected])
        assert data == {"instances": tsp5.instances_hash(own[:expected]), "source": str(path)}
    tsp5.write_instances(tsp5.instances(8, 2), path)
    with pytest.raises(LabError, match=r"own\.npz has changed since the run was planned"):
        evaluation_set(tsp5, settings, 7, tmp_path)
    with pytest.raises(LabError, match="Bandit reads no files of instances"):
        evaluation_set(make("bandit"), settings, 7, tmp_path)


def test_optima_are_kept_by_environment_method_and_hash(tsp5, tmp_path, monkeypatch):
    instances, data = evaluation_set(tsp5, SIX, 7, None)
    record = optima_record(tsp5, instances, "auto", tmp_path, data)
    assert (record["kind"], record["exact"]) == ("milp", True)
    (path,) = tmp_path.iterdir()
    assert path.name == f"reference-tsp-milp-{data['instances']}.json"
    assert json.loads(path.read_text()) == record
    for damage in ("", "[]", '{"kind": "milp"}'):
        path.write_text(damage)
        assert optima_record(tsp5, instances, "auto", tmp_path, data) == record
    monkeypatch.setattr(module, "optima", lambda *args: pytest.fail("computed again"))
    assert optima_record(tsp5, instances, "exact", tmp_path, data) == record


def test_optima_go_on_where_they_were_interrupted(tsp5, tmp_path, monkeypatch):
    instances, data = evaluation_set(tsp5, SIX, 7, None)
    expected = optima_record(tsp5, instances, "auto", None, data)
    monkeypatch.setattr(module, "BLOCK", 2)
    compute, calls = module.optima, []

    def interrupted(environment, part, method):
        calls.append(len(part))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return compute(environment, part, method)

    monkeypatch.setattr(module, "optima", interrupted)
    with pytest.raises(KeyboardInterrupt):
        optima_record(tsp5, instances, "auto", tmp_path, data)
    assert optima_record(tsp5, instances, "auto", tmp_path, data) == expected
    assert calls == [2, 2, 2, 2]


def test_where_there_is_no_optimum_auto_says_why_and_exact_refuses(tmp_path):
    sdvrp = make("sdvrp", num_loc=20)
    instances, data = evaluation_set(sdvrp, SIX, 0, tmp_path)
    record = optima_record(sdvrp, instances, "auto", tmp_path, data)
    assert record == {"kind": "none", "reason": "no optimum is known for this environment and size"}
    assert optima_record(sdvrp, instances, "none", tmp_path, data)["kind"] == "none"
    with pytest.raises(LabError, match=r"evaluate.reference: exact: "):
        optima_record(sdvrp, instances, "exact", tmp_path, data)
