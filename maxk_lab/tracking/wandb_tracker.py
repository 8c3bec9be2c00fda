"""Finished records sent to Weights & Biases, at any time: what was sent before is replaced."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError, first_line, shown
from maxk_lab.sweep_file.model import WANDB_MODES

if TYPE_CHECKING:
    from maxk_lab.execution.records import Record, RunDirectory
    from maxk_lab.planning.plan import Plan
    from maxk_lab.tracking.payload import History, Payload

# Seconds: to reach the server at all, and to upload what was logged.
INIT_TIMEOUT = 30.0
FINISH_TIMEOUT = 300.0
# Where W&B copies to what is to be uploaded, unless told otherwise: below the home of the user.
_DATA_FOLDER = "WANDB_DATA_DIR"
# The folder of an offline run with an id of the lab's.
_OURS = re.compile(r"offline-run-\d{8}_\d{6}-[0-9a-f]{16}")
# Fills a run with more than its payload has; of the folder, what lies there goes with the run.
Fill = Callable[[Any, Path], None]
# Told after each run that is sent: how many are, and of how many.
Progress = Callable[[int, int], None]


class NoKeyError(LabError):
    """There is no API key of W&B."""


class TrackingError(LabError):
    """W&B failed. `sent` are the places of the runs that were sent before."""

    def __init__(self, message: str, sent: Sequence[str]) -> None:
        self.sent = list(sent)
        super().__init__(message)


class Sender:
    """Sends what the records of a run say to the place that its sweep file names."""

    def __init__(
        self,
        run: RunDirectory,
        plan: Plan,
        mode: str,
    ) -> None:
        self.run, self.plan, self.mode = run, plan, mode
        self.title = run.title(plan.spec)
        written = plan.spec.model_dump(mode="json")
        # With a key for every kind of study.
        self.spec: dict[str, Any] = {key: written.get(key) for key in plan.spec.in_order()}

    def payloads(self, records: Iterable[Record]) -> list[Payload]:
        """Return the runs at W&B that these records make."""
        from maxk_lab.tracking.payload import payloads

        return payloads(self.title, self.spec, records)

    def send_key(self, key: str) -> dict[str, str]:
        """Send the run with the `group_key`, from its records; return its address by its id."""
        from maxk_lab.tracking.payload import group_key

        cells = (cell for cell in self.plan.cells if group_key(cell.as_dict()) == key)
        records = (self.run.read(cell.id, cell) for cell in cells)
        payloads = self.payloads(record for record in records if record is not None)
        return {payload.run_id: self.send(payload) for payload in payloads}

    def send(self, payload: Payload, fill: Fill | None = None) -> str:
        """Send one run; what is there under its id is replaced.

        Return its folder or, of one that is online, its address.
        """
        import wandb

        run = self._begin(payload)
        written = Path(run.settings.sync_dir)
        try:
            # Online W&B removes them; nor is the environment changed where others may read it.
            with _copies_in(written) if self.mode == "offline" else nullcontext():
                _log_curves(run, payload.history)
                run.summary.update(dict(payload.metrics))
                for name, table in payload.tables.items():
                    plain = table.astype(object).where(table.notna(), None)
                    run.log({name: wandb.Table(dataframe=plain, allow_mixed_types=True)})
                if fill is not None:
                    fill(run, written / "sent")
        finally:
            run.finish(exit_code=int(payload.failed))
        if self.mode == "online":
            return str(run.url)
        below = self.run.root / "wandb" / written.name
        return str(below if below.exists() else written)

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
            dir=str(self.run.root.absolute()),  # its service has a current folder of its own
            mode=self.mode,  # type: ignore[arg-type]
            reinit="create_new",
            settings=wandb.Settings(
                silent=True,
                console="off",
                disable_code=True,
                # The records carry their own provenance; that of the sending process would mislead.
                disable_git=True,
                # Nor does anybody need to know on whose machine, and by what path.
                x_disable_meta=True,
                host="",
                x_disable_stats=True,
                x_save_requirements=False,
                init_timeout=INIT_TIMEOUT,
                finish_timeout=FINISH_TIMEOUT,
            ),
        )


def track(
    run: RunDirectory,
    mode: str,
    *,
    plan: Plan | None = None,
    sent: Mapping[str, str] | None = None,
    progress: Progress = lambda done, of: None,
) -> list[str]:
    """Send the finished records of `run` to W&B; return the folders or addresses written.

    One run of W&B for what each kind of study says, then one of the sweep as a whole with its
    report. `offline` writes below the run's own folder and needs no network and no key; what was
    written there before is replaced. `disabled` does nothing. `plan` is made unless given; `sent`
    has the addresses of runs, by their ids, that are not sent again. Raises `LabError` for an
    unknown mode and for `online` without a key, and `TrackingError` if W&B fails; the records are
    only read.
    """
    if mode not in WANDB_MODES:
        also = did_you_mean(mode, WANDB_MODES)
        raise LabError(f"unknown W&B mode {shown(mode)}{also}; known: {', '.join(WANDB_MODES)}")
    if mode == "disabled":
        return []
    from maxk_lab.planning.plan import make_plan
    from maxk_lab.tracking.of_sweep import of_sweep

    plan = plan or make_plan(run.spec())
    records, sender = run.records(plan), Sender(run, plan, mode)
    places: dict[str, str] = {}
    number = 0
    try:
        payloads = sender.payloads(records)
        number = len(payloads) + bool(payloads)
        if records or mode == "online":
            set_up()
        if mode == "online":
            log_in()
        for one in payloads:
            places[one.run_id] = (sent or {}).get(one.run_id) or sender.send(one)
            progress(len(places), number)
        if records:
            whole, files = of_sweep(run, plan, sender.spec, records)
            places[whole.run_id] = sender.send(whole, files)
            progress(len(places), number)
            if mode == "offline":
                _remove_earlier(run.root / "wandb", {Path(place).name for place in places.values()})
    except NoKeyError:
        raise
    # SystemExit too: some of wandb's errors end the process.
    except (Exception, SystemExit) as error:
        kind = "" if isinstance(error, LabError) else f"{type(error).__name__}: "
        raise TrackingError(
            f"W&B ({mode}) failed with {len(places)} of {number} runs sent: {kind}"
            f"{first_line(error)}; the records are safe. Try again with: "
            f"maxk-lab track {shlex.quote(str(run.root))} --mode {mode}",
            [*places.values()],
        ) from error
    return [*places.values()]


def set_up() -> None:
    """Start wandb with the settings of the user, not of a folder that somebody else has filled.

    It reads `wandb/settings` of the current folder, which may name another server for the key. For
    the main thread: the current folder is another one meanwhile.
    """
    import wandb

    with TemporaryDirectory() as empty, chdir(empty):
        wandb.setup(settings=wandb.Settings(silent=True))


def log_in() -> None:
    """Find the API key and try it once. Raises, asking nobody, without one that works."""
    import wandb

    if not wandb.login(prompt=False, verify=True):
        raise NoKeyError(
            "online tracking needs an API key of W&B, and there is none: set WANDB_API_KEY or run: "
            "wandb login; or track offline (--mode offline, or tracking: {wandb: offline} in a "
            "sweep file), which needs no key and can be sent later"
        )


@contextmanager
def _copies_in(folder: Path) -> Iterator[None]:
    """Have W&B copy to `folder` what is to be uploaded, so that it goes when the run goes."""
    before = os.environ.get(_DATA_FOLDER)
    os.environ[_DATA_FOLDER] = str(folder.absolute())
    try:
        yield
    finally:
        if before is None:
            del os.environ[_DATA_FOLDER]
        else:
            os.environ[_DATA_FOLDER] = before


def _log_curves(run: Any, history: History) -> None:
    for axis in history.axes:
        run.define_metric(axis, hidden=True)
    for name, curve in history.curves.items():
        hidden = True if curve.hidden else None
        run.define_metric(name, step_metric=curve.against, summary=curve.summary, hidden=hidden)
    for line in history.lines:
        run.log(dict(line), step=int(line[history.axes[0]]))


def _remove_earlier(folder: Path, current: Collection[str]) -> None:
    """Remove offline runs of the lab but the current ones: of the same cells, or of none any more.

    `wandb sync` would send them, too. A folder that W&B or somebody else has named stays.
    """
    for path in folder.glob("offline-run-*"):
        if _OURS.fullmatch(path.name) and path.name not in current:
            shutil.rmtree(path, ignore_errors=True)
