"""Finished records sent to Weights & Biases, at any time: what was sent before is replaced."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError, first_line, shown
from maxk_lab.sweeps.spec.schema import WANDB_MODES
from maxk_lab.tracking.sending import NoKeyError as NoKeyError
from maxk_lab.tracking.sending import Target, log_in, remove_earlier, send, set_up

if TYPE_CHECKING:
    from maxk_lab.sweeps.plan.plan import Plan
    from maxk_lab.sweeps.run.records import Record, RunDirectory
    from maxk_lab.tracking.payload import Payload

# Told after each run that is sent: how many are, and of how many.
Progress = Callable[[int, int], None]


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
        project: str | None = None,
        entity: str | None = None,
    ) -> None:
        settings = plan.spec.tracking
        self.run, self.plan, self.tags = run, plan, settings.tags
        self.title = run.title(plan.spec)
        self.target = Target(
            mode=mode,
            project=project or settings.project,
            entity=entity or settings.entity,
            group=settings.group or self.title,
            folder=run.root,
        )
        written = plan.spec.model_dump(mode="json")
        # With a key for every kind of study.
        self.spec: dict[str, Any] = {key: written.get(key) for key in plan.spec.in_order()}

    def payloads(self, records: Iterable[Record]) -> list[Payload]:
        """Return the runs at W&B that these records make."""
        from maxk_lab.tracking.payload import payloads

        return payloads(self.title, self.spec, records, self.tags)

    def send_key(self, key: str) -> dict[str, str]:
        """Send the run with the `group_key`, from its records; return its address by its id."""
        from maxk_lab.tracking.payload import group_key

        cells = (cell for cell in self.plan.cells if group_key(cell.as_dict()) == key)
        records = (self.run.read(cell.id, cell) for cell in cells)
        payloads = self.payloads(record for record in records if record is not None)
        return {payload.run_id: send(payload, self.target) for payload in payloads}


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

    plan = plan or make_plan(run.spec())
    records, sender = run.records(plan), Sender(run, plan, mode, project, entity)
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
            places[one.run_id] = (sent or {}).get(one.run_id) or send(one, sender.target)
            progress(len(places), number)
        if records:
            whole, files = of_sweep(run, plan, sender.spec, records, sender.tags)
            places[whole.run_id] = send(whole, sender.target, files)
            progress(len(places), number)
            if mode == "offline":
                remove_earlier(run.root / "wandb", places)
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
