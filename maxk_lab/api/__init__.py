"""The Python functions that do what the command line does: plan, run, report and measure."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, get_type_hints

from pydantic import ConfigDict, PositiveInt, TypeAdapter, ValidationError

from maxk_lab.cli.console import refusal
from maxk_lab.cli.progress import Display
from maxk_lab.cli.runs import planned
from maxk_lab.errors import LabError, MistakeError, RefusedError, error_line, shown, warn
from maxk_lab.execution.archive import find_run
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.run import Outcome, execute
from maxk_lab.execution.tasks import OnEvent
from maxk_lab.planning.plan import Plan, make_plan, select
from maxk_lab.reports.claims import ClaimVerdict
from maxk_lab.reports.drawing import figures
from maxk_lab.reports.formats.render import rendered
from maxk_lab.reports.report import Report, read_report
from maxk_lab.reports.selection import part_of
from maxk_lab.reports.tables import Tables
from maxk_lab.reports.write import write_report
from maxk_lab.sweep_file.model import Sweep
from maxk_lab.sweep_file.text import as_json

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor, nn

    from maxk_lab.own.audit import Audit

AnyPath = str | os.PathLike[str]
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_EXACTLY = ConfigDict(strict=True, arbitrary_types_allowed=True)


def checked(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Check the arguments of a function against its annotations, and translate refusals.

    Raises `MistakeError` that names the first argument of another type.
    """
    signature = inspect.signature(function)

    @cache
    def adapters() -> dict[str, TypeAdapter[Any]]:
        hints = get_type_hints(function, include_extras=True)
        names = hints.keys() & signature.parameters.keys()
        return {name: TypeAdapter(hints[name], config=_EXACTLY) for name in names}

    @wraps(function)
    def call(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        for name, value in signature.bind(*arguments, **options).arguments.items():
            try:
                if name in adapters():
                    adapters()[name].validate_python(value)
            except ValidationError:
                kind = function.__annotations__[name]
                raise MistakeError(f"{name} must be {kind}, got {shown(value)}") from None
        with translate_refusals():
            return function(*arguments, **options)

    return call


@contextmanager
def translate_refusals() -> Iterator[None]:
    """Raise a `RefusedError` with the message of the command line if the system refuses."""
    try:
        yield
    except OSError as error:
        if (refused := refusal(error)) is None:
            raise
        raise RefusedError(f"the system refuses it: {refused}") from error


@dataclass(frozen=True, repr=False)
class RunReport:
    """The report of a run; a notebook shows it as Markdown."""

    _report: Report = field(repr=False)

    def __repr__(self) -> str:
        verdicts = [claim.verdict for claim in self._report.claims]
        claims = [f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts)]
        words = f"; claims: {', '.join(claims)}" if claims else ""
        return f"<Report of {self._report.origin.name}: {self._report.origin.progress}{words}>"

    def __str__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return self.to("markdown")

    @property
    def tables(self) -> Tables:
        """The numbers as three DataFrames: estimates, comparisons and claims."""
        return self._report.tables

    @property
    def answer(self) -> list[str]:
        """The lines of the answer."""
        return self._report.answer

    @property
    def text(self) -> str:
        """The text of `maxk-lab report --full`."""
        return rendered(self._report, "terminal", full=True)

    @property
    def verdicts(self) -> Mapping[str, ClaimVerdict]:
        """The verdict on every claim of the sweep, by name."""
        return {claim.name: claim for claim in self._report.claims}

    @property
    def ok(self) -> bool:
        """Whether `maxk-lab report` would exit with 0."""
        return self._report.sound

    def to(self, format: str) -> str:
        """Return the report as terminal, markdown, html, csv, json or latex.

        Raises `LabError` for another format.
        """
        return self.text if format == "terminal" else rendered(self._report, format)

    @checked
    def chart(self, name: str) -> Any:
        """The Altair chart with a name such as `variance`. Raises `LabError` if there is none."""
        charts = {figure.name: figure.chart for figure in figures(self._report)}
        if name not in charts:
            raise LabError(f"no chart {shown(name)}; this run has {', '.join(charts) or 'none'}")
        return charts[name]

    @checked
    def write(self, folder: AnyPath) -> list[Path]:
        """Write every format and the figures to a folder; return the files, figures last."""
        return write_report(self._report, Path(folder))


@dataclass(frozen=True, repr=False)
class Run:
    """A measured run: its absolute `folder`, and the `outcome` with ids of cells.

    A `Run` is a path: `maxk_lab.load(run)`.
    """

    folder: Path
    outcome: Outcome

    def __fspath__(self) -> str:
        return str(self.folder)

    def __repr__(self) -> str:
        counts = map(len, (self.outcome.done, self.outcome.reused, self.outcome.failed))
        return "<Run {}: {} measured, {} already done, {} failed>".format(self.folder, *counts)

    @property
    def ok(self) -> bool:
        """Whether every selected cell is measured."""
        return not (self.outcome.failed or self.outcome.missing)

    def load(self, **options: Any) -> pd.DataFrame:
        """Return the numbers as a DataFrame, with the options of `maxk_lab.load`."""
        from maxk_lab.results.frame import load

        return load(self, **options)

    def report(self, **options: Any) -> RunReport:
        """Return the report, with the options of `maxk_lab.report`."""
        return report(self, **options)


@checked
def plan(
    spec: AnyPath | Mapping[str, Any] | Sweep,
    *,
    overrides: Mapping[str, Any] | Sequence[str] = (),
    results: AnyPath = "results",
) -> Plan:
    """Return the cells and units of a sweep, as `maxk-lab plan` counts them, without measuring."""
    spec = Path(spec) if isinstance(spec, str | os.PathLike) else spec
    return planned(spec, _as_options(overrides), Path(results)).plan


@checked
def run(
    spec: AnyPath | Mapping[str, Any] | Sweep,
    *,
    results: AnyPath = "results",
    jobs: PositiveInt = 1,
    only: str | None = None,
    overrides: Mapping[str, Any] | Sequence[str] = (),
    shift_seeds: int = 0,
    retry_failed: bool = False,
    force: bool = False,
    execution: AnyPath | None = None,
    progress: bool | OnEvent = True,
) -> Run:
    """Measure the cells of a sweep that have no record yet, like `maxk-lab run`.

    `spec` is a sweep file, a dict, a `Sweep`, or a bundle. `overrides` are {"gradient.pool": 64} or
    ["gradient.pool=64"]. Records go to a folder with the sweep's name under `results`; the same
    call again continues. `only` selects cells, as in "baseline=subloo,k=8". The other options are
    those of the command line.

    `progress=True` prints lines to stderr (a bar on a terminal). A function as `progress` gets the
    name and payload of every event instead. Nothing is sent to W&B; use `maxk-lab track`.

    Units are measured in `jobs` processes, which import nothing of the calling script or notebook:
    a function that a sweep names must be in a module. A warning counts the failed cells. Raises
    `LabError` for every problem of the spec, and `RefusedError` if the system refuses an operation.
    """
    spec = Path(spec) if isinstance(spec, str | os.PathLike) else spec
    settings = None if execution is None else Path(execution)
    words = _as_options(overrides)
    sweep_run = planned(spec, words, Path(results), shift_seeds, settings, unpacked=True)
    select(sweep_run.plan, only, option="only")
    chosen: Any = {"only": only, "retry_failed": retry_failed, "force": force}
    events: Any = nullcontext(progress if callable(progress) else lambda name, payload: None)
    studies = {cell.id: cell.study for cell in sweep_run.plan.cells}
    with Display(studies) if progress is True else events as on_event:
        outcome = execute(sweep_run, jobs=jobs, on_event=on_event, **chosen)
    directory, sentences = sweep_run.folder, []
    if outcome.failed:
        record = directory.read(outcome.failed[0])
        first = f" (the first: {error_line(record.error)})" if record is not None else ""
        advice = "run again with retry_failed=True once it is mended"
        sentences.append(f"{len(outcome.failed)} cells failed{first}: {advice}")
    if outcome.missing:
        sentences.append(f"{len(outcome.missing)} cells have no record")
    if sentences:
        warn("; ".join(sentences))
    return Run(directory.root.absolute(), outcome)


def _as_options(overrides: Mapping[str, Any] | Sequence[str]) -> list[str]:
    """Return overrides as command-line options: values are YAML, so JSON is valid."""
    if not isinstance(overrides, Mapping):
        return list(overrides)
    return [f"{key}={as_json(value, 'overrides must be')}" for key, value in overrides.items()]


@checked
def report(
    run: AnyPath | RunDirectory | None = None,
    *,
    where: str | None = None,
    columns: str | Sequence[str] | None = None,
    results: AnyPath = "results",
) -> RunReport:
    """Return the report of a run: tables, and a verdict on every claim.

    `run` is the name of a run under `results`, a folder, a bundle, or the result of `maxk_lab.run`;
    the latest run if None. `where` selects rows, as in "k=8,baseline=centred"; `columns` selects
    columns of the CSV. Claims are judged on the whole run. Raises `LabError` for an unknown run,
    row or column.
    """
    if not isinstance(run, RunDirectory):
        run = find_run(None if run is None else os.fspath(run), os.fspath(results))
    sweep = make_plan(run.spec())
    complete = read_report(run, sweep)
    return RunReport(part_of(complete, sweep, where=where, columns=columns, dashes=""))


def measure(
    rewards: Any,
    *,
    gram: Any = None,
    scores: Any = None,
    log_probs: Tensor | None = None,
    parameters: Sequence[nn.Parameter] = (),
    n: int | Sequence[int] = (),
    k: int | Sequence[int] = (),
    **options: Any,
) -> RunReport | Audit:
    """Return the report on samples of your own training; see `maxk_lab.own.measure.measured`."""
    from maxk_lab.own.measure import measured

    sources: Any = {"gram": gram, "scores": scores, "log_probs": log_probs}
    result = measured(rewards, **sources, parameters=parameters, n=n, k=k, **options)
    return RunReport(result) if isinstance(result, Report) else result
