"""Finished records sent to Weights & Biases: one run per study and seed, at any time."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError, first_line
from maxk_lab.tracking.payload import Payload, payloads

if TYPE_CHECKING:
    from maxk_lab.sweeps.plan.plan import Plan
    from maxk_lab.sweeps.run.records import RunDirectory
    from maxk_lab.sweeps.spec.schema import SweepSpec

MODES = ("offline", "online", "disabled")
# Seconds: to reach the server at all, and to upload what was logged.
INIT_TIMEOUT = 30.0
FINISH_TIMEOUT = 300.0


def track(
    run: RunDirectory, mode: str, project: str | None = None, *, plan: Plan | None = None
) -> list[str]:
    """Send the finished records of `run` to W&B; return the folders or addresses written.

    `offline` writes below the run's own folder and needs no network and no key; `disabled` does
    nothing. `plan` is made, and `project` is that of the sweep file, unless given. Whatever goes
    wrong with W&B is a warning, no exception: the records are the results, and they are not
    touched. Raises `LabError` for an unknown mode only.
    """
    if mode not in MODES:
        also = did_you_mean(mode, MODES)
        raise LabError(f"unknown W&B mode {mode!r}{also}; known: {', '.join(MODES)}")
    if mode == "disabled":
        return []
    sent: list[str] = []
    try:
        from maxk_lab.sweeps.plan.plan import make_plan

        plan = plan or make_plan(run.spec())
        spec, records = plan.spec, run.records(plan)
        project = project or spec.tracking.project
        figures = sorted((run.report_path / "figures").glob("*.png"))
        found = payloads(spec.name, _as_written(spec), records)
        if found and mode == "online":
            _log_in()
        for payload in found:
            sent.append(_send(payload, mode, project, spec.name, run.root, figures))
    # SystemExit too: some of wandb's errors end the process.
    except (Exception, SystemExit) as error:
        warnings.warn(
            f"W&B ({mode}) failed, the records are safe: {type(error).__name__}: "
            f"{first_line(error)}; try again with: maxk-lab track {run.root}",
            RuntimeWarning,
            stacklevel=2,
        )
    return sent


def _as_written(spec: SweepSpec) -> dict[str, Any]:
    """The spec by the keys of a sweep file, with a key for every kind of study."""
    told = spec.model_dump(mode="json")
    keys = type(spec).keys()
    return {key: told.get(key, told["studies"].get(key)) for key in keys}


def _log_in() -> None:
    """Find the API key and try it once. Raises, asking nobody, without one that works."""
    import wandb

    wandb.setup(settings=wandb.Settings(silent=True))
    if not wandb.login(prompt=False, verify=True):
        raise RuntimeError("no API key; set WANDB_API_KEY or run: wandb login")


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
        dir=str(folder),
        mode=mode,  # type: ignore[arg-type]
        reinit="create_new",
        settings=wandb.Settings(
            silent=True,
            console="off",
            disable_code=True,
            # The records carry their own provenance; that of the sending process would mislead.
            disable_git=True,
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
        return str(run.url if mode == "online" else Path(run.settings.sync_dir))
    finally:
        run.finish()
