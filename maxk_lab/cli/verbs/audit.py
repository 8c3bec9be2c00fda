"""`maxk-lab audit`: what a log of rewards says of a training."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import emit_json, print_line, print_table

if TYPE_CHECKING:
    import pandas as pd

    from maxk_lab.own.audit import Audit

# Steps that are shown of a long training.
_STEPS = 6


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
        str | None, typer.Option(metavar="COLUMN", help="What samples of one prompt share.")
    ] = None,
    step: Annotated[str | None, typer.Option(metavar="COLUMN", help="The training step.")] = None,
    advantage: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="What a sample was trained with.")
    ] = None,
    k: Annotated[
        list[int] | None, typer.Option("--k", "-k", min=1, help="A K of the curve. Repeatable.")
    ] = None,
) -> None:
    """Audit the rewards that a training has logged: which K and baseline they call for.

    Logs of TRL, ms-swift and verl, and results of human-eval, evalplus and inspect_ai are read as
    they are (docs/files.md). The options name the columns of any other log. The first line says
    how the columns were understood.

    Prints the unbiased Max@K curve (pass@K if all rewards are 0 or 1) by step and in all, the
    share of groups with a signal and the noise of each baseline and K, and which method the logged
    advantages are.

    \b
    [bold]maxk-lab audit completions.jsonl[/bold]
    [bold]maxk-lab audit rollouts/ --reward acc --json[/bold]
    """
    json = options.shared(context).json
    from maxk_lab.own.audit import audit

    result = audit(*log, reward=reward, group=group, step=step, advantage=advantage, ks=k or ())
    if json:
        tables = {name: getattr(result, name).to_dict("records") for name in ("curve", "rows")}
        emit_json(asdict(result) | tables)
        return
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


def _print_by_k(frame: pd.DataFrame, by: str, texts: list[str]) -> None:
    """Print a text of each line in a table with a column for every K."""
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
