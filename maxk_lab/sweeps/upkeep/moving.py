"""Runs removed and renamed: at one stroke each, and only what lies in the folder of results."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from maxk_lab.errors import LabError, shown
from maxk_lab.files import StorageError, write_atomically
from maxk_lab.sweeps.run.backends.jobs import any_may_run
from maxk_lab.sweeps.run.find import find_folder
from maxk_lab.sweeps.run.leases import exclusive
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.schema import folder_name

# What a run is called that is being removed: it is hidden from all that looks for runs.
_REMOVED = ".removed-"


def own_run(name: str, results: Path) -> RunDirectory:
    """Return the run or bundle of a name, which lies in `results` itself.

    Raises `LabError` for one that lies elsewhere, and for a link: where it leads to is not ours.
    """
    run = find_folder(name, results)
    if run.root.is_symlink():
        raise LabError(
            f"{run.root} is a symbolic link, and what it leads to is not touched; "
            f"the link itself goes with: rm {run.root}"
        )
    if run.root.resolve().parent != Path(results).resolve():
        raise LabError(
            f"{run.root} does not lie in {results}, and nothing else is touched; "
            f"to say where it lies: --results {run.root.parent}"
        )
    return run


def remove(run: RunDirectory) -> None:
    """Remove a run or a bundle with all that is in it; through a link nothing is removed.

    It is out of sight at one stroke, and a process that is killed then leaves a hidden folder that
    `remove_leftovers` removes. Raises `LabError` while somebody is at work in the run.
    """
    if run.root.is_file():
        run.root.unlink()
        return
    hidden = run.root.with_name(f"{_REMOVED}{run.name}-{os.getpid()}")
    _move(run, hidden, "rm")
    shutil.rmtree(hidden, ignore_errors=True)


def rename(run: RunDirectory, name: str) -> Path:
    """Give a run or a bundle another name, and return where it lies then.

    The name of its folder is what it is called everywhere; its spec has the same, so that it goes
    on there. Raises `LabError` for a name that is none or is taken, and as `remove`.
    """
    bundled = run.root.is_file()
    try:
        folder_name(name)
    except ValueError as error:
        raise LabError(f"a run cannot be named {shown(name)}: it {error}") from None
    suffix = run.root.suffix if bundled and Path(name).suffix != run.root.suffix else ""
    there = run.root.with_name(f"{name}{suffix}")
    if os.path.lexists(there):
        raise LabError(f"{there} is there already; remove it first, or choose another name")
    if bundled:
        run.root.rename(there)
    else:
        _move(run, there, "rename")
        _name_in_spec(RunDirectory(there))
    return there


def leftovers(results: Path) -> list[Path]:
    """Return what a killed `remove` has left in the folder of results."""
    return [path for path in Path(results).glob(f"{_REMOVED}*") if not path.is_symlink()]


def remove_leftovers(results: Path) -> list[Path]:
    """Remove the `leftovers`, and return their paths."""
    found = leftovers(results)
    for path in found:
        shutil.rmtree(path, ignore_errors=True)
    return found


def check_idle(run: RunDirectory) -> None:
    """Raise `LabError` where jobs of a run wait or work on a cluster."""
    if (run.root / "jobs").is_dir() and any_may_run(run):
        raise LabError(
            f"{run.root} has jobs that wait or run on a cluster; end them first: "
            f"maxk-lab cancel {run.root}"
        )


def _move(run: RunDirectory, there: Path, what: str) -> None:
    """Rename the folder of a run in which nobody is at work."""
    check_idle(run)
    with exclusive(run.root, what) as alone:
        try:
            alone.move(there)
        except OSError as error:
            raise StorageError(f"{run.root} cannot be moved: {error.strerror}") from error


def _name_in_spec(run: RunDirectory) -> None:
    """Write the name of the folder into the spec, whose time stays: nothing else has changed."""
    from maxk_lab.sweeps.spec.load import spec_to_yaml

    try:
        spec, before = run.spec(), run.spec_path.stat()
    except (LabError, OSError):  # a run may have lost it, and has the name of its folder
        return
    named = spec.model_copy(update={"name": run.name})
    write_atomically(run.spec_path, spec_to_yaml(named).encode())
    os.utime(run.spec_path, ns=(before.st_atime_ns, before.st_mtime_ns))
