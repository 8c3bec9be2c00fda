"""The unpacking of a bundle into the folder of its run, where the run goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import yaml

from maxk_lab.errors import LabError
from maxk_lab.files import PARTIAL, write_atomically
from maxk_lab.sweeps.plan.identity import without_paths
from maxk_lab.sweeps.run.bundles.bundle import Bundle
from maxk_lab.sweeps.run.bundles.contents import CACHE, FILES
from maxk_lab.sweeps.run.bundles.named import relocated
from maxk_lab.sweeps.run.leases import exclusive
from maxk_lab.sweeps.run.links import refuse_links
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.shards.archive import write_archive
from maxk_lab.sweeps.spec.schema import SweepSpec
from maxk_lab.sweeps.spec.source import decoded, source_of

# Of two runs that differ in nothing else it is said that they are the same.
_NOT_COMPARED = {"execution", "tracking"}
# What an unpacking that was stopped, or a process that registers, leaves in a folder.
_BEGUN = {"cells", CACHE, FILES, "drivers", "leases"}


def unpack(bundle: Bundle, results: Path) -> RunDirectory:
    """Write what is in a bundle into the folder of its run under `results`, and return the run.

    What the run has already stays as it is; only damaged records are replaced. Whenever this is
    stopped, the same call goes on from there: until the end there is no spec. Raises `LabError`
    where anything else lies in the folder, where a process is at work there that would be
    disturbed, and where a file of the bundle is damaged; nothing is written then.
    """
    spec = bundle.spec()
    run = RunDirectory(results / spec.name)
    refuse_links(run.root)
    _check_same(bundle, spec, run)
    contents = {name: bundle.content(name) for name in _files(bundle)}
    wanted = [name for name in contents if not os.path.lexists(run.root / name)]
    cells = _lacking(bundle, run)
    if not wanted and not cells and os.path.lexists(run.spec_path):
        return run
    with exclusive(run.root, f"the unpacking of {bundle.root.name}"):
        _write_records(bundle, run, cells)
        for name in wanted:
            write_atomically(run.root / name, contents[name])
        if not os.path.lexists(run.spec_path):
            write_atomically(run.spec_path, _spec_at(bundle, run.root))
    return run


def unpack_spec(bundle: Bundle, folder: Path) -> Path:
    """Write the sweep of a bundle, with the files that it names, into `folder` to plan it."""
    for name in bundle.contents.named(FILES):
        write_atomically(folder / name, bundle.content(name))
    path = folder / bundle.spec_path.name
    write_atomically(path, _spec_at(bundle, folder))
    return path


def _files(bundle: Bundle) -> list[str]:
    """Return the names of the files that are no records, nor of a report: that is made anew."""
    return [*bundle.contents.named(CACHE), *bundle.contents.named(FILES)]


def _spec_at(bundle: Bundle, root: Path) -> bytes:
    """Return the sweep as it is, or with the files that the bundle holds named where they are."""
    written, places = bundle.spec_bytes(), bundle.named_files()
    if not places:
        return written
    tree = source_of(decoded(written, bundle.spec_path), str(bundle.spec_path)).tree
    moved = relocated(tree, places, root)
    return yaml.safe_dump(moved, sort_keys=False, allow_unicode=True, width=110).encode()


def _check_same(bundle: Bundle, spec: SweepSpec, run: RunDirectory) -> None:
    """Raise `LabError` where something lies in the folder of the run that is not this run."""
    if os.path.lexists(run.spec_path):
        there, here = (_meaning(one) for one in (run.spec(), spec))
        differing = [key for key in {**here, **there} if here.get(key) != there.get(key)]
        if differing:
            raise LabError(
                f"{run.root} is another run than that of {bundle.root}: they differ in "
                f"{', '.join(differing)}. To go on with what lies there: maxk-lab run "
                f"{run.spec_path}; to keep both: maxk-lab run {bundle.root} --results "
                "ANOTHER_FOLDER"
            )
        return
    odd = [name for name in _names(run.root) if name not in _BEGUN]
    theirs = set(bundle.ids())
    odd += [cell_id for cell_id in run.ids() if cell_id not in theirs]
    if odd:
        raise LabError(
            f"{run.root} is not empty and no run: there is {odd[0]}. Move it away, or choose "
            f"another place: maxk-lab run {bundle.root} --results ANOTHER_FOLDER"
        )


def _names(folder: Path) -> Iterator[str]:
    try:
        found = os.listdir(folder)
    except FileNotFoundError:
        return iter(())
    except NotADirectoryError:
        raise LabError(f"{folder} is a file, and the run would lie in a folder there") from None
    return (name for name in found if not name.startswith(PARTIAL))


def _meaning(spec: SweepSpec) -> dict[str, object]:
    dumped = spec.model_dump(mode="json", exclude=_NOT_COMPARED)
    return {key: _without_paths(value) for key, value in dumped.items()}


def _without_paths(tree: object) -> object:
    if isinstance(tree, list):
        return [_without_paths(value) for value in tree]
    if isinstance(tree, dict):
        bare = without_paths(tree)
        return {key: _without_paths(value) for key, value in bare.items()}
    return tree


def _lacking(bundle: Bundle, run: RunDirectory) -> list[str]:
    """Return the cells of the bundle of which the run has no sound record.

    Raises `LabError` where that of the bundle is damaged.
    """
    there = set(run.ids())
    lacking = [one for one in bundle.ids() if one not in there or run.read_once(one) is None]
    for cell_id in lacking:
        _record(bundle, cell_id)
    return lacking


def _record(bundle: Bundle, cell_id: str) -> bytes:
    try:
        return bundle.cells.read(cell_id)
    except (ValueError, OSError) as error:
        raise LabError(
            f"{bundle.cells.place(cell_id)} is damaged: {error}; to read the rest all the same: "
            f"maxk-lab report {bundle.root}"
        ) from None


def _write_records(bundle: Bundle, run: RunDirectory, cells: list[str]) -> None:
    """Write records in shards, as they are in the bundle; damaged ones are replaced one by one."""
    there, wanted = set(run.ids()), set(cells)
    for cell_id in sorted(wanted & there):
        write_atomically(run.cells.path(cell_id), _record(bundle, cell_id))
    number = max((one.number for one in run.cells.archives), default=0)
    for held in bundle.contents.manifest.records.values():
        records = {one: _record(bundle, one) for one in held if one in wanted - there}
        if records:
            number += 1
            write_archive(run.cells_path, number, records)
    run.ids()
    for archive in run.cells.archives[-1:]:
        run.cells.mark(archive)
