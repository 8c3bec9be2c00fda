"""A run whose cells cost nothing, for benchmarks of its driver; imports nothing that is large."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from maxk_lab.cli.progress import Display
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.execute import execute
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.load import load_spec

Unit = dict[str, Any]
_METRICS: dict[tuple[Any, ...], dict[str, Any]] = {}


def repeated(
    unit: Unit, cells: list[Unit], *, event: Callable[..., None], **_: Any
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give every unit the metrics of the first one that this worker has measured."""
    from maxk_lab.studies.gradient.work import measure

    if not _METRICS:
        by_id = {cell["id"]: cell for cell in cells}
        for cell_id, found in measure(unit, cells, cache=None, event=event):
            assert isinstance(found, dict), found
            _METRICS[_point(by_id[cell_id])] = found
    event("cells", {"done": len(cells), "of": len(cells)})
    for cell in cells:
        yield cell["id"], _METRICS[_point(cell)]


def _point(cell: Unit) -> tuple[Any, ...]:
    return cell["estimator"], cell["baseline"], cell["n"], cell["k"]


def drive(sweep: str, root: str) -> None:
    """Run a sweep with such metrics, and show its progress as a user sees it."""
    plan = make_plan(load_spec(sweep))
    shown = Display(plan)
    execute(plan, RunDirectory(root), on_event=shown, measure="driven:repeated")
