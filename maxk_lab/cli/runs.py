"""The overview of a run that `list` and `show` print."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxk_lab.sweeps.run.records import RunDirectory


def overview(directory: RunDirectory) -> dict[str, Any]:
    """Return name, description, folder and counts of a run."""
    import yaml

    spec = yaml.safe_load(directory.spec_path.read_text(encoding="utf-8")) or {}
    states = Counter(record.status for record in directory.all_records())
    return {
        "name": directory.name,
        "meaning": spec.get("description", ""),
        "folder": str(directory.root),
        "done": states["done"],
        "failed": states["failed"],
        "not used": len(directory.ids()) - sum(states.values()),
        "report": str(directory.report_path) if directory.report_path.is_dir() else "",
    }
