"""Files that are no bundles, or bundles that mean harm: each is refused before it is unpacked."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from maxk_lab.errors import LabError
from maxk_lab.sweeps.run.bundles import contents
from maxk_lab.sweeps.run.bundles.bundle import Bundle
from maxk_lab.sweeps.run.bundles.unpack import unpack


def edited_manifest(**changes: object) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        manifest = json.loads(files["manifest.json"])
        files["manifest.json"] = json.dumps(manifest | changes).encode()

    return change


@pytest.mark.parametrize(
    "name",
    [
        "../outside",
        "/tmp/outside",
        "cache/../../outside",
        "files/a/../../../outside",
        "cache\\..\\outside",
        "C:outside",
        "cells/.packed",
        "setup.py",
        "cache/a/b",
        "files/" + "x" * 300,
        "cache/a\nb",
    ],
)
def test_files_outside_of_the_run_are_refused(name: str, rewrite) -> None:
    path = rewrite(lambda files: files.update({name: b"harm"}))
    with pytest.raises(LabError, match=r"small.zip is no bundle .*a file that no bundle has"):
        Bundle.opened(path)


def test_links_are_refused(file: Path) -> None:
    link = zipfile.ZipInfo("cache/link")
    link.create_system, link.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(LabError, match="'cache/link' is no file in it but a link"):
        Bundle.opened(file)


def test_what_would_unfold_to_too_much_is_refused(file: Path, rewrite, monkeypatch) -> None:
    monkeypatch.setattr(contents, "_FREE", 2**20)
    with zipfile.ZipFile(file, "a", zipfile.ZIP_LZMA) as archive:
        archive.writestr("cache/bomb", bytes(20 * 2**20))
    with pytest.raises(LabError, match=r"would unfold to 2\d,\d+,\d+, which no record does"):
        Bundle.opened(file)


def test_a_file_that_unfolds_to_more_than_it_says_is_damaged(rewrite) -> None:
    path = rewrite(lambda files: files.update({"cache/more": bytes(2**20)}))
    path.write_bytes(path.read_bytes().replace(struct.pack("<L", 2**20), struct.pack("<L", 100)))
    found = contents.Contents.opened(path)
    assert found.sizes["cache/more"] == 100
    with pytest.raises(ValueError, match=r"Bad CRC-32|not those that were bundled"):
        found.read("cache/more")


def test_a_later_format_is_told(rewrite) -> None:
    path = rewrite(edited_manifest(format=2, maxk_lab="9.1", news={}))
    with pytest.raises(LabError, match=r"format 2, which maxk-lab 9.1 has written.*a newer"):
        Bundle.opened(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "1"},
        {"records": {"cells/none.zip": {}}},
        {"records": []},
        {"named": {"short": "files/x"}},
        {"more": 1},
    ],
)
def test_a_strange_manifest_is_refused(changes: dict[str, object], rewrite) -> None:
    with pytest.raises(LabError, match=r"small.zip is no bundle of maxk-lab: its manifest.json"):
        Bundle.opened(rewrite(edited_manifest(**changes)))


def test_files_that_are_not_listed_or_are_there_twice_are_refused(file: Path) -> None:
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("cache/extra", b"1")
    with pytest.raises(LabError, match="does not list cache/extra"):
        Bundle.opened(file)
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("cache/extra", b"2")
    with pytest.raises(LabError, match="two files of one name"):
        Bundle.opened(file)


@pytest.mark.parametrize("end", [0, 10, 500, -30])
def test_what_is_cut_off_is_told(file: Path, end: int) -> None:
    file.write_bytes(file.read_bytes()[:end])
    with pytest.raises(LabError, match=r"small.zip is no bundle, or what is left of a damaged one"):
        Bundle.opened(file)


def test_other_zip_files_and_folders_are_refused(tmp_path: Path) -> None:
    foreign = tmp_path / "photos.zip"
    with zipfile.ZipFile(foreign, "w") as archive:
        archive.writestr("photo", b"1")
    with pytest.raises(LabError, match=r"photos.zip is no bundle .* a zip file without manifest"):
        Bundle.opened(foreign)
    with pytest.raises(LabError, match="it is no file but a folder"):
        Bundle.opened(tmp_path)
    with pytest.raises(LabError, match="does not exist"):
        Bundle.opened(tmp_path / "none.zip")


def test_nothing_of_a_damaged_bundle_is_unpacked(rewrite) -> None:
    def cut(files: dict[str, bytes]) -> None:
        shard = next(name for name in files if name.startswith("cells/"))
        files[shard] = files[shard][:900]

    bundle = Bundle.opened(rewrite(cut))
    with pytest.raises(LabError, match=r"small.zip/\w+.json is damaged: "):
        unpack(bundle, Path("other"))
    assert not Path("other").exists()
