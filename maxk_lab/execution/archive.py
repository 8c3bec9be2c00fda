"""Bundles: a run in one zip file, to read, share and continue. Also finds runs by name.

A bundle holds the sweep, one segment with the records that count, the cache files of evaluations,
and the report as text. Equal runs give equal files.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Never

import maxk_lab
from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError
from maxk_lab.execution.records import RunDirectory, modified
from maxk_lab.execution.store import SUFFIX
from maxk_lab.files import save_atomically, write_atomically
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.content import files_in
from maxk_lab.sweep_file.model import Sweep

BUNDLE = ".zip"
_MANIFEST, _SPEC = "bundle.json", "spec.yaml"
# Increase it whenever an older maxk-lab cannot read a new bundle.
_FORMAT = 2
_UNPACKED = ("records", "cache", _SPEC)
# The first date that a zip file can hold: equal runs give equal files.
_DATE = (1980, 1, 1, 0, 0, 0)
# Damaged bytes may look like a password or an unknown compression to zipfile.
_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, ValueError)


def is_bundle(path: str | Path) -> bool:
    """Return whether a path is a file with the name of a bundle."""
    return Path(path).suffix == BUNDLE and os.path.isfile(path)


def has_manifest(path: Path) -> bool:
    """Return whether a file is a zip file with the manifest of a bundle."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _MANIFEST in archive.namelist()
    except (*_DAMAGE, OSError):
        return False


class Bundle(RunDirectory):
    """A run in a zip file; it is unpacked into a temporary folder when it is read."""

    @cached_property
    def _folder(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="maxk-lab-")

    @cached_property
    def root(self) -> Path:
        """The temporary folder of its files. Raises `LabError` if it cannot be unpacked."""
        folder = Path(self._folder.name)
        try:
            with zipfile.ZipFile(self.place) as archive:
                _check_format(archive)
                archive.getinfo(_SPEC)
                for info in archive.infolist():
                    if info.filename.partition("/")[0] in _UNPACKED and not info.is_dir():
                        archive.extract(info, folder)
        except FileNotFoundError:
            raise LabError(f"{self.place} does not exist") from None
        except (*_DAMAGE, OSError, LookupError, TypeError) as error:
            raise LabError(
                f"{self.place} is no bundle of maxk-lab, or damaged: {error}; "
                "write it again: maxk-lab bundle RUN"
            ) from None
        return folder

    def title(self, spec: Sweep) -> str:
        """Return the name of the run, also if the file was renamed."""
        return spec.name

    @property
    def report_path(self) -> Path:
        """The folder of its report, beside the file."""
        return self.place.with_name(f"{self.place.stem}-report")

    @property
    def changed(self) -> float:
        """The time when the file was written."""
        return modified(self.place)

    def for_writing(self, what: str) -> Never:
        """Raise `LabError`: nothing is written into a bundle."""
        raise LabError(
            f"{self.place} is a bundle, and {what} needs the run itself; "
            f"to unpack and continue it: maxk-lab run {self.place}"
        )


def _check_format(archive: zipfile.ZipFile) -> None:
    """Raise `ValueError` for a file that is no bundle, or a bundle of another format."""
    if _MANIFEST not in archive.namelist():
        raise ValueError(f"it is a zip file without {_MANIFEST}")
    manifest: dict[str, Any] = json.loads(archive.read(_MANIFEST))
    if manifest["format"] != _FORMAT:
        raise ValueError(
            f"maxk-lab {manifest['maxk_lab']} wrote it in format {manifest['format']}, "
            f"and this version reads {_FORMAT}"
        )


def unpack(bundle: Bundle, results: Path) -> RunDirectory:
    """Unpack a bundle into the folder of its run under `results`, and return the run.

    Existing files stay, and existing records count too. Raises `LabError` if the folder holds
    another run or other files.
    """
    spec = bundle.spec()
    run = RunDirectory(results / spec.name)
    keep_both = f"maxk-lab run {bundle.place} --results ANOTHER_FOLDER"
    if os.path.lexists(run.spec_path):
        before, after = (sweep.model_dump(mode="json") for sweep in (run.spec(), spec))
        differing = [
            key
            for key in dict.fromkeys((*before, *after))
            if key not in ("execution", "tracking") and before.get(key) != after.get(key)
        ]
        if differing:
            raise LabError(
                f"{run.root} is another run than that of {bundle.place}: they differ in "
                f"{', '.join(differing)}. To keep both: {keep_both}"
            )
    elif run.root.exists() and not (run.root.is_dir() and not os.listdir(run.root)):
        raise LabError(f"{run.root} is not empty and no run. Move it away, or: {keep_both}")
    for path in sorted(bundle.root.rglob("*")):
        copy = run.root / path.relative_to(bundle.root)
        if path.is_file() and not os.path.lexists(copy):
            write_atomically(copy, path.read_bytes())
    return run


@dataclass(frozen=True)
class Written:
    """A bundle on disk, with counts of its records.

    `missing` counts planned cells without a record, `stale` records of no planned cell. `absent`
    has the files and folders that the sweep names and the bundle lacks.
    """

    path: Path
    records: int
    missing: int
    stale: int
    absent: tuple[str, ...]


def write_bundle(
    run: RunDirectory, path: Path, *, report: Mapping[str, bytes] | None = None
) -> Written:
    """Write a run into one file atomically; `report` has the files of its report by name.

    Raises `StorageError` if the file cannot be written.
    """
    plan = make_plan(run.spec())
    heads = [run.store.heads[record.cell["id"]] for record in run.records(plan)]
    segment = b"".join(run.store.read(head) for head in heads)
    files = {_SPEC: run.spec_path.read_bytes()}
    files |= {f"report/{name}": data for name, data in (report or {}).items()}
    cached = {path for unit in plan.units for path in run.cached(unit, "evaluation")}
    files |= {f"cache/{path.name}": path.read_bytes() for path in cached}
    about = {"format": _FORMAT, "name": plan.spec.name, "maxk_lab": maxk_lab.__version__}
    manifest = json.dumps(about, indent=1, sort_keys=True).encode()
    place = f"records/{hashlib.sha256(segment).hexdigest()[:16]}{SUFFIX}"
    entries = [(_MANIFEST, manifest), (place, segment), *sorted(files.items())]

    def write(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w") as archive:
            for name, data in entries:
                info = zipfile.ZipInfo(name, _DATE)
                info.create_system, info.external_attr = 3, 0o644 << 16
                # Records repeat each other: LZMA needs two thirds of the bytes of Deflate.
                method = zipfile.ZIP_LZMA if name.endswith(SUFFIX) else zipfile.ZIP_DEFLATED
                archive.writestr(info, data, method, 9)

    save_atomically(path, write)
    named = (*files_in(plan.spec.model_dump(mode="json")), *plan.spec.content)
    missing = len(plan.cells) - len(heads)
    return Written(path, len(heads), missing, run.stale(plan), tuple(dict.fromkeys(named)))


def find_runs(results: str | Path = "results") -> list[RunDirectory]:
    """Return every run and bundle under `results`, latest first; `results` may be a bundle."""
    if os.path.isfile(results):
        return [Bundle(results)]
    runs = [RunDirectory(path.parent) for path in Path(results).glob("[!.]*/spec.yaml")]
    # A zip file without a manifest is not listed; opening it by name gives the error.
    runs += [Bundle(path) for path in Path(results).glob(f"[!.]*{BUNDLE}") if has_manifest(path)]
    return sorted(runs, key=lambda run: (-run.changed, run.name))


def find_run(
    name_or_path: str | Path | None = None, results: str | Path = "results"
) -> RunDirectory:
    """Return the run with a name under `results` or a path; the latest run if None.

    Raises `LabError` if there is no such run.
    """
    if name_or_path is not None:
        roots = Path(results) / name_or_path, Path(name_or_path)
        for root in roots:
            if os.path.lexists(root / "spec.yaml"):
                return RunDirectory(root)
            # A bundle may lie beside the folder of its report.
            for path in (f"{root}{BUNDLE}", root, root / f"{root.name}{BUNDLE}"):
                if os.path.isfile(path) and Path(path).suffix in (".yaml", ".yml"):
                    raise LabError(f"{path} is a sweep file; give the name of its run")
                if os.path.isfile(path):
                    return Bundle(path)
        for folder in filter(os.path.isdir, roots):
            raise LabError(f"{folder} is no run: there is no spec.yaml in it")
    runs = find_runs(results)
    if name_or_path is None and runs:
        return runs[0]
    if not runs:
        raise LabError(f"no runs under {results}; write a sweep file: maxk-lab init")
    names = [run.name for run in runs]
    also = did_you_mean(str(name_or_path), names)
    raise LabError(f"no run {str(name_or_path)!r}{also}; known: {', '.join(names)}")
