"""The report of a run: its tables, verdicts on claims, answer, charts, and origin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from maxk_lab.errors import error_line
from maxk_lab.planning.plan import Plan, make_plan, stale_line
from maxk_lab.reports.answer import Answer, answer_of_study
from maxk_lab.reports.claims import ClaimVerdict, count_verdicts, judge_claims
from maxk_lab.reports.document import Block
from maxk_lab.reports.naming import listed
from maxk_lab.reports.tables import Pooled, Tables, grouped, make_tables, pooled_study
from maxk_lab.sweep_file.content import changed_since
from maxk_lab.sweep_file.studies import STUDIES, in_reading_order

if TYPE_CHECKING:
    from maxk_lab.execution.records import Record, RunDirectory
    from maxk_lab.reports.charts import Figure
    from maxk_lab.sweep_file.claims import Claim

# The most reasons, unfinished cells and names in a list, and the most failed cells with a line.
_REASONS, _CELLS, _NAMES, _FAILED = 20, 6, 5, 5


@dataclass(frozen=True)
class Origin:
    """The source of the numbers: the sweep, its cells, and the code that measured them.

    `commits` and `versions` are those of all records, `projects` the commits of the user's
    repository. `failed` has the error of each failed cell by its name, `missing` the names of cells
    without a record. `stale` counts records of another version of the sweep; `changed` names the
    code and models that changed since the measurement. `level` is that of intervals, `alpha` the
    error rate of a family of comparisons, `seconds` the time by kind of study.
    """

    name: str = ""
    description: str = ""
    seeds: tuple[int, ...] = ()
    commits: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    planned: int = 0
    done: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    stale: int = 0
    changed: tuple[str, ...] = ()
    level: float = 0.95
    alpha: float = 0.05
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def progress(self) -> str:
        """The progress `all 8 cells measured`, or `5 of 8 cells measured; 1 failed, 2 missing`."""
        if not self.planned:
            return "no cells are planned"
        if self.done == self.planned:
            return f"all {self.planned} cells measured" if self.planned > 1 else "1 cell measured"
        counts = {"failed": len(self.failed), "missing": len(self.missing)}
        rest = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        return f"{self.done} of {self.planned} cells measured; {rest}"

    @property
    def lines(self) -> list[str]:
        """The lines of the git commit and the versions."""
        versions = [f"{package} {' / '.join(each)}" for package, each in self.versions.items()]
        lines = [f"git commit: {', '.join(self.commits) or 'unknown'}"]
        lines += [f"project commit: {', '.join(self.projects)}"] if self.projects else []
        return [*lines, f"versions: {', '.join(versions)}"] if versions else lines

    @property
    def failures(self) -> list[str]:
        """A line for each failed cell; a line for each reason if many or all cells failed."""
        single = self.done and len(self.failed) <= _FAILED
        cells = list(self.failed)
        groups = grouped(cells, lambda cell: cell if single else self.failed[cell]).values()
        lines = [
            f"{f'{len(group)} cells, e.g. ' if len(group) > 1 else ''}{group[0]}: "
            f"{self.failed[group[0]]}"
            for group in groups
        ]
        more = len(lines) - _REASONS
        return [*lines[:_REASONS], *([f"and {more} more reasons"] if more > 0 else [])]

    @property
    def without_result(self) -> list[str]:
        """Return a line for each cell without a result, or one line for many cells."""
        lines = [f"failed: {line}" for line in self.failures] if self.done else []
        if len(self.missing) > _CELLS:
            example, command = self.missing[0], f"maxk-lab run {self.name}.yaml"
            number = f"{len(self.missing)} cells, such as {example}"
            lines.append(f"not finished: {number}; continue with {command}")
        else:
            lines += [f"not finished: {name}" for name in self.missing]
        return [*lines, stale_line(self.stale)] if self.stale else lines


@dataclass(frozen=True)
class Report:
    """The report of a run, for every format.

    `answers` are the sentences and short tables of the kinds of study, in reading order. `charts`
    are drawn on demand, and `undrawn` names the charts that failed. `studies` has the rows with
    their paired values, for charts and recommendations. In a part of a report, `selection`
    describes the part, and `columns` are the chosen columns.
    """

    tables: Tables
    claims: tuple[ClaimVerdict, ...]
    answers: tuple[Answer, ...]
    origin: Origin
    charts: tuple[Figure, ...] = ()
    undrawn: tuple[str, ...] = ()
    studies: Mapping[str, Pooled[Any]] = field(default_factory=dict, repr=False)
    selection: str = ""
    columns: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The title of the report."""
        return f"maxk-lab: {self.origin.name}"

    @property
    def sound(self) -> bool:
        """Whether no claim is refuted or cannot be judged, and no cell failed."""
        judged = all(claim.judged and claim.verdict != "refuted" for claim in self.claims)
        return judged and not self.origin.failed

    @property
    def status(self) -> list[str]:
        """The first lines: the cells with a result, and changes since the measurement."""
        origin = self.origin
        words = origin.progress
        if origin.planned and len(origin.failed) == origin.planned:
            words = f"every cell failed and nothing was measured: {words}"
        elif origin.planned and not origin.done:
            words = f"nothing is measured yet: {words}"
        lines = [f"{words[0].upper()}{words[1:]}."]
        if origin.changed:
            lines.append(f"CHANGED: {changed_line(origin.changed)}.")
        lines += [] if origin.done else origin.failures
        if unjudged := [claim.name for claim in self.claims if not claim.judged]:
            lines.append(f"Claims that lack cells: {listed(unjudged, _NAMES)}.")
        return lines

    @property
    def answer(self) -> list[str]:
        """The sentences of the answer."""
        if not self.origin.done:
            return []
        lines = [sentence for answer in self.answers for sentence in answer.sentences]
        return [*lines, *([f"Claims: {count_verdicts(self.claims)}."] if self.claims else [])]

    @property
    def chosen(self) -> Block:
        """The table of the chosen columns; empty without chosen columns."""
        from maxk_lab.reports.details import chosen_table

        if not self.columns:
            return Block()
        return chosen_table(self.tables, self.columns, self._words, self.origin.level)

    @property
    def blocks(self) -> list[Block]:
        """The answer, the claims, the short tables, the figures, and all other tables, folded.

        A part of a report has unfolded tables and no answer.
        """
        if self.selection or self.columns:
            return self.short_blocks
        words = tuple(f"{claim.name}: {claim.text}." for claim in self.claims if self.origin.done)
        folded = _filled(Block("What the claims say", items=words), *self._details())
        provenance = Block(lines=tuple(self.origin.lines))
        rest = (
            Block("All tables", folded=tuple(folded)),
            Block("Where these numbers come from", folded=(provenance,)),
        )
        return [*self.short_blocks, *_filled(*rest)]

    def _details(self) -> list[Block]:
        from maxk_lab.reports.details import detail_blocks

        return list(detail_blocks(self.tables, self._words)) if self.origin.done else []

    @property
    def short_blocks(self) -> list[Block]:
        """The blocks without the folded tables, which take most of the time."""
        origin, measured = self.origin, bool(self.origin.done)
        first = Block(lines=(*filter(None, [origin.description]), *self.status, *self.undrawn))
        verdicts = [f"{c.verdict.upper()} {c.name}: {c.detail}." for c in self.claims]
        claims = Block("Claims", items=tuple(verdicts if measured else ()))
        absent = Block("Without a result", items=tuple(origin.without_result))
        if self.columns:
            return _filled(Block(lines=(*first.lines, self.selection)), self.chosen)
        if self.selection:
            lines = Block(lines=(*first.lines, self.selection, *origin.lines))
            return _filled(lines, claims, absent, *self._details())
        return _filled(
            first,
            Block("Answer", tuple(self.answer), labelled=True),
            claims,
            *(answer.table for answer in self.answers if measured),
            Block("Figures", pictures=tuple(self.charts)),
            absent,
        )

    @property
    def _words(self) -> dict[str, str]:
        """The words for each environment."""
        keys = [row.key for pooled in self.studies.values() for row in pooled.rows]
        return {key.environment: getattr(key, "words", "") or key.environment for key in keys}


def _filled(*blocks: Block) -> list[Block]:
    """Return the blocks that have more than a title."""
    return [block for block in blocks if replace(block, title="", labelled=False) != Block()]


def changed_line(changed: Sequence[str]) -> str:
    """Return the sentence on code and models that changed since the measurement."""
    return f"{listed(changed, _NAMES)} changed since the measurement; run the sweep again"


def read_report(
    run: RunDirectory, plan: Plan | None = None, *, level: float = 0.95, alpha: float = 0.05
) -> Report:
    """Return the report of the records of a run; its plan is made unless `plan` is given."""
    plan = plan or make_plan(run.spec())
    return make_report(
        [cell.as_dict() for cell in plan.cells],
        run.records(plan),
        claims=plan.spec.claims,
        name=run.title(plan.spec),
        description=plan.spec.description,
        stale=run.stale(plan),
        changed=changed_since(plan.spec),
        level=level,
        alpha=alpha,
    )


def make_report(
    cells: Sequence[Mapping[str, Any]],
    records: Iterable[Record],
    *,
    claims: Sequence[Claim] = (),
    level: float = 0.95,
    alpha: float = 0.05,
    **origin: Any,
) -> Report:
    """Return the report of planned cells and their records; `origin` are fields of `Origin`."""
    by_id = {record.cell["id"]: record for record in records}
    done = {cell: record for cell, record in by_id.items() if record.status == "done"}
    by_kind = grouped(cells, lambda cell: str(cell["study"]))
    studies = {
        kind: pooled_study(
            kind, by_kind.get(kind, []), done, level=level, alpha=alpha, compared=True
        )
        for kind in STUDIES.names()
    }
    verdicts = tuple(judge_claims(claims, studies, alpha=alpha))
    source = Origin(**origin, **_origin(cells, by_id, done), level=level, alpha=alpha)
    answers = (answer_of_study(kind, studies[kind.name], source) for kind in in_reading_order())
    tables = make_tables(studies, verdicts)
    return Report(tables, verdicts, tuple(answers), source, studies=studies)


def _origin(
    cells: Sequence[Mapping[str, Any]], by_id: Mapping[str, Record], done: Mapping[str, Record]
) -> dict[str, Any]:
    commits: dict[str, set[str]] = {"git": set(), "project": set()}
    versions: dict[str, set[str]] = {}
    seconds: dict[str, float] = {}
    for record in by_id.values():
        for repository, hashes in commits.items():
            git = record.provenance.get(repository) or {}
            if git.get("commit"):
                changed = " (with uncommitted changes)" if git.get("dirty") else ""
                hashes.add(git["commit"] + changed)
        for package, version in (record.provenance.get("versions") or {}).items():
            if version is not None:
                versions.setdefault(package, set()).add(str(version))
        study = record.cell["study"]
        seconds[study] = seconds.get(study, 0.0) + (record.timings.get("seconds") or 0.0)
    names = {
        cell["id"]: f"{STUDIES.get(cell['study']).load_module('table').key(cell).path} "
        f"seed {cell['seed']} (cell {cell['id']})"
        for cell in cells
        if cell["id"] not in done
    }
    return {
        "seeds": tuple(sorted({cell["seed"] for cell in cells})),
        "commits": tuple(sorted(commits["git"])),
        "projects": tuple(sorted(commits["project"])),
        "versions": {package: tuple(sorted(each)) for package, each in sorted(versions.items())},
        "planned": len(cells),
        "done": len(done),
        "failed": {
            name: error_line(by_id[cell].error) for cell, name in names.items() if cell in by_id
        },
        "missing": tuple(name for cell, name in names.items() if cell not in by_id),
        "seconds": seconds,
    }
