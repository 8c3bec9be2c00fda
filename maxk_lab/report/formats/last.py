"""The last report that was written into the folder of a run: its files, its verdicts, its age."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pydantic_core import from_json

from maxk_lab.files import read_regular
from maxk_lab.report.formats.catalogue import CATALOGUE
from maxk_lab.sweeps.run.records import RunDirectory

# A report of more bytes is not read.
_MOST_BYTES = 64 * 2**20
_FIGURES = ("*.png", "*.svg")


def report_files(run: RunDirectory) -> list[Path]:
    """Return the files that reports write into the folder of a run, as far as they are there.

    What somebody else keeps in that folder is not among them.
    """
    return [path for path in _known(run) if path.is_file() and not path.is_symlink()]


def is_outdated(run: RunDirectory) -> bool:
    """Return whether records or the spec of a run have changed since its report was written."""
    written = [_modified(path) for path in report_files(run)]
    # A record is put in place by a rename, which changes the folder.
    made_of = map(_modified, (run.cells_path, run.spec_path))
    return bool(written) and max(written) < max(made_of)


def last_verdicts(run: RunDirectory) -> Counter[str] | None:
    """Return how many claims have which verdict in the last report of a run.

    None where there is no report that is as new as the records: nothing is judged here.
    """
    path = run.report_path / (CATALOGUE.get("json").file or "")
    if run.report_path.is_symlink() or is_outdated(run):
        return None
    try:
        claims = from_json(read_regular(path, _MOST_BYTES))["claims"]
        return Counter(str(claim["verdict"]) for claim in claims)
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _known(run: RunDirectory) -> Iterator[Path]:
    folder = run.report_path
    if folder.is_symlink():
        return
    for row in CATALOGUE:
        if row.file is not None:
            yield folder / row.file
    figures = folder / "figures"
    for pattern in () if figures.is_symlink() else _FIGURES:
        yield from sorted(figures.glob(pattern))


def _modified(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
