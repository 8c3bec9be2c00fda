"""The last report in the folder of a run: its `report.json` tells of what it was made.

The times of files say nothing: a copy has new ones.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from maxk_lab.errors import LabError
from maxk_lab.execution.records import RunDirectory
from maxk_lab.reports.formats.render import CATALOGUE, FOLDER

_FIGURE_ENDINGS = (".png", ".svg", ".pdf")


def outdated_files(run: RunDirectory) -> list[Path]:
    """Return the files of a report in the folder of a run that is of other records or settings.

    Only what that report wrote is among them: a figure of somebody else's stays.
    """
    last = _last(run)
    if not last.get("made_of") or last["made_of"] == _digest(run):
        return []
    names = last.get("figures") or ()
    texts = [run.report_path / row.file for row in CATALOGUE if row.file is not None]
    figures = (run.report_path / FOLDER).glob("*")
    ours = (one for one in figures if one.stem in names and one.suffix in _FIGURE_ENDINGS)
    found = [*texts, *ours]
    return sorted(path for path in found if path.is_file())


def last_verdicts(run: RunDirectory) -> Counter[str] | None:
    """Return how many claims have which verdict in the last report of a run.

    None where there is no report of just these records and this sweep: nothing is judged here.
    """
    last = _last(run)
    if last.get("made_of") == _digest(run):
        with suppress(LookupError, TypeError):
            return Counter(str(claim["verdict"]) for claim in last["claims"])
    return None


def _last(run: RunDirectory) -> dict[str, Any]:
    """Return what the last report says; nothing where there is none that can be read."""
    with suppress(OSError, ValueError):
        found = from_json((run.report_path / str(CATALOGUE.get("json").file)).read_bytes())
        return found if isinstance(found, dict) else {}
    return {}


def _digest(run: RunDirectory) -> str:
    with suppress(LabError):
        return run.digest(run.spec())
    return ""
