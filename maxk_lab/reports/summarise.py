"""Records of a run → a `Summary`: the rows of every kind of study, and verdicts on the claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from maxk_lab.errors import error_line
from maxk_lab.reports.claims import judge_claims
from maxk_lab.reports.model import Counts, Failure, Header, Summary
from maxk_lab.reports.tables import grouped, pooled_of
from maxk_lab.sweep_file.studies import STUDIES

if TYPE_CHECKING:
    from maxk_lab.execution.records import Record, RunDirectory
    from maxk_lab.planning.plan import Plan
    from maxk_lab.sweep_file.claims import Claim


def summarise(
    run: RunDirectory, plan: Plan | None = None, *, level: float = 0.95, alpha: float = 0.05
) -> Summary:
    """The summary of a run directory: its plan, which is made unless given, against its records."""
    from maxk_lab.planning.plan import make_plan
    from maxk_lab.sweep_file.content import changed_since

    plan = plan or make_plan(run.spec())
    spec = plan.spec
    return summarise_records(
        [cell.as_dict() for cell in plan.cells],
        run.records(plan),
        name=run.title(spec),
        description=spec.description,
        claims=spec.claims,
        stale=run.stale(plan),
        changed=changed_since(spec),
        level=level,
        alpha=alpha,
    )


def summarise_records(
    cells: Sequence[Mapping[str, Any]],
    records: Iterable[Record],
    *,
    name: str,
    description: str = "",
    claims: Sequence[Claim] = (),
    level: float = 0.95,
    alpha: float = 0.05,
    **more: Any,
) -> Summary:
    """The summary of planned cells and their records; see `summarise`.

    `more` are further fields of the summary.
    """
    by_id = {record.cell["id"]: record for record in records}
    done = {identity: record for identity, record in by_id.items() if record.status == "done"}
    of_kind = grouped(cells, lambda cell: str(cell["study"]))
    studies = {
        name: pooled_of(name, of_kind.get(name, []), done, level=level, alpha=alpha, compared=True)
        for name in STUDIES.names()
    }
    missing = tuple(cell["id"] for cell in cells if cell["id"] not in by_id)
    return Summary(
        header=_header(name, description, cells, list(by_id.values())),
        studies=studies,
        counts=Counts(
            planned=len(cells),
            done=len(done),
            failed=len(by_id) - len(done),
            missing=len(missing),
        ),
        claims=tuple(judge_claims(claims, studies, alpha=alpha)),
        failed=tuple(
            Failure(
                cell["id"],
                STUDIES.get(cell["study"]).part("pool").key(cell).path,
                cell["seed"],
                error_line(by_id[cell["id"]].error),
            )
            for cell in cells
            if cell["id"] in by_id and cell["id"] not in done
        ),
        missing=missing,
        level=level,
        alpha=alpha,
        origins=_origins(by_id),
        **more,
    )


def _origins(records: Mapping[str, Record]) -> dict[str, Record]:
    """The records without their metrics, which take most of the memory."""
    shared: dict[str, dict[str, Any]] = {}
    return {
        identity: replace(
            record,
            metrics=None,
            content=None,
            provenance=shared.setdefault(repr(record.provenance), record.provenance),
        )
        for identity, record in records.items()
    }


def _header(
    name: str, description: str, cells: Sequence[Mapping[str, Any]], records: Sequence[Record]
) -> Header:
    commits: dict[str, set[str]] = {"git": set(), "project": set()}
    versions: dict[str, set[str]] = {}
    for record in records:
        for of, found in commits.items():
            git = record.provenance.get(of) or {}
            if git.get("commit"):
                changed = " (with uncommitted changes)" if git.get("dirty") else ""
                found.add(git["commit"] + changed)
        for package, version in (record.provenance.get("versions") or {}).items():
            if version is not None:
                versions.setdefault(package, set()).add(str(version))
    return Header(
        name=name,
        description=description,
        seeds=tuple(sorted({cell["seed"] for cell in cells})),
        commits=tuple(sorted(commits["git"])),
        projects=tuple(sorted(commits["project"])),
        versions={package: tuple(sorted(told)) for package, told in sorted(versions.items())},
    )
