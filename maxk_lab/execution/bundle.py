"""Runs found by their names: folders of results, and bundles, a run in one zip file.

A bundle is to hand on, to read wherever it is and to go on with. It holds the sweep, the records
that count as one segment, the files that the sweep names, what the cache keeps for reports, and the
report as text. Equal runs give equal files.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, Never

import yaml

import maxk_lab
from maxk_lab.catalogue import did_you_mean, load
from maxk_lab.errors import LabError
from maxk_lab.execution.records import RunDirectory, modified
from maxk_lab.execution.store import SUFFIX
from maxk_lab.files import hash_of_file, resolved_file, save_atomically, write_atomically
from maxk_lab.planning.identity import FILE_KEYS, without_paths
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.model import Sweep
from maxk_lab.sweep_file.studies import STUDIES
from maxk_lab.sweep_file.text import parse_sweep

BUNDLE = ".zip"
_MANIFEST, _SPEC = "bundle.json", "spec.yaml"
# Where the files that a sweep names lie in a bundle, and in a run that was unpacked from one.
FILES = "files"
# Raised whenever an older maxk-lab could not read a bundle, or would misread it.
_FORMAT = 2
_UNPACKED = ("records", "cache", FILES)
# The first date that a zip file can tell: equal runs give equal files.
_NO_DATE = (1980, 1, 1, 0, 0, 0)
# Of two runs that differ in nothing else it is said that they are the same.
_NOT_COMPARED = {"execution", "tracking"}
# What damaged bytes ask for may be anything, such as a password or an unknown compression.
_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, ValueError)


def is_bundle(path: str | Path) -> bool:
    """Whether a path is that of a file which would be a bundle, by its name."""
    return Path(path).suffix == BUNDLE and os.path.isfile(path)


def has_manifest(path: Path) -> bool:
    """Whether a file looks like a bundle, at a glance."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _MANIFEST in archive.namelist()
    except (*_DAMAGE, OSError):
        return False


class Bundle(RunDirectory):
    """A run that was bundled, to be read: it is unpacked into a folder that goes with it."""

    @cached_property
    def _folder(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="maxk-lab-")

    @cached_property
    def root(self) -> Path:
        """The folder of its files. Raises `LabError` where they cannot be unpacked."""
        folder = Path(self._folder.name)
        try:
            with zipfile.ZipFile(self.place) as archive:
                _check_format(archive)
                for one in archive.infolist():
                    if one.filename.partition("/")[0] in _UNPACKED and not one.is_dir():
                        archive.extract(one, folder)
                spec = _placed(archive.read(_SPEC), folder, folder)
        except FileNotFoundError:
            raise LabError(f"{self.place} does not exist") from None
        except (*_DAMAGE, OSError, LookupError, TypeError) as error:
            raise LabError(
                f"{self.place} is no bundle of maxk-lab, or damaged: {error}; "
                "have it sent again, or made anew: maxk-lab bundle RUN"
            ) from None
        (folder / _SPEC).write_bytes(spec)
        return folder

    def title(self, spec: Sweep) -> str:
        """Return the name of the run that was bundled, whatever the file is called."""
        return spec.name

    @property
    def report_path(self) -> Path:
        """The folder of its report, beside it."""
        return self.place.with_name(f"{self.place.stem}-report")

    @property
    def changed(self) -> float:
        """The time when the file was written."""
        return modified(self.place)

    def for_writing(self, what: str) -> Never:
        """Raise `LabError`: nothing is written into a bundle."""
        raise LabError(
            f"{self.place} is a bundle, and {what} needs the run itself; "
            f"this unpacks it and goes on with it: maxk-lab run {self.place}"
        )


def _check_format(archive: zipfile.ZipFile) -> None:
    """Raise `ValueError` for what is no bundle, or one of another version."""
    if _MANIFEST not in archive.namelist():
        raise ValueError(f"it is a zip file without {_MANIFEST}")
    manifest: dict[str, Any] = json.loads(archive.read(_MANIFEST))
    if manifest["format"] != _FORMAT:
        raise ValueError(
            f"maxk-lab {manifest['maxk_lab']} wrote it in format {manifest['format']}, "
            f"and this one reads {_FORMAT}"
        )


@dataclass(frozen=True)
class Written:
    """A bundle that was written: its records, the planned cells that have none, what is absent."""

    path: Path
    records: int
    missing: int
    stale: int
    absent: tuple[str, ...]

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.path.stat().st_size


def write_bundle(
    run: RunDirectory,
    path: Path,
    *,
    report: Mapping[str, bytes] | None = None,
    checkpoints: bool = False,
) -> Written:
    """Write a run into one file, all or nothing; equal runs give equal files.

    `report` has the files of its report by their names; with `checkpoints` all goes along that the
    cache keeps for later cells, trained policies too, and the checkpoints that the sweep names.
    Raises `StorageError` where it cannot be written.
    """
    plan = make_plan(run.spec())
    named, absent = named_files(plan.spec, checkpoints=checkpoints)
    heads = [run.store.heads[record.cell["id"]] for record in run.records(plan)]
    lines = [run.store.read(head) for head in heads]
    files = {_SPEC: run.spec_path.read_bytes(), **named}
    files |= {f"report/{name}": data for name, data in (report or {}).items()}
    which = "kept" if checkpoints else "evaluation"
    cached = {path for unit in plan.units for path in run.cached(unit, which)}
    files |= {f"cache/{path.name}": path.read_bytes() for path in cached}
    about = {"format": _FORMAT, "name": plan.spec.name, "maxk_lab": maxk_lab.__version__}
    manifest = json.dumps(about, indent=1, sort_keys=True).encode()
    segment = b"".join(lines)
    place = f"records/{hashlib.sha256(segment).hexdigest()[:16]}{SUFFIX}"
    entries = [(_MANIFEST, manifest), (place, segment), *sorted(files.items())]
    save_atomically(path, lambda file: _write(file, entries))
    missing = len(plan.cells) - len(lines)
    return Written(path, len(lines), missing, run.stale(plan), tuple(absent))


def _write(file: BinaryIO, entries: Iterable[tuple[str, bytes]]) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in entries:
            info = zipfile.ZipInfo(name, _NO_DATE)
            info.create_system, info.external_attr = 3, 0o644 << 16
            # Records repeat each other: by LZMA they take two thirds of what they take by Deflate.
            method = zipfile.ZIP_LZMA if name.endswith(SUFFIX) else zipfile.ZIP_DEFLATED
            archive.writestr(info, data, method, 9)


def unpack(bundle: Bundle, results: Path) -> RunDirectory:
    """Write what is in a bundle into the folder of its run under `results`, and return the run.

    What the run has already stays as it is, and its records count beside those of the bundle:
    stopped at any moment, the same call goes on. Raises `LabError` where anything else lies there.
    """
    spec = bundle.spec()
    run = RunDirectory(results / spec.name)
    _check_same(bundle, spec, run)
    if not os.path.lexists(run.spec_path):
        placed = _placed(bundle.spec_path.read_bytes(), bundle.root, run.root)
        write_atomically(run.spec_path, placed)
    for path in sorted(bundle.root.rglob("*")):
        copy = run.root / path.relative_to(bundle.root)
        if path.is_file() and not os.path.lexists(copy):
            write_atomically(copy, path.read_bytes())
    return run


def _check_same(bundle: Bundle, spec: Sweep, run: RunDirectory) -> None:
    """Raise `LabError` where something lies in the folder of the run that is not this run."""
    elsewhere = f"maxk-lab run {bundle.place} --results ANOTHER_FOLDER"
    if os.path.lexists(run.spec_path):
        dumped = (one.model_dump(mode="json", exclude=_NOT_COMPARED) for one in (run.spec(), spec))
        there, here = (without_paths(with_files(one, itemgetter("sha256"))) for one in dumped)
        differing = [key for key in {**here, **there} if here.get(key) != there.get(key)]
        if differing:
            raise LabError(
                f"{run.root} is another run than that of {bundle.place}: they differ in "
                f"{', '.join(differing)}. To go on with what lies there: maxk-lab run "
                f"{run.spec_path}; to keep both: {elsewhere}"
            )
    elif run.root.exists() and not (run.root.is_dir() and not os.listdir(run.root)):
        raise LabError(
            f"{run.root} is not empty and no run. Move it away, or choose another: {elsewhere}"
        )


def named_files(spec: Sweep, *, checkpoints: bool) -> tuple[dict[str, bytes], list[str]]:
    """Return the files that a resolved sweep names by their names in a bundle, and what is absent.

    They are evaluation data, and `checkpoints` if asked for. One that is not there any more, or has
    changed, is absent, and so is all code and all weights that are not the lab's own: a line each.
    """
    tree = spec.model_dump(mode="json")
    data, files, absent = dict(_evaluation_data(tree)), dict[str, bytes](), list[str]()
    for one in file_mappings(tree):
        path, place = Path(one["path"]), _place_of(one)
        if one["sha256"] not in data and not checkpoints:
            absent.append(f"{path}, which is in it --with checkpoints")
            continue
        try:
            resolved_file(one, "the file", data.get(one["sha256"], hash_of_file))
            if path.is_dir():
                inside = [each for each in path.iterdir() if each.is_file()]
                files |= {f"{place}/{each.name}": each.read_bytes() for each in inside}
            else:
                files[place] = path.read_bytes()
        except (LabError, OSError, ValueError) as error:
            absent.append(f"{path}: {error}")
    for name, what in spec.content.items():
        version = f" ({what['package']} {what.get('version', '')})" if "package" in what else ""
        absent.append(f"what is behind {name}{version}")
    return files, list(dict.fromkeys(absent))


def _evaluation_data(tree: Any) -> Iterator[tuple[str, Callable[[str | Path], str]]]:
    """Yield the hashes of the files that settings of studies name, and what hashes each."""
    for row in STUDIES:
        for setting, hash_of in row.files.items():
            if one := reduce(
                lambda block, key: (block or {}).get(key), setting.split("."), tree.get(row.name)
            ):
                environment = str(tree["environment"]["name"])
                yield one["sha256"], partial(load(hash_of), environment=environment)


def _place_of(file: Mapping[str, str]) -> str:
    """Return the name that a file, or a folder of files, has in a bundle."""
    return f"{FILES}/{file['sha256'][:16]}/{Path(file['path']).name}"


def _placed(spec: bytes, bundle: Path, root: Path) -> bytes:
    """Return a sweep with the files that the folder of a `bundle` holds named below `root`."""
    if not (bundle / FILES).is_dir():
        return spec

    def placed(file: dict[str, str]) -> dict[str, str]:
        place = _place_of(file)
        return file | ({"path": str(root / place)} if (bundle / place).exists() else {})

    tree = with_files(parse_sweep(spec.decode(), _SPEC).tree, placed)
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=110).encode()


def with_files(tree: Any, change: Callable[[dict[str, str]], Any]) -> Any:
    """Return a resolved sweep, or a part of it, with what `change` makes of each file in it."""
    if isinstance(tree, Mapping):
        if set(tree) == FILE_KEYS:
            return change(dict(tree))
        return {key: with_files(value, change) for key, value in tree.items()}
    return [with_files(value, change) for value in tree] if isinstance(tree, list) else tree


def file_mappings(tree: Any) -> list[dict[str, str]]:
    """Return every {"path", "sha256"} in a resolved sweep, or in a part of it."""
    found: list[dict[str, str]] = []
    with_files(tree, found.append)
    return found


def find_runs(results: str | Path = "results") -> list[RunDirectory]:
    """Return every run under `results`, the one that ran last first; bundles, too.

    `results` may also be one bundle.
    """
    if os.path.isfile(results):
        return [Bundle(results)]
    found = [RunDirectory(path.parent) for path in Path(results).glob("[!.]*/spec.yaml")]
    # Whoever names a file that is no bundle is told what is wrong with it.
    found += [Bundle(path) for path in Path(results).glob(f"[!.]*{BUNDLE}") if has_manifest(path)]
    return sorted(found, key=lambda run: (-run.changed, run.name))


def find_run(
    name_or_path: str | Path | None = None, results: str | Path = "results"
) -> RunDirectory:
    """Return the run of that name under `results`, in that folder or bundle; the latest if None.

    Raises `LabError` where there is none.
    """
    if name_or_path is not None:
        for root in (Path(results) / name_or_path, Path(name_or_path)):
            if os.path.lexists(root / "spec.yaml"):
                return RunDirectory(root)
            # A bundle may also lie beside the report that was made of it.
            for path in (f"{root}{BUNDLE}", root, root / f"{root.name}{BUNDLE}"):
                if os.path.isfile(path):
                    return Bundle(path)
        if os.path.isdir(name_or_path):
            raise LabError(f"{name_or_path} is no run: there is no spec.yaml in it")
    runs = find_runs(results)
    if name_or_path is None and runs:
        return runs[0]
    if not runs:
        raise LabError(
            f"no runs under {results}; start one with: maxk-lab run experiments/tsp_sweep.yaml"
        )
    known = [run.name for run in runs]
    also = did_you_mean(str(name_or_path), known)
    raise LabError(f"no run {str(name_or_path)!r}{also}; known: {', '.join(known)}")
