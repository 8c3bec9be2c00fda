"""Bundles hold the records of their run, read as it does, and unpack to the run that they were."""

import os
import zipfile
from pathlib import Path

import pytest
import torch
from stored import damage, forget, lines
from written_runs import record_of

from maxk_lab.errors import LabError, LabWarning
from maxk_lab.execution.archive import Bundle, find_run, find_runs, unpack, write_bundle
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.run import Run, execute
from maxk_lab.sweep_file.load import as_mapping, load_spec


@pytest.fixture
def run(plan):
    """A run of which every cell but the last has a record."""
    run = RunDirectory("results/small")
    run.write_spec(plan.spec)
    for cell in plan.cells[:-1]:
        run.write(record_of(cell))
    return run


@pytest.fixture
def file(run):
    """Its bundle."""
    return write_bundle(run, Path("small.zip")).path


def test_a_bundle_reads_as_its_run_and_unpacks_to_it_and_equal_runs_give_equal_files(
    run, plan, file
):
    forget(run.root, "0" * 16)
    bundle = find_run(file)
    assert isinstance(bundle, Bundle)
    assert bundle.name == "small.zip"
    assert bundle.spec() == plan.spec
    assert bundle.records(plan) == run.records(plan)
    assert bundle.stale(plan) == 0
    copy = unpack(bundle, Path("other"))
    assert copy.root == Path("other/small")
    assert copy.spec_path.read_bytes() == run.spec_path.read_bytes()
    assert lines(bundle.root) == lines(copy.root) == lines(run.root)
    for equal in (RunDirectory(run.root.absolute()), copy):
        again = write_bundle(equal, Path("again.zip"))
        assert again.path.read_bytes() == file.read_bytes()
        assert (again.records, again.missing, again.absent) == (7, 1, ())


def test_records_that_the_run_does_not_use_stay_behind(run, plan):
    run.write_spec(plan.spec.model_copy(update={"seeds": (0,)}))
    written = write_bundle(run, Path("less.zip"))
    assert (written.records, written.missing, written.stale) == (4, 0, 3)
    damage(run.root, plan.cells[0].id)
    with pytest.warns(LabWarning, match="unreadable record"):
        written = write_bundle(RunDirectory(run.root), Path("less.zip"))
    assert (written.records, written.missing, written.stale) == (3, 1, 3)


def test_runs_and_bundles_are_found_by_name_path_age_and_the_folder_of_their_report(file, run):
    older = RunDirectory("results/older")
    older.write_spec(run.spec())
    os.utime(older.spec_path, (1, 1))
    assert find_run().name == "small"
    assert find_run("older").root == find_run("results/older").root == older.root
    file = file.rename("results/sent.zip")
    Path("results/photos.zip").write_bytes(b"no zip file")
    assert {one.name for one in find_runs("results")} == {"small", "sent.zip", "older"}
    for name in ("sent", "sent.zip", "results/sent.zip"):
        assert find_run(name).place == Path("results/sent.zip")
    assert [one.name for one in find_runs("results/sent.zip")] == ["sent.zip"]
    (folder := Path("golden/small")).mkdir(parents=True)
    for place in (Path("golden/small.zip"), folder / "small.zip"):
        file = file.rename(place)
        assert find_run("golden/small").place == find_run("golden/small/").place == place
    with pytest.raises(LabError, match=r"no run 'oldr' \(did you mean older\?\); known: small, o"):
        find_run("oldr")
    with pytest.raises(LabError, match="no runs under"):
        find_run(None, "nowhere")


def test_nothing_is_written_into_a_bundle_and_flipped_bits_never_pass(file, run, plan):
    """Wherever a bit flips, a record that is read is the one that was bundled."""
    sound, originals = file.read_bytes(), run.records(plan)
    with pytest.raises(LabError, match=r"small.zip is a bundle, and .*maxk-lab run small.zip"):
        execute(Run(plan, Bundle(file)), force=True)
    assert file.read_bytes() == sound
    noticed = 0
    for at in range(7, len(sound), len(sound) // 60):
        file.write_bytes(sound[:at] + bytes([sound[at] ^ 4]) + sound[at + 1 :])
        try:
            bundle = Bundle(file)
            records = bundle.records(plan)
            noticed += len(records) < len(originals)
        except LabError:
            noticed += 1
            continue
        assert all(record in originals for record in records)
    assert noticed > 50


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"notes.txt": "mine"}, "no bundle of maxk-lab.*a zip file without bundle.json"),
        ({"bundle.json": '{"format": 3, "maxk_lab": "9.0"}'}, "maxk-lab 9.0 wrote it in format 3"),
        ({"bundle.json": "[]"}, "is no bundle of maxk-lab, or damaged"),
        ({"bundle.json": '{"format": 2}'}, "no bundle of maxk-lab.*no item named 'spec.yaml'"),
        ({}, "File is not a zip file"),
    ],
)
def test_a_file_that_is_no_bundle_is_refused(tmp_path, files, why):
    path = tmp_path / "other.zip"
    path.write_bytes(b"no zip file")
    for name, text in files.items():
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, text)
    with pytest.raises(LabError, match=rf"other.zip .*{why}"):
        Bundle(path).spec()


def test_no_name_in_a_bundle_leads_out_of_its_folder(file, tmp_path):
    with zipfile.ZipFile(file, "a") as archive:
        for name in ("cache/../../../escaped", "/escaped", "records/../../escaped.jsonl"):
            archive.writestr(name, "x")
    bundle = Bundle(file)
    inside = {path.relative_to(bundle.root).parts[0] for path in bundle.root.rglob("*")}
    assert inside <= {"records", "cache", "spec.yaml"}
    run = unpack(bundle, tmp_path / "there")
    assert all(path.is_relative_to(run.root) for path in tmp_path.rglob("escaped*"))


def test_records_of_an_unpacked_bundle_and_of_the_run_in_its_place_count(run, plan, file):
    first, second, *_ = run.ids()
    record = run.read(first)
    assert record is not None
    record.timings["seconds"] = 9.0
    run.write(record)
    forget(run.root, second)
    for _ in range(2):  # once more it changes nothing
        unpacked = unpack(Bundle(file), Path("results"))
        assert len(unpacked.records(plan)) == 7
        assert (newer := unpacked.read(first)) is not None
        assert newer.timings["seconds"] == 9.0


def test_what_lies_in_the_place_of_a_run_is_left_alone(run, plan, file):
    written = as_mapping(plan.spec)
    trained = written | {"training": {"batch": 8, "grid": written["gradient"]["grid"]}}
    for spec, key in ((written | {"seeds": 3}, "seeds"), (trained, "training")):
        run.write_spec(load_spec(spec))
        before = run.spec_path.read_bytes()
        with pytest.raises(LabError, match=rf"results/small is another run .* differ in {key}\."):
            unpack(Bundle(file), Path("results"))
        assert run.spec_path.read_bytes() == before
    for path in (Path("second/small/notes.txt"), Path("third/small")):
        path.parent.mkdir(parents=True)
        path.write_text("mine")
        folder = Path(path.parts[0])
        with pytest.raises(LabError, match=f"{folder}/small is not empty and no run"):
            unpack(Bundle(file), folder)
        assert [one for one in folder.rglob("*") if one.is_file()] == [path]


TRAINED = """\
name: trained
seeds: [0]
environment: {name: bandit, arms: 4}
policy: {checkpoint: begun.pt}
training:
  batch: 8
  evaluate: {instances: 4, samples: 4}
  grid: {estimator: maxk, baseline: centred, n: 4, k: 2}
"""


def test_cached_evaluations_go_along_and_named_files_and_code_do_not(write):
    torch.save({"policy": {"logits": torch.zeros(4)}}, "begun.pt")
    content = {"mine.rewards:short": {"sha256": "0" * 64}}
    run = RunDirectory("results/trained")
    run.write_spec(load_spec(write(TRAINED)).model_copy(update={"content": content}))
    run.cache_path.mkdir()
    (run.cache_path / "reference-bandit-exact-1.json").write_text("{}")
    written = write_bundle(run, Path("trained.zip"))
    assert written.absent == ("begun.pt", "mine.rewards:short")
    copy = unpack(Bundle(written.path), Path("other"))
    assert copy.spec_path.read_bytes() == run.spec_path.read_bytes()
    assert (copy.cache_path / "reference-bandit-exact-1.json").is_file()
