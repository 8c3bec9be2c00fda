"""Bundles unpack to the run that they were, beside nothing else, and go on when stopped."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import yaml

from maxk_lab.errors import LabError
from maxk_lab.files import StorageError
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.bundles import unpack as unpacking
from maxk_lab.sweeps.run.bundles.bundle import Bundle
from maxk_lab.sweeps.run.bundles.named import named_files
from maxk_lab.sweeps.run.bundles.unpack import unpack, unpack_spec
from maxk_lab.sweeps.run.bundles.write import write_bundle
from maxk_lab.sweeps.run.leases import exclusive
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.load import load_spec

ELSEWHERE = Path("other")


def test_the_run_is_as_it_was(run: RunDirectory, plan: Plan, file: Path) -> None:
    there = unpack(Bundle.opened(file), ELSEWHERE)
    assert there.root == ELSEWHERE / "small"
    assert there.spec_path.read_bytes() == run.spec_path.read_bytes()
    assert [there.cells.read(one) for one in run.ids()] == [run.cells.read(i) for i in run.ids()]
    assert there.records(plan) == run.records(plan)
    again = write_bundle(there, Path("again.zip"))
    assert again.path.read_bytes() == file.read_bytes()


def test_what_the_run_has_already_stays(run: RunDirectory, plan: Plan, file: Path) -> None:
    first, second, third, *_ = sorted(run.cells_path.iterdir())
    kept, gone = first.read_bytes(), second.read_bytes()
    record = run.read(first.stem)
    assert record is not None
    record.timings["seconds"] = 9.0
    run.write(record)
    newer = first.read_bytes()
    second.unlink()
    third.write_bytes(b"{}")
    assert unpack(Bundle.opened(file), Path("results")).records(plan) == run.records(plan)
    assert first.read_bytes() == newer != kept
    assert run.cells.read(second.stem) == gone
    assert len(run.records(plan)) == 7
    assert run.problems == []


def test_another_run_in_its_place_is_left_alone(run: RunDirectory, plan: Plan, file: Path) -> None:
    run.write_spec(plan.spec.model_copy(update={"seeds": (0, 1, 2)}))
    before = run.spec_path.read_bytes()
    with pytest.raises(LabError, match=r"results/small is another run .* differ in seeds"):
        unpack(Bundle.opened(file), Path("results"))
    assert run.spec_path.read_bytes() == before


@pytest.mark.parametrize("there", ["notes.txt", "cells/0123456789abcdef.json"])
def test_a_folder_with_other_things_is_left_alone(file: Path, there: str) -> None:
    path = ELSEWHERE / "small" / there
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(LabError, match=f"is not empty and no run: there is {path.stem}"):
        unpack(Bundle.opened(file), ELSEWHERE)
    assert [one for one in ELSEWHERE.rglob("*") if one.is_file()] == [path]


def test_a_link_or_a_file_in_its_place_is_refused(file: Path, tmp_path: Path) -> None:
    (ELSEWHERE / "small").mkdir(parents=True)
    (ELSEWHERE / "small/cells").symlink_to(tmp_path)
    with pytest.raises(LabError, match="symbolic link"):
        unpack(Bundle.opened(file), ELSEWHERE)
    (tmp_path / "third").mkdir()
    (tmp_path / "third/small").write_text("")
    with pytest.raises(LabError, match="third/small is a file"):
        unpack(Bundle.opened(file), tmp_path / "third")


def test_an_unpacking_that_was_stopped_goes_on(plan: Plan, file: Path, monkeypatch) -> None:
    bundle, written = Bundle.opened(file), []

    def full(path: Path, data: bytes) -> None:
        written.append(path)
        raise StorageError(f"{path} cannot be written: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(unpacking, "write_atomically", full)
        with pytest.raises(StorageError):
            unpack(bundle, ELSEWHERE)
    assert written == [ELSEWHERE / "small/spec.yaml"]
    assert len(unpack(bundle, ELSEWHERE).records(plan)) == 7


def test_a_run_at_work_is_disturbed_by_nothing(run: RunDirectory, file: Path) -> None:
    with exclusive(run.root, "a repair"):
        assert unpack(Bundle.opened(file), Path("results")).ids() == run.ids()
        min(run.cells_path.iterdir()).unlink()
        with pytest.raises(LabError, match="a repair"):
            unpack(Bundle.opened(file), Path("results"))


TRAINED = """\
name: trained
seeds: [0]
environment: {name: tsp, num_loc: 5}
training:
  steps: 1
  batch: 8
  evaluate: {every: 1, instances: 4, samples: 4, data: %s}
  grid: {estimator: maxk, baseline: centred, n: 4, k: 2}
"""


def test_evaluation_data_goes_along(write, tmp_path: Path) -> None:
    import numpy as np

    data = tmp_path / "towns.npz"
    np.savez(data, locs=np.random.default_rng(0).random((4, 5, 2), dtype="float32"))
    spec = load_spec(write(TRAINED % data))
    run = RunDirectory("results/trained")
    run.write_spec(spec)
    (run.cache_path).mkdir()
    (run.cache_path / "reference-tsp-exact-1.json").write_text("{}")
    written = write_bundle(run, tmp_path / "trained.zip")
    assert written.absent == ()
    content, bundle = data.read_bytes(), Bundle.opened(written.path)
    data.unlink()
    there = unpack(bundle, ELSEWHERE)
    sweep = yaml.safe_load(there.spec_path.read_text())
    found = Path(sweep["training"]["evaluate"]["data"]["path"])
    assert found.read_bytes() == content
    assert found.is_relative_to(ELSEWHERE / "trained/files")
    assert (there.cache_path / "reference-tsp-exact-1.json").is_file()
    assert load_spec(there.spec_path).study("training") == there.spec().study("training")
    assert load_spec(unpack_spec(bundle, tmp_path / "looked")).name == "trained"
    # And once more, where it has moved to.
    assert unpack(bundle, ELSEWHERE).root == there.root
    (absent,) = named_files(spec, checkpoints=False).absent
    assert absent.startswith(f"{data}: there is no file {data}")


def test_code_that_the_sweep_rests_on_is_told(run: RunDirectory, plan: Plan) -> None:
    content = {
        "mine.rewards:short": {"sha256": "0" * 64},
        "baseline half": {"package": "halves", "version": "1.2", "sha256": "0" * 64},
    }
    spec = plan.spec.model_copy(update={"content": content})
    assert named_files(spec, checkpoints=True).absent == [
        "what is behind mine.rewards:short",
        "what is behind baseline half (halves 1.2)",
    ]


def test_checkpoints_that_a_sweep_starts_from_go_along_on_request(plan: Plan) -> None:
    start = Path("start.pt")
    start.write_bytes(b"weights")
    sha256 = hashlib.sha256(b"weights").hexdigest()
    policy = {**plan.spec.policy, "checkpoint": {"path": "start.pt", "sha256": sha256}}
    spec = plan.spec.model_copy(update={"policy": policy})
    without = named_files(spec, checkpoints=False)
    assert (without.files, without.absent) == ({}, ["start.pt, which is in it --with checkpoints"])
    place = f"files/{sha256[:16]}/start.pt"
    found = named_files(spec, checkpoints=True)
    assert (found.files, found.places) == ({place: b"weights"}, {sha256: place})
    start.write_bytes(b"other weights")
    (absent,) = named_files(spec, checkpoints=True).absent
    assert "start.pt has changed" in absent
