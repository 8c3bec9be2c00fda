"""Finished records sent to Weights & Biases, at any time: what was sent before is replaced."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError, first_line, shown
from maxk_lab.sweeps.spec.schema import WANDB_MODES
from maxk_lab.tracking.session import NoKeyError as NoKeyError
from maxk_lab.tracking.session import Target, log_in, set_up

if TYPE_CHECKING:
    from maxk_lab.sweeps.plan.plan import Plan
    from maxk_lab.sweeps.run.records import RunDirectory
    from maxk_lab.sweeps.spec.schema import SweepSpec, Tracking

# Told after each run that is sent: how many are, and of how many.
Progress = Callable[[int, int], None]


class TrackingError(LabError):
    """W&B failed. `sent` are the places of the runs that were sent before."""

    def __init__(self, message: str, sent: Sequence[str]) -> None:
        self.sent = list(sent)
        super().__init__(message)


def track(
    run: RunDirectory,
    mode: str,
    project: str | None = None,
    *,
    entity: str | None = None,
    plan: Plan | None = None,
    sent: Mapping[str, str] | None = None,
    progress: Progress = lambda done, of: None,
) -> list[str]:
    """Send the finished records of `run` to W&B; return the folders or addresses written.

    One run of W&B for what each kind of study says, then one of the sweep as a whole with its
    report. `offline` writes below the run's own folder and needs no network and no key; what was
    written there before is replaced. `disabled` does nothing. `plan` is made, and
    `project` and `entity` are those of the sweep file, unless given; `sent` has the addresses of
    runs, by their ids, that are not sent again. Raises `LabError` for an unknown mode and for
    `online` without a key, and `TrackingError` for whatever goes wrong with W&B: the records are
    only read, and they stay.
    """
    if mode not in WANDB_MODES:
        also = did_you_mean(mode, WANDB_MODES)
        raise LabError(f"unknown W&B mode {shown(mode)}{also}; known: {', '.join(WANDB_MODES)}")
    if mode == "disabled":
        return []
    from maxk_lab.sweeps.plan.plan import make_plan
    from maxk_lab.tracking.of_sweep import of_sweep
    from maxk_lab.tracking.payload import groups, payload
    from maxk_lab.tracking.sending import remove_earlier, send

    plan = plan or make_plan(run.spec())
    records, spec, tags = run.records(plan), as_written(plan.spec), plan.spec.tracking.tags
    target = target_of(run, plan, mode, project=project, entity=entity)
    title = run.title(plan.spec)
    found, places, ids, known = groups(records), [], set(), sent or {}
    number = len(found) + 1 if found else 0
    try:
        if found or mode == "online":
            set_up()
        if mode == "online":
            log_in()
        for group in found:
            one = payload(title, spec, group, tags)
            ids.add(one.run_id)
            places.append(known.get(one.run_id) or send(one, target))
            progress(len(places), number)
        if found:
            whole, files = of_sweep(run, plan, spec, records, tags)
            places.append(send(whole, target, files))
            progress(len(places), number)
            if mode == "offline":
                remove_earlier(run.root / "wandb", {*ids, whole.run_id})
    except NoKeyError:
        raise
    # SystemExit too: some of wandb's errors end the process.
    except (Exception, SystemExit) as error:
        kind = "" if isinstance(error, LabError) else f"{type(error).__name__}: "
        raise TrackingError(
            f"W&B ({mode}) failed with {len(places)} of {number} runs sent: {kind}"
            f"{first_line(error)}; the records are safe. Try again with: "
            f"maxk-lab track {shlex.quote(str(run.root))} --mode {mode}",
            places,
        ) from error
    return places


def target_of(
    run: RunDirectory,
    plan: Plan,
    mode: str,
    *,
    project: str | None = None,
    entity: str | None = None,
) -> Target:
    """Return the place where the runs of a sweep go, as its file says."""
    asked: Tracking = plan.spec.tracking
    return Target(
        mode=mode,
        project=project or asked.project,
        entity=entity or asked.entity,
        group=asked.group or run.title(plan.spec),
        folder=run.root,
    )


def as_written(spec: SweepSpec) -> dict[str, Any]:
    """Return the spec by the keys of a sweep file, with a key for every kind of study."""
    told = spec.model_dump(mode="json")
    keys = type(spec).keys()
    return {key: told.get(key, told["studies"].get(key)) for key in keys}
