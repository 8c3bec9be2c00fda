"""Send records to Weights & Biases: each training when it ends, then the sweep."""

from __future__ import annotations

import os
import shlex
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING, Any

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError, first_line, shown
from maxk_lab.sweep_file.model import WANDB_MODES

if TYPE_CHECKING:
    import pandas as pd

    from maxk_lab.execution.records import Record, RunDirectory
    from maxk_lab.planning.plan import Plan
    from maxk_lab.tracking.payload import History, Payload

# Seconds to reach the server, and to upload the logged data.
INIT_TIMEOUT, FINISH_TIMEOUT = 30.0, 300.0
# W&B ignores the ids of runs if these variables are set.
_IGNORED = ("WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH", "WANDB_RUN_ID")
_SPELLINGS = {"dryrun": "offline", "run": "online"}
_FORMATS = ("markdown", "csv", "json")
# Called after each sent run with the number sent and the total.
Progress = Callable[[int, int], None]


class NoKeyError(LabError):
    """There is no API key of W&B."""


class TrackingError(LabError):
    """W&B failed. `sent` are the places of the runs that were sent before."""

    def __init__(self, message: str, sent: Sequence[str]) -> None:
        self.sent = list(sent)
        super().__init__(message, self.sent)

    def __str__(self) -> str:
        return str(self.args[0])


def chosen_mode(default: str) -> tuple[str, str]:
    """Return the mode of W&B, and a line on the environment variable that sets it, or empty.

    WANDB_DISABLED and WANDB_MODE overrule the default. Raises `LabError` for an unknown mode.
    """
    mode, line = default, ""
    if default != "disabled":
        disabled = os.environ.get("WANDB_DISABLED", "").lower() in ("1", "true", "yes", "on")
        name = "WANDB_DISABLED" if disabled else "WANDB_MODE"
        value = "disabled" if disabled else os.environ.get(name, "")
        mode = _SPELLINGS.get(value, value) or default
        line = f"W&B mode: {mode} ({name} is set)" if value else ""
    return _checked_mode(mode), line


def _checked_mode(mode: str) -> str:
    """Return a mode. Raises `LabError` for an unknown one."""
    if mode not in WANDB_MODES:
        also = did_you_mean(mode, WANDB_MODES)
        raise LabError(f"unknown W&B mode {shown(mode)}{also}; known: {', '.join(WANDB_MODES)}")
    return mode


def track(
    run: RunDirectory,
    mode: str,
    *,
    plan: Plan | None = None,
    sent: Mapping[str, str] | None = None,
    progress: Progress = lambda done, of: None,
) -> list[str]:
    """Send the finished records of `run` to W&B; return the folders or addresses written.

    There is one run for each cell with curves, then one for the sweep with its tables and report.
    `offline` writes below the folder of the run, WANDB_DIR, or the first writable folder, and
    replaces earlier runs of the same cells. `disabled` does nothing. `sent` has the places of cells
    that are already sent. Raises `NoKeyError` for `online` without a key, and `TrackingError` if
    W&B fails; records are only read.
    """
    if _checked_mode(mode) == "disabled":
        return []
    from maxk_lab.planning.plan import make_plan
    from maxk_lab.tracking.payload import has_curves

    plan = plan or make_plan(run.spec())
    records = run.records(plan)
    cells = [record for record in records if has_curves(record.cell["study"])]
    number, places = len(cells) + bool(records), dict(sent or {})
    try:
        if records or mode == "online":
            set_up(mode)
        sender = Sender(run, plan, mode)
        for record in cells:
            if record.cell["id"] not in places:
                places[record.cell["id"]] = sender.send_cell(record)
                progress(len(places), number)
        if records:
            places[""] = sender.send_sweep(records[-1])
            progress(len(places), number)
    except NoKeyError:
        raise
    # SystemExit too: some of wandb's errors end the process.
    except (Exception, SystemExit) as error:
        kind = "" if isinstance(error, LabError) else f"{type(error).__name__}: "
        raise TrackingError(
            f"W&B ({mode}) failed with {len(places)} of {number} runs sent: {kind}"
            f"{first_line(error)}; the records are safe. Try again with: "
            f"WANDB_MODE={mode} maxk-lab track {shlex.quote(str(run.root))}",
            [*places.values()],
        ) from error
    return [*places.values()]


class Sender:
    """Sends the records of a run to W&B."""

    def __init__(self, run: RunDirectory, plan: Plan, mode: str) -> None:
        self.run, self.plan, self.mode = run, plan, mode
        self.title = run.title(plan.spec)
        written = plan.spec.model_dump(mode="json")
        # With a key for every kind of study.
        self.spec: dict[str, Any] = {key: written.get(key) for key in plan.spec.in_order()}
        self.folder = writable_folder(run.root)

    def send_cell(self, record: Record) -> str:
        """Send the run of a cell; return its folder or, if online, its address."""
        from maxk_lab.tracking.payload import cell_payload

        return self.send(cell_payload(self.title, self.spec, record))

    def send_sweep(self, record: Record) -> str:
        """Send the run of the sweep with its three tables and the report; see `send_cell`."""
        from maxk_lab.reports.report import read_report
        from maxk_lab.reports.write import report_files
        from maxk_lab.tracking.payload import sweep_payload

        report = read_report(self.run, self.plan)
        tables = {name: each for name, each in report.tables._asdict().items() if len(each)}
        files = report_files(report, _FORMATS)
        return self.send(sweep_payload(self.title, self.spec, report, record), tables, files)

    def send(
        self,
        payload: Payload,
        tables: Mapping[str, pd.DataFrame] = {},
        files: Mapping[str, bytes] = {},
    ) -> str:
        """Send a run, replacing an earlier run with its id; return its folder or address."""
        import wandb

        run = self._begin(payload)
        folder = Path(run.settings.sync_dir)
        if self.mode == "offline":
            # Files to upload lie in the folder of the run, and are removed with the run.
            os.environ["WANDB_DATA_DIR"] = str(folder.absolute())
        try:
            _log_curves(run, payload.history)
            run.summary.update(dict(payload.summary))
            for name, table in tables.items():
                values = table.astype(object).where(table.notna(), None)
                run.log({name: wandb.Table(dataframe=values, allow_mixed_types=True)})
            if files:
                artifact = wandb.Artifact("report", "report")
                for name, content in files.items():
                    with artifact.new_file(name, "wb") as file:
                        file.write(content)
                run.log_artifact(artifact)
        finally:
            run.finish(exit_code=int(payload.failed))
        if self.mode == "online":
            return str(run.url)
        for earlier in folder.parent.glob(f"offline-run-*-{payload.run_id}"):
            if earlier.name != folder.name:
                shutil.rmtree(earlier, ignore_errors=True)  # `wandb sync` would send both
        return str(folder)

    def _begin(self, payload: Payload) -> Any:
        import wandb

        return wandb.init(
            entity=os.environ.get("WANDB_ENTITY"),
            project=os.environ.get("WANDB_PROJECT") or "maxk-lab",
            group=os.environ.get("WANDB_RUN_GROUP") or self.title,
            id=payload.run_id,
            name=payload.name,
            job_type=payload.job_type,
            tags=list(payload.tags),
            notes=payload.notes,
            config=dict(payload.config),
            dir=str(self.folder),
            mode=self.mode,  # type: ignore[arg-type]
            reinit="create_new",
            settings=wandb.Settings(
                silent=True,
                console="off",
                # Records have the provenance; that of the sending process would mislead.
                disable_code=True,
                disable_git=True,
                # No machine names and no paths.
                x_disable_meta=True,
                host="",
                x_disable_stats=True,
                x_save_requirements=False,
                init_timeout=INIT_TIMEOUT,
                finish_timeout=FINISH_TIMEOUT,
            ),
        )


class Live:
    """Sends each cell with curves as soon as its record appears, in a thread.

    `sent` has the places of the cells that are sent.
    """

    def __init__(self, run: RunDirectory, plan: Plan, mode: str) -> None:
        self.sent: dict[str, str] = {}
        self.notes: list[str] = []
        # Absolute, because the current folder changes while W&B starts.
        self._root, self._plan, self._mode = run.root.absolute(), plan, mode
        self._cells: SimpleQueue[str | None] = SimpleQueue()
        # A daemon: neither an exit nor a signal waits for W&B.
        self._thread = threading.Thread(target=self._work, name="wandb", daemon=True)
        self._ended = False

    def event(self, name: str, payload: Mapping[str, Any]) -> list[str]:
        """Handle an event of the sweep; return new lines about W&B for the user."""
        if name == "run_started" and payload["cell_ids"]:
            self._thread.start()
        if name in ("cell_done", "cell_failed"):
            self._cells.put(payload["cell"])
        return [self.notes.pop(0) for _ in list(self.notes)]

    def end(self, seconds: float) -> dict[str, str]:
        """Send no more runs, and return `sent`; wait at most `seconds` for the current run."""
        self._ended = True
        self._cells.put(None)
        if self._thread.is_alive():
            self._thread.join(seconds)
        return dict(self.sent)

    def _work(self) -> None:
        from maxk_lab.execution.records import RunDirectory
        from maxk_lab.tracking.payload import has_curves

        run = RunDirectory(self._root)  # the driver's reader is not thread-safe
        planned = {c.id: c for c in self._plan.cells if has_curves(c.study)}
        sender: Sender | None = None
        try:
            for cell in iter(self._cells.get, None):
                record = run.read(cell, planned[cell]) if cell in planned else None
                if record is not None and not self._ended:
                    if sender is None:
                        set_up(self._mode)
                        sender = Sender(run, self._plan, self._mode)
                    self.sent[cell] = sender.send_cell(record)
        except (Exception, SystemExit) as error:
            kind = "" if isinstance(error, NoKeyError) else f"{type(error).__name__}: "
            self.notes.append(f"W&B failed, and the sweep continues: {kind}{first_line(error)}")


def set_up(mode: str) -> None:
    """Start wandb with the user's settings; raise `NoKeyError` if `online` lacks a key.

    Meanwhile the current folder is an empty one, because `wandb/settings` in the user's folder may
    send the key to another server.
    """
    import wandb

    for name in _IGNORED:
        os.environ.pop(name, None)
    with TemporaryDirectory() as empty, chdir(empty):
        wandb.setup(settings=wandb.Settings(silent=True))
    if mode == "online" and not wandb.login(prompt=False, verify=True):
        raise NoKeyError(
            "online tracking needs an API key of W&B, and there is none: set WANDB_API_KEY or run: "
            "wandb login; or track offline (WANDB_MODE=offline, or tracking: {wandb: offline} in a "
            "sweep file), which needs no key and can be sent later"
        )


def writable_folder(root: Path) -> Path:
    """Return WANDB_DIR, else the folder of the run, else the first writable folder."""
    choices = [Path(os.environ["WANDB_DIR"])] if os.environ.get("WANDB_DIR") else []
    choices += [root, Path.cwd(), Path(gettempdir())]
    return next(path.absolute() for path in choices if os.access(path, os.W_OK))


def _log_curves(run: Any, history: History) -> None:
    for axis in history.axes:
        run.define_metric(axis, hidden=True)
    for name, curve in history.curves.items():
        hidden = True if curve.hidden else None
        run.define_metric(name, step_metric=curve.against, summary=curve.summary, hidden=hidden)
    for line in history.lines:
        run.log(dict(line), step=int(line[history.axes[0]]))
