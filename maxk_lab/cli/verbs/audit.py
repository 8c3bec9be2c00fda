"""`maxk-lab audit`: findings about a training from its log of rewards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import emit_json, print_line, print_table, say
from maxk_lab.errors import LabError

if TYPE_CHECKING:
    import pandas as pd

    from maxk_lab.own.audit import Audit
    from maxk_lab.own.plans.difference import LogDifference

# The most steps in a table, and the first K of a difference.
_STEPS, _SHOWN = 6, 16


def main(
    context: typer.Context,
    log: Annotated[
        list[Path],
        typer.Argument(metavar="LOG...", help="JSON, CSV or Parquet files; or folders of them."),
    ],
    reward: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The reward of a sample; A+B adds two.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The prompt of a sample.")
    ] = None,
    step: Annotated[str | None, typer.Option(metavar="COLUMN", help="The training step.")] = None,
    advantage: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The advantage of a sample.")
    ] = None,
    k: Annotated[
        list[int] | None,
        typer.Option("--k", "-k", metavar="K", min=1, help="A K of the curve. Repeatable."),
    ] = None,
    budget: Annotated[
        int | None, typer.Option(min=2, metavar="B", help="Rollouts per step: compare every n.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Also plan for each value of the column.")
    ] = None,
    compare: Annotated[
        list[Path] | None, typer.Option(metavar="LOG2", help="Compare Max@K with this log.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write table and chart to a folder.")
    ] = None,
) -> None:
    """Audit the rewards in a training log, and recommend a K and a baseline.

    Logs of TRL, ms-swift and verl, and results of human-eval, evalplus and inspect_ai are read
    directly (docs/files.md). For other logs, the options name the columns. The first line says how
    the columns were understood.

    Prints the unbiased Max@K curve (pass@K if all rewards are 0 or 1), by step and over all steps.
    Prints the share of groups with a signal, the noise of each baseline and K, and the method
    behind the logged advantages.

    --budget predicts the variance of a step of B rollouts for every n that divides B, and
    recommends n and a baseline. It assumes scores with equal norms and a given coherence, unless a
    file with scores for `maxk-lab measure` is among the logs. --compare prints the difference in
    Max@K to another log, with a 95 % band over all K.

    \b
    [bold]maxk-lab audit completions.jsonl[/bold]
    [bold]maxk-lab audit completions.jsonl --budget 256 --by source --out plan/[/bold]
    [bold]maxk-lab audit trained.jsonl --compare base.jsonl[/bold]
    """
    columns = {"reward": reward, "group": group, "step": step, "advantage": advantage}
    alone = {"--k": k, "--budget": budget, "--by": by, "--out": out}
    unused = [name for name, value in alone.items() if value]
    if compare and unused:
        raise LabError(f"--compare covers every K and plans no step: leave out {', '.join(unused)}")
    if (by or out) and budget is None:
        raise LabError("--by and --out need --budget: how many rollouts a step takes")
    from maxk_lab.own.audit import audit
    from maxk_lab.own.plans.chart import write_plan
    from maxk_lab.own.plans.difference import compare_logs

    json = options.shared(context).json
    if compare:
        _print(compare_logs(log, compare, columns), ("curve",), show_difference, json)
        return
    result = audit(*log, **columns, ks=k or (), budget=budget, by=by)
    _print(result, ("curve", "rows", "plan"), show, json)
    if out is not None:
        say(f"Wrote {', '.join(map(str, write_plan(result, out)))}")


def _print(result: Any, frames: Sequence[str], show: Callable[[Any], None], json: bool) -> None:
    """Print a result; as JSON, these attributes are lists of records."""
    if json:
        records = {name: getattr(result, name).to_dict("records") for name in frames}
        emit_json(asdict(result) | records)
    else:
        show(result)


def show(audit: Audit) -> None:
    """Print an audit."""
    from maxk_lab.own.audit import range_of

    print_line(audit.reading)
    in_steps = f", {audit.steps:,} step{'s' * (audit.steps > 1)}" if audit.steps else ""
    print_line(
        f"groups of {range_of(audit.sizes)}{in_steps}; {audit.constant:.0%} have equal rewards"
    )
    print_line("")
    value = "pass@K" if audit.binary else "Max@K"
    print_line(f"{value}, with 95 % intervals over prompts", bold=True)
    curve = audit.curve
    steps = [step for step in dict.fromkeys(curve.step) if step is not None]
    last = max(len(steps) - 1, 0)
    shown = {None} | {steps[round(i * last / (_STEPS - 1))] for i in range(_STEPS) if steps}
    curve = curve[[step in shown for step in curve.step]]
    digits = ".3f" if audit.binary else ".4g"
    ends = zip(curve.value, curve.low, curve.high, strict=True)
    _print_by_k(curve, "step", [_interval(*each, digits) for each in ends])
    for note in dict.fromkeys([*filter(None, curve.reason), *audit.notes]):
        print_line(note)
    print_line("")
    print_line("Groups with a signal, and noise over the lowest (equal score norms)", bold=True)
    rows = audit.rows
    shares = zip(rows.signal, rows.relative, strict=True)
    _print_by_k(rows, "baseline", [f"{share:.0%}  {_times(noise)}" for share, noise in shares])
    print_line("")
    if audit.trained is not None:
        row, k, factor = audit.trained
        times = "" if factor == "1" else f", times {factor}"
        print_line(f"Trained with: {row} at K = {k}{times}")
    print_line(f"Take: {audit.advice}")
    if audit.use:
        _show_plan(audit)


def _show_plan(audit: Audit) -> None:
    """Print the lowest variance of a step at each n, by source and K, and the recommendation."""
    plan = audit.plan
    # `use` names the sources without a signal.
    for (source, k), rows in plan.dropna(subset=["loss"]).groupby(["source", "k"], sort=False):
        place = f", {source}" if plan.source.nunique() > 1 else ""
        lowest: Any = rows.loc[rows.groupby("n").loss.idxmin()]
        print_line("")
        print_line(f"A step at K = {k}{place}, with 95 % intervals over prompts", bold=True)
        headings = ["n", "prompts", "equal groups", "lowest", "relative variance"]
        lines = [
            (
                *(row.n, row.prompts, f"{row.dead:.0%}", row.baseline),
                _interval(row.relative_variance, row.low, row.high, ".3g"),
                _interval(row.loss, row.loss_low, row.loss_high, ".3g"),
                f"{row.loss_least:.3g} to {row.loss_most:.3g}",
            )
            for row in lowest.itertuples()
        ]
        print_table([*headings, "over the best", "over the range"], lines)
    print_line("")
    for reason in dict.fromkeys(filter(None, plan.reason)):
        print_line(reason)
    print_line(f"{audit.assumption}. Relative variance: Var of the step over ‖∇J‖².")
    for line in audit.use:
        print_line(line)


def show_difference(difference: LogDifference) -> None:
    """Print the difference of two logs at each K."""
    for line in (*difference.readings, *difference.notes):
        print_line(line)
    print_line("")
    value = "pass@K" if difference.binary else "Max@K"
    print_line(f"{value} of the first log less the second, 95 % band over all K", bold=True)
    curve: Any = difference.curve
    digits = ".3f" if difference.binary else ".4g"
    shown = sorted({*range(_SHOWN), *(2**i - 1 for i in range(20)), len(curve) - 1})
    rows = [
        (
            *(row.k, f"{row.first:{digits}}", f"{row.second:{digits}}"),
            _interval(row.difference, row.low, row.high, digits),
            {1: "higher", -1: "lower", 0: "open"}[row.sign],
            "" if row.sign or row.prompts != row.prompts else f"{row.prompts:,.0f}",
        )
        for row in curve.iloc[[i for i in shown if i < len(curve)]].itertuples()
    ]
    print_table(["K", "first", "second", "difference", "sign", "prompts to settle it"], rows)
    print_line(difference.verdict)


def _print_by_k(frame: pd.DataFrame, by: str, texts: list[str]) -> None:
    """Print the texts of each line as a table with a column for every K."""
    cells = dict(zip(zip(frame[by], frame.k, strict=True), texts, strict=True))
    ks = sorted({*frame.k})
    rows = (
        ["all" if name is None else f"{name}", *(cells.get((name, k), "") for k in ks)]
        for name in dict.fromkeys(frame[by])
    )
    print_table([by, *(f"K = {k}" for k in ks)], rows)


def _interval(value: float, low: float, high: float, digits: str) -> str:
    ends = "—" if low != low else f"{low:{digits}}, {high:{digits}}"
    return f"{value:{digits}} [{ends}]"


def _times(ratio: float) -> str:
    return "—" if ratio != ratio else f"{ratio:.3g} x"
