"""Bundles hold the very records of their run, and say so of each; equal runs give equal files."""

from __future__ import annotations

import json
import re
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from maxk_lab.errors import LabError
from maxk_lab.sweeps.plan.plan import Plan
from maxk_lab.sweeps.run.bundles.bundle import Bundle
from maxk_lab.sweeps.run.bundles.write import write_bundle
from maxk_lab.sweeps.run.find import find_run, find_runs
from maxk_lab.sweeps.run.fsck import examine
from maxk_lab.sweeps.run.records import RunDirectory


def test_a_bundle_reads_as_its_run(run: RunDirectory, plan: Plan, file: Path) -> None:
    bundle = find_run(file)
    assert isinstance(bundle, Bundle)
    assert bundle.name == "small.zip"
    assert bundle.spec() == run.spec() == plan.spec
    assert bundle.ids() == run.ids()
    assert bundle.records(plan) == run.records(plan)
    assert [bundle.cells.read(one) for one in run.ids()] == [run.cells.read(i) for i in run.ids()]
    assert bundle.read(plan.cells[-1].id) is None
    assert bundle.problems == []
    assert bundle.stale(plan) == []


def test_equal_runs_give_equal_files(run: RunDirectory, file: Path) -> None:
    for path in sorted(run.cells_path.iterdir(), reverse=True):
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data)
    again = write_bundle(RunDirectory(run.root.absolute()), Path("again.zip"))
    assert again.path.read_bytes() == file.read_bytes()
    assert (again.records, again.missing, again.absent) == (7, 1, ())


def test_records_of_many_shards_are_found(run: RunDirectory, plan: Plan, monkeypatch) -> None:
    monkeypatch.setattr("maxk_lab.sweeps.run.bundles.write.RECORDS", 3)
    bundle = Bundle.opened(write_bundle(run, Path("many.zip")).path)
    assert len(bundle.contents.named("cells")) == 3
    assert bundle.records(plan) == run.records(plan)


def test_what_the_run_does_not_use_stays_behind(run: RunDirectory, plan: Plan) -> None:
    run.write_spec(plan.spec.model_copy(update={"seeds": (0,)}))
    written = write_bundle(run, Path("less.zip"))
    assert (written.records, written.missing, written.stale) == (4, 0, 3)


def test_damaged_records_are_not_handed_on(run: RunDirectory) -> None:
    path = min(run.cells_path.iterdir())
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(LabError, match=f"1 damaged record is not handed on .{path}"):
        write_bundle(run, Path("bad.zip"))
    assert not Path("bad.zip").exists()


def test_bundles_are_found_by_name_and_listed_beside_runs(run: RunDirectory, file: Path) -> None:
    file.rename("results/sent.zip")
    Path("results/photos.zip").write_bytes(b"no zip file")
    assert {one.name for one in find_runs("results")} == {"small", "sent.zip"}
    for name in ("sent", "sent.zip", "results/sent.zip"):
        assert find_run(name).root == Path("results/sent.zip")
    assert [one.name for one in find_runs("results/sent.zip")] == ["sent.zip"]


def test_nothing_is_written_into_a_bundle(file: Path, plan: Plan) -> None:
    before, bundle = file.read_bytes(), Bundle.opened(file)
    for write in (lambda: bundle.write(None), lambda: bundle.write_spec(plan.spec)):
        with pytest.raises(LabError, match=r"small.zip is a bundle, and .*maxk-lab run small.zip"):
            write()
    with pytest.raises(OSError, match="Not a directory"):
        (bundle.cache_path).mkdir(parents=True)
    assert file.read_bytes() == before


def test_a_record_that_was_edited_is_damaged(run: RunDirectory, plan: Plan, rewrite) -> None:
    """Also when its own checksum was made anew: it is not what was bundled."""
    victim = run.ids()[2]
    edited = run.read(victim)
    assert edited is not None
    edited.timings["seconds"] = 1.0

    def edit(files: dict[str, bytes]) -> None:
        shard = next(name for name in files if name.startswith("cells/"))
        with zipfile.ZipFile(BytesIO(files[shard])) as archive:
            held = {name: archive.read(name) for name in archive.namelist()}
        held[f"{victim}.json"] = edited.to_bytes()
        file = BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name, data in held.items():
                archive.writestr(name, data)
        files[shard] = file.getvalue()

    bundle = Bundle.opened(rewrite(edit))
    assert len(bundle.records(plan)) == 6
    assert list(bundle.damaged) == [victim]
    assert re.search(f"small.zip/{victim}.json: .* not those that were bundled", bundle.problems[0])
    assert [one.cell for one in examine(bundle).damaged] == [victim]


def test_damage_to_any_file_is_found(run: RunDirectory, plan: Plan, rewrite) -> None:
    def edit(files: dict[str, bytes]) -> None:
        files["spec.yaml"] = files["spec.yaml"].replace(b"small", b"SMALL")

    bundle = Bundle.opened(rewrite(edit, listed=False))
    assert {one.path for one in examine(bundle).damaged} == {Path("small.zip/spec.yaml")}
    with pytest.raises(LabError, match=r"small.zip/spec.yaml is damaged"):
        bundle.spec()
    assert len(bundle.records(plan)) == 7


def test_flipped_bits_never_pass(file: Path, run: RunDirectory, plan: Plan) -> None:
    """Wherever a bit flips, a record that is read is the one that was bundled."""
    sound, whole = file.read_bytes(), run.records(plan)
    noticed = 0
    for at in range(7, len(sound), len(sound) // 60):
        file.write_bytes(sound[:at] + bytes([sound[at] ^ 4]) + sound[at + 1 :])
        try:
            bundle = Bundle.opened(file)
            found = bundle.records(plan)
            noticed += bool(examine(bundle).damaged)
        except LabError:
            noticed += 1
            continue
        assert all(record in whole for record in found)
    assert noticed > 50


def test_the_manifest_names_format_and_version(file: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    assert (manifest["format"], manifest["name"]) == (1, "small")
    assert set(manifest) == {"format", "name", "maxk_lab", "files", "records", "named"}
