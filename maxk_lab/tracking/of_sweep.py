"""The run at W&B that is of a sweep as a whole: verdicts, figures, the report and the bundle."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxk_lab.errors import LabError, RefusedError, first_line
from maxk_lab.execution.provenance import without_places
from maxk_lab.planning.identity import content_hash
from maxk_lab.reports.report import Report, read_report
from maxk_lab.reports.write import write_report
from maxk_lab.tracking.payload import (
    Metrics,
    Payload,
    provenance,
    tables_of_single_cells,
)

if TYPE_CHECKING:
    from maxk_lab.execution.records import Record, RunDirectory
    from maxk_lab.planning.plan import Plan
    from maxk_lab.reports.charts import Figure
    from maxk_lab.tracking.wandb_tracker import Fill

JOB_TYPE = "report"


def of_sweep(
    run: RunDirectory,
    plan: Plan,
    spec: Mapping[str, Any],
    records: Sequence[Record],
) -> tuple[Payload, Fill]:
    """Return the payload of the sweep as a whole, and what adds its figures and artifacts."""
    report, name = read_report(run, plan), run.title(plan.spec)
    origin = report.origin
    metrics: Metrics = {
        "cells_planned": origin.planned,
        "cells_done": origin.done,
        "cells_failed": len(origin.failed),
    }
    metrics |= {f"claims/{claim.name}": claim.verdict for claim in report.claims}
    metrics |= dict(_best(report))
    tables = tables_of_single_cells(records)
    tables |= {name: table for name, table in report.tables._asdict().items() if len(table.columns)}
    payload = Payload(
        run_id=content_hash({"sweep": name, "run": JOB_TYPE}),
        name=f"{name} {JOB_TYPE}",
        job_type=JOB_TYPE,
        tags=(),
        notes=plan.spec.description,
        config={"sweep": name, "spec": dict(spec), **provenance(records[-1])},
        metrics=metrics,
        tables=tables,
    )
    return payload, partial(_add_files, run, name, report)


def _best(report: Report) -> Iterator[tuple[str, str]]:
    """The baselines of significantly lowest variance, by their place."""
    baselines = report.tables.estimates.drop_duplicates("row").set_index("row").baseline
    lines = report.tables.comparisons
    for row in lines.row[(lines.family == "best") & (lines.verdict == "lowest")]:
        yield f"best/{row.replace(f'/{baselines[row]}/', '/')}", baselines[row]


def _add_files(run: RunDirectory, name: str, report: Report, at_wandb: Any, folder: Path) -> None:
    """Write the report and the bundle into a folder, and send them with the figures to look at."""
    import wandb

    written, bundle = folder / "report", folder / "bundle"
    seen: dict[str, Any] = {}

    def show(picture: Figure, files: Sequence[Path]) -> None:
        (drawn,) = (path for path in files if path.suffix == ".png")
        words = ". ".join(filter(None, (picture.title, picture.caption)))
        seen[f"figures/{picture.name}"] = wandb.Image(str(drawn), caption=words)

    for path in write_report(report, written, shown=show):
        if path.suffix == ".html":
            seen[JOB_TYPE] = wandb.Html(str(path), inject=False)
    at_wandb.log(seen)
    _send_folder(at_wandb, written, f"{name}-report", "report", "the report in every format")
    bundle.mkdir()
    try:
        from maxk_lab.execution.archive import write_bundle

        write_bundle(run, bundle / f"{name}.zip")
    except (LabError, RefusedError) as error:
        # After a full disk the rest is still sent.
        at_wandb.summary["bundle"] = f"left out: {without_places(first_line(error))}"
        return
    about = "the records in one file, which maxk-lab report, show, plan and run read"
    _send_folder(at_wandb, bundle, f"{name}-bundle", "bundle", about)


def _send_folder(at_wandb: Any, folder: Path, name: str, kind: str, about: str) -> None:
    import wandb

    artifact = wandb.Artifact(re.sub(r"[^A-Za-z0-9._-]", "_", name)[:128], kind, description=about)
    # As they lie there: they are the run's own copies.
    artifact.add_dir(str(folder), policy="immutable", skip_cache=True)
    at_wandb.log_artifact(artifact)
