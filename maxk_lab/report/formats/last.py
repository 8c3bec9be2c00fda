"""The last report that was written into the folder of a run, and what its files were made of.

The times of files say nothing: a copy has new ones, and who draws a figure anew writes no verdict.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from pydantic_core import from_json

from maxk_lab.errors import LabError, RefusedError
from maxk_lab.files import write_atomically
from maxk_lab.report.formats.render import CATALOGUE
from maxk_lab.sweeps.run.records import RunDirectory

# The files that reports have written beside it, each with the digest of the run it was made of.
FILE = ".made_of.json"
_FIGURE = re.compile(r"figures/[^/\\]+\.(png|svg|pdf)")


def note_files(folder: Path, files: Iterable[Path], made_of: str) -> None:
    """Keep which files were made of a run with this digest, if `folder` is that of its report."""
    run = RunDirectory(folder.absolute().parent)
    if folder.absolute() != run.report_path or not run.spec_path.is_file():
        return
    names = {path.relative_to(folder).as_posix(): made_of for path in files}
    # The report is there, also where its list cannot be written.
    with suppress(LabError, RefusedError, OSError):
        write_atomically(folder / FILE, json.dumps({**_noted(run), **names}).encode())


def outdated_files(run: RunDirectory) -> list[Path]:
    """Return the files of reports in the folder of a run that are of other records or settings.

    Only what a report has written is among them; the list of these files is when it lists no other
    that is there.
    """
    made_of = {name: at for name, at in _noted(run).items() if (run.report_path / name).is_file()}
    now = _digest(run)
    found = [run.report_path / name for name, digest in made_of.items() if digest != now]
    return sorted([*found, run.report_path / FILE] if len(found) == len(made_of) > 0 else found)


def last_verdicts(run: RunDirectory) -> Counter[str] | None:
    """Return how many claims have which verdict in the last report of a run.

    None where there is no report of just these records and this sweep: nothing is judged here.
    """
    name = CATALOGUE.get("json").file or ""
    if _noted(run).get(name) != _digest(run):
        return None
    with suppress(OSError, ValueError, LookupError, TypeError):
        claims = from_json((run.report_path / name).read_bytes())["claims"]
        return Counter(str(claim["verdict"]) for claim in claims)
    return None


def _noted(run: RunDirectory) -> Mapping[str, str]:
    """Return the files that reports have written, with their digests, by their names."""
    texts = {row.file for row in CATALOGUE}
    with suppress(OSError, ValueError, AttributeError):
        noted = from_json((run.report_path / FILE).read_bytes()).items()
        return {
            str(name): str(digest)
            for name, digest in noted
            if name in texts or _FIGURE.fullmatch(name)
        }
    return {}


def _digest(run: RunDirectory) -> str:
    with suppress(LabError):
        return run.digest(run.spec())
    return ""
