"""`maxk-lab audit`: what a log of rewards says of a training."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import emit_json, print_table, tell

if TYPE_CHECKING:
    import pandas as pd

    from maxk_lab.own.audit import Audit

# Steps that are shown of a long training.
_STEPS = 6


def main(
    log: Annotated[
        list[Path],
        typer.Argument(metavar="LOG...", help="JSON lines, CSV or Parquet; or a folder of them."),
    ],
    reward: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The reward of a sample.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="What samples of one prompt share.")
    ] = None,
    step: Annotated[str | None, typer.Option(metavar="COLUMN", help="The training step.")] = None,
    advantage: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="What a sample was trained with.")
    ] = None,
    norm: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The squared norm of its score.")
    ] = None,
    k: Annotated[
        list[int] | None, typer.Option("--k", "-k", min=1, help="A K to tell of. Repeatable.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Audit the rewards that a training has logged: which K and baseline they call for.

    TRL's logs of completions and verl's dumps of rollouts are read as they are. Of other logs the
    options name the columns. Told are the unbiased Max@K curve (pass@K where all rewards are 0 or
    1) by step and in all, with intervals over prompts; how many groups have a signal for each
    baseline and K; how much noise each has; and which method the logged advantages are.

    \b
    [bold]maxk-lab audit completions.jsonl[/bold]
    [bold]maxk-lab audit rollouts/ --reward acc --json[/bold]
    """
    from maxk_lab.own.audit import audit

    found = audit(
        *log, reward=reward, group=group, step=step, advantage=advantage, norm=norm, ks=k or ()
    )
    if json:
        tables = {name: getattr(found, name).to_dict("records") for name in ("curve", "rows")}
        emit_json(asdict(found) | tables)
        return
    show(found)


def show(found: Audit) -> None:
    """Print an audit."""
    low, high = found.sizes
    size = f"{low}" if low == high else f"{low} to {high}"
    steps = f", {found.steps:,} steps" if found.steps else ""
    tell(f"{found.samples:,} samples in {found.groups:,} groups of {size}{steps}")
    told = [f"{found.constant:.0%} of the groups have equal rewards"]
    told += [f"{found.missing:,} samples have no reward"] if found.missing else []
    told += [f"{found.damaged:,} lines could not be read"] if found.damaged else []
    tell("; ".join(told))
    value = "pass@K" if found.binary else "Max@K"
    tell("")
    tell(f"{value}, with 95 % intervals over prompts", bold=True)
    curve, rows = found.curve, found.rows
    logged = [step for step in dict.fromkeys(curve.step) if step != -1] or [-1]
    some = {logged[round(at * (len(logged) - 1) / (_STEPS - 1))] for at in range(_STEPS)}
    curve = curve[curve.step.isin(some | {-1})].sort_values("step", kind="stable")
    points = zip(curve.value, curve.low, curve.high, strict=True)
    texts = [_told(*point) for point in points]
    labels = ["all" if step == -1 else step for step in curve.step]
    _print_by_k(curve.assign(step=labels), "step", texts)
    tell("")
    norms = "taken to be equal" if found.equal_norms else "as logged"
    tell(f"Groups with a signal, and noise over the lowest (score norms {norms})", bold=True)
    shares = zip(rows.signal, rows.relative, strict=True)
    _print_by_k(rows, "baseline", [f"{signal:.0%}  {noise:.3g} x" for signal, noise in shares])
    tell("")
    if found.trained is not None:
        row, k, factor = found.trained
        times = "" if factor == "1" else f", times {factor}"
        tell(f"Trained with: {row} at K = {k}{times}")
    tell(f"Take: {found.advice}")


def _print_by_k(frame: pd.DataFrame, by: str, texts: list[str]) -> None:
    """Print a text of each line in a table with a column for every K."""
    table = frame.assign(text=texts).pivot(index=by, columns="k", values="text").fillna("")
    rows = ([name, *table.loc[name]] for name in dict.fromkeys(frame[by]))
    print_table([by, *(f"K = {k}" for k in table)], rows)


def _told(value: float, low: float, high: float) -> str:
    ends = "—" if low != low else f"{low:.3f}, {high:.3f}"
    return f"{value:.3f} [{ends}]"
