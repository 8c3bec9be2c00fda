"""A payload written into its run at W&B: curves, summary, tables, and what else it is given."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from maxk_lab.tracking.history import History
from maxk_lab.tracking.payload import Payload
from maxk_lab.tracking.session import Target, begin, copies_in
from maxk_lab.tracking.table import PayloadTable

# The folder of an offline run with an id of the lab's.
_OURS = re.compile(r"offline-run-\d{8}_\d{6}-([0-9a-f]{16})")
# Fills a run with more than its payload has; of the folder, what lies there goes with the run.
Fill = Callable[[Any, Path], None]


def send(payload: Payload, target: Target, fill: Fill | None = None) -> str:
    """Send one run, and return its folder or, of one that is online, its address."""
    run = begin(payload, target)
    written = Path(run.settings.sync_dir)
    try:
        # Online it removes them itself; nor is the environment changed where others may read it.
        with copies_in(written) if target.mode == "offline" else nullcontext():
            _log_curves(run, payload.history)
            run.summary.update(dict(payload.metrics))
            for name, table in payload.tables.items():
                run.log({name: _table(table)})
            if fill is not None:
                fill(run, written / "sent")
    finally:
        run.finish(exit_code=int(payload.failed))
    if target.mode == "online":
        return str(run.url)
    below = target.folder / "wandb" / written.name
    _remove_others(target.folder / "wandb", payload.run_id, written.name)
    return str(below if below.exists() else written)


def remove_earlier(folder: Path, kept: Collection[str]) -> None:
    """Remove offline runs of the lab but those with these ids: of cells that the sweep has no more.

    A folder that W&B or somebody else has named stays.
    """
    for path in folder.glob("offline-run-*"):
        found = _OURS.fullmatch(path.name)
        if found is not None and found[1] not in kept:
            shutil.rmtree(path, ignore_errors=True)


def _log_curves(run: Any, history: History) -> None:
    for axis in history.axes:
        run.define_metric(axis, hidden=True)
    for name, curve in history.curves.items():
        hidden = True if curve.hidden else None
        run.define_metric(name, step_metric=curve.against, summary=curve.summary, hidden=hidden)
    for line in history.lines:
        run.log(dict(line), step=int(line[history.axes[0]]))


def _table(table: PayloadTable) -> Any:
    import wandb

    return wandb.Table(
        columns=list(table.columns),
        data=[list(line) for line in table.lines],
        allow_mixed_types=True,
    )


def _remove_others(folder: Path, run_id: str, kept: str) -> None:
    """Remove what was written offline before under this id: `wandb sync` would send both."""
    for path in folder.glob(f"offline-run-*-{run_id}"):
        if path.name != kept:
            shutil.rmtree(path, ignore_errors=True)
