"""A sweep run from Python, and the handle of what it has measured."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import PositiveInt

from maxk_lab.api.arguments import checked
from maxk_lab.cli.progress import Display
from maxk_lab.cli.runs import planned
from maxk_lab.errors import error_line, warn
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.run import Outcome, execute
from maxk_lab.execution.tasks import OnEvent
from maxk_lab.planning.plan import select
from maxk_lab.sweep_file.model import Sweep
from maxk_lab.sweep_file.text import as_json

if TYPE_CHECKING:
    import pandas as pd

    from maxk_lab.api.reporting import RunReport

AnyPath = str | os.PathLike[str]


@dataclass(frozen=True, repr=False)
class Run:
    """A run that was just measured: its `folder`, and the `outcome`, which has ids of cells.

    It stands for its folder wherever a path does, as in `maxk_lab.load(run)`.
    """

    folder: Path
    outcome: Outcome

    def __fspath__(self) -> str:
        """Return the folder."""
        return str(self.folder)

    def __repr__(self) -> str:
        outcome = self.outcome
        done, before, failed = map(len, (outcome.done, outcome.reused, outcome.failed))
        counts = f"{done} measured, {before} already done, {failed} failed"
        return f"<Run {self.folder}: {counts}>"

    @property
    def name(self) -> str:
        """The name of the sweep."""
        return self.folder.name

    @property
    def ok(self) -> bool:
        """Whether every cell that was selected is measured."""
        return not (self.outcome.failed or self.outcome.missing)

    def load(self, **options: Any) -> pd.DataFrame:
        """Return its numbers as a tidy table, with the options of `maxk_lab.load`."""
        from maxk_lab.results.frame import load

        return load(self, **options)

    def report(self, **options: Any) -> RunReport:
        """Return its report, with the options of `maxk_lab.report`."""
        from maxk_lab.api.reporting import report

        return report(self, **options)


@checked
def run(
    spec: AnyPath | Mapping[str, Any] | Sweep,
    *,
    results: AnyPath = "results",
    jobs: PositiveInt = 1,
    only: str | None = None,
    overrides: Mapping[str, Any] | Sequence[str] = (),
    shift_seeds: int = 0,
    retry_failed: bool = False,
    force: bool = False,
    execution: AnyPath | None = None,
    progress: bool | OnEvent = True,
) -> Run:
    """Measure the cells of a sweep that have no record yet, as `maxk-lab run` does.

    `spec` is a sweep file, the same as a dict, a `Sweep`, or a bundle. `overrides` are set over
    it, as {"gradient.pool": 64} or ["gradient.pool=64"]. The records go to a folder of the sweep's
    name under `results`; the same call again continues where it stopped. `only` selects cells, as
    in "baseline=subloo,k=8". The other options are those of the command line.

    `progress=True` prints lines to stderr (a bar in a terminal); a function is called instead with
    the name and the content of every event. Nothing is sent to W&B: `maxk-lab track` does.

    Units are measured in `jobs` processes of their own, which import nothing of the calling script
    or notebook: it needs no `if __name__ == "__main__":`, and a function that a sweep names must be
    in a module. A warning counts the failed cells, and `outcome.failed` has their ids.

    Raises `LabError` for what the caller can mend, such as every problem of the spec, and
    `RefusedError` where the system refuses something, such as room on the disk.
    """
    planned_run = planned(
        Path(spec) if isinstance(spec, str | os.PathLike) else spec,
        _as_options(overrides),
        Path(results),
        shift_seeds,
        None if execution is None else Path(execution),
        unpacked=True,
    )
    select(planned_run.plan, only, option="only")
    directory = planned_run.folder
    shown: Any = nullcontext(progress if callable(progress) else lambda name, payload: None)
    with Display() if progress is True else shown as on_event:
        outcome = execute(
            planned_run,
            jobs=jobs,
            only=only,
            retry_failed=retry_failed,
            force=force,
            on_event=on_event,
        )
    if outcome.failed or outcome.missing:
        warn(_without_result(directory, outcome))
    # Absolute, for a caller that changes the current folder.
    return Run(directory.root.absolute(), outcome)


def _as_options(overrides: Mapping[str, Any] | Sequence[str]) -> list[str]:
    """Return overrides as the command line has them, whose values are YAML: JSON is."""
    if not isinstance(overrides, Mapping):
        return list(overrides)
    return [f"{key}={as_json(value, 'overrides must be')}" for key, value in overrides.items()]


def _without_result(directory: RunDirectory, outcome: Outcome) -> str:
    """Return the sentences about cells that failed or have no record."""
    sentences = []
    if outcome.failed:
        record = directory.read(outcome.failed[0])
        first = f" (the first: {error_line(record.error)})" if record is not None else ""
        sentences.append(
            f"{len(outcome.failed)} cells failed{first}: run again with retry_failed=True once it "
            "is mended"
        )
    if outcome.missing:
        sentences.append(f"{len(outcome.missing)} cells have no record")
    return "; ".join(sentences)
