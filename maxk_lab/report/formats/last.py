"""The last report that was written into the folder of a run: its files, and what they were made of.

The times of files say nothing: a copy has new ones, and who draws a figure anew writes no verdict.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic_core import from_json

from maxk_lab.errors import LabError, RefusedError
from maxk_lab.files import hash_of, write_atomically
from maxk_lab.report.formats.catalogue import CATALOGUE
from maxk_lab.sweeps.run.records import RunDirectory

# The list of the files that reports have written beside it.
FILE = ".made_of.json"
_FIGURE = re.compile(r"figures/[^/\\]+\.(png|svg|pdf)")


@dataclass(frozen=True)
class _Written:
    """A file as it was written, and the digest of the run that it was made of."""

    sha256: str
    made_of: str


def note_files(folder: Path, files: Iterable[Path], made_of: str) -> None:
    """Keep which files were made of a run with this digest, if `folder` is that of its report.

    Where the run has changed since, or is another one, they are nobody's: they are never removed.
    """
    run = RunDirectory(folder.absolute().parent)
    if folder.absolute() != run.report_path or not run.spec_path.is_file():
        return
    # The report is there, also where its list cannot be written or the run has been damaged.
    with suppress(LabError, RefusedError, OSError, ValueError):
        if made_of != _digest(run):
            return
        told = {
            path.relative_to(folder).as_posix(): _Written(hash_of(path), made_of) for path in files
        }
        text = json.dumps({name: asdict(one) for name, one in {**_noted(run), **told}.items()})
        write_atomically(folder / FILE, text.encode())


def outdated_files(run: RunDirectory) -> list[Path]:
    """Return the files of reports in the folder of a run that are of other records or settings.

    Only what a report has written is among them, and only as long as nobody has changed it; the
    list of these files is when it lists no other that is there.
    """
    there = {name: one for name, one in _noted(run).items() if _is_there(run, name, one)}
    now = _digest(run)
    found = [run.report_path / name for name, one in there.items() if one.made_of != now]
    return sorted([*found, run.report_path / FILE] if len(found) == len(there) > 0 else found)


def last_verdicts(run: RunDirectory) -> Counter[str] | None:
    """Return how many claims have which verdict in the last report of a run.

    None where there is no report of just these records and this sweep: nothing is judged here.
    """
    name = CATALOGUE.get("json").file or ""
    written = _noted(run).get(name)
    if written is None or not _is_there(run, name, written):
        return None
    if written.made_of != _digest(run):
        return None
    try:
        claims = from_json((run.report_path / name).read_bytes())["claims"]
        return Counter(str(claim["verdict"]) for claim in claims)
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _noted(run: RunDirectory) -> Mapping[str, _Written]:
    """Return the files that reports have written, by their names; none through a link."""
    if run.report_path.is_symlink():
        return {}
    try:
        content = from_json((run.report_path / FILE).read_bytes())
        found = {str(name): _Written(**one) for name, one in content.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
    texts = {row.file for row in CATALOGUE}
    return {name: one for name, one in found.items() if name in texts or _FIGURE.fullmatch(name)}


def _digest(run: RunDirectory) -> str:
    try:
        return run.digest(run.spec())
    except LabError:
        return ""


def _is_there(run: RunDirectory, name: str, written: _Written) -> bool:
    """Return whether a file is as it was written."""
    path = run.report_path / name
    if path.is_symlink() or path.parent.is_symlink():
        return False
    try:
        return hash_of(path) == written.sha256
    except (OSError, ValueError):
        return False
