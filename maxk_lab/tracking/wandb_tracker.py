"""Finished records sent to Weights & Biases: one run per study and seed, at any time."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError, first_line, shown
from maxk_lab.tracking.payload import Payload, payloads

if TYPE_CHECKING:
    from maxk_lab.sweeps.plan.plan import Plan
    from maxk_lab.sweeps.run.records import RunDirectory
    from maxk_lab.sweeps.spec.schema import SweepSpec

MODES = ("offline", "online", "disabled")
# Seconds: to reach the server at all, and to upload what was logged.
INIT_TIMEOUT = 30.0
FINISH_TIMEOUT = 300.0


class TrackingError(LabError):
    """W&B failed. `sent` are the places of the runs that were sent before."""

    def __init__(self, message: str, sent: Sequence[str]) -> None:
        self.sent = list(sent)
        super().__init__(message)


class NoKeyError(LabError):
    """There is no API key of W&B."""


def track(
    run: RunDirectory, mode: str, project: str | None = None, *, plan: Plan | None = None
) -> list[str]:
    """Send the finished records of `run` to W&B; return the folders or addresses written.

    `offline` writes below the run's own folder and needs no network and no key; what was written
    there before under the same id is replaced. `disabled` does nothing. `plan` is made, and
    `project` is that of the sweep file, unless given. Raises `LabError` for an unknown mode and for
    `online` without a key, and `TrackingError` for whatever goes wrong with W&B: the records are
    only read, and they stay.
    """
    if mode not in MODES:
        also = did_you_mean(mode, MODES)
        raise LabError(f"unknown W&B mode {shown(mode)}{also}; known: {', '.join(MODES)}")
    if mode == "disabled":
        return []
    from maxk_lab.sweeps.plan.plan import make_plan
    from maxk_lab.sweeps.run.links import refuse_links

    refuse_links(run.root)
    plan = plan or make_plan(run.spec())
    spec, records = plan.spec, run.records(plan)
    name = run.title(spec)
    figures = sorted((run.report_path / "figures").glob("*.png"))
    found = payloads(name, _as_written(spec), records)
    sent: list[str] = []
    try:
        if found or mode == "online":
            _set_up()
        if mode == "online":
            _log_in()
        for payload in found:
            place = _send(payload, mode, project or spec.tracking.project, name, run.root, figures)
            sent.append(place)
            if mode == "offline":
                _remove_others(run.root / "wandb", payload.run_id, Path(place).name)
    except NoKeyError:
        raise
    # SystemExit too: some of wandb's errors end the process.
    except (Exception, SystemExit) as error:
        kind = "" if isinstance(error, LabError) else f"{type(error).__name__}: "
        raise TrackingError(
            f"W&B ({mode}) failed with {len(sent)} of {len(found)} runs sent: {kind}"
            f"{first_line(error)}; the records are safe. Try again with: "
            f"maxk-lab track {shlex.quote(str(run.root))} --mode {mode}",
            sent,
        ) from error
    return sent


def _set_up() -> None:
    """Start wandb with the settings of the user, not of a folder that somebody else has filled.

    It reads `wandb/settings` of the current folder, which may name another server for the key.
    """
    import wandb

    with TemporaryDirectory() as empty, chdir(empty):
        wandb.setup(settings=wandb.Settings(silent=True))


def _remove_others(folder: Path, run_id: str, kept: str) -> None:
    """Remove what was written offline before under this id: `wandb sync` would send both."""
    for path in folder.glob(f"offline-run-*-{run_id}"):
        if path.name != kept:
            shutil.rmtree(path, ignore_errors=True)


def _as_written(spec: SweepSpec) -> dict[str, Any]:
    """The spec by the keys of a sweep file, with a key for every kind of study."""
    told = spec.model_dump(mode="json")
    keys = type(spec).keys()
    return {key: told.get(key, told["studies"].get(key)) for key in keys}


def _log_in() -> None:
    """Find the API key and try it once. Raises, asking nobody, without one that works."""
    import wandb

    if not wandb.login(prompt=False, verify=True):
        raise NoKeyError(
            "online tracking needs an API key of W&B, and there is none: set WANDB_API_KEY or run: "
            "wandb login; or track offline (--mode offline, or tracking: {wandb: offline} in a "
            "sweep file), which needs no key and can be sent later"
        )


def _send(
    payload: Payload, mode: str, project: str, group: str, folder: Path, figures: list[Path]
) -> str:
    import wandb

    run: Any = wandb.init(
        project=project,
        group=group,
        id=payload.run_id,
        name=payload.name,
        config=dict(payload.config),
        dir=str(folder.absolute()),  # its service has a current folder of its own
        mode=mode,  # type: ignore[arg-type]
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
    try:
        tables = {
            name: wandb.Table(
                columns=list(table.columns),
                data=[list(line) for line in table.lines],
                allow_mixed_types=True,
            )
            for name, table in payload.tables.items()
        }
        images = {f"figures/{path.stem}": wandb.Image(str(path)) for path in figures}
        run.log({**payload.metrics, **tables, **images})
        written = Path(run.settings.sync_dir)
        below = folder / "wandb" / written.name
        return str(run.url if mode == "online" else below if below.exists() else written)
    finally:
        run.finish()
