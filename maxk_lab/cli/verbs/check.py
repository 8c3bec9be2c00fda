"""`maxk-lab check`: every formula against brute force; or an advantage function of one's own."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import emit_json, print_table, say, tell

if TYPE_CHECKING:
    from maxk_lab.own.check import Verdict


def main(
    function: Annotated[
        str | None,
        typer.Argument(metavar="FUNCTION", help="module:name or file.py:name, to be checked."),
    ] = None,
    estimator: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this estimator.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this baseline.")
    ] = None,
    k: Annotated[int, typer.Option("--k", "-k", min=1, max=8, help="The K of FUNCTION.")] = 4,
    signature: Annotated[
        str, typer.Option(metavar="NAME", help="What FUNCTION takes: rewards, flat, verl.")
    ] = "rewards",
    binary: Annotated[
        bool, typer.Option("--binary", help="FUNCTION is for rewards of 0 and 1 alone.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Check every formula against brute force, and for exact unbiasedness on a bandit.

    Of an advantage function of your own it says what it computes: the row of the catalogue that it
    equals, and up to which factor; whether it is unbiased, by listing all groups of a small bandit;
    what it does with shifts, ties, whole numbers, NaN, large groups; the smallest group at which it
    is wrong, and what to change. `flat` calls it as TRL does with (rewards, num_generations), verl
    with (token_level_rewards, response_mask, index, config).

    Exits with 1 when a check fails, or FUNCTION is not unbiased.

    \b
    [bold]maxk-lab check[/bold]
    [bold]maxk-lab check --estimator maxk --baseline subloo[/bold]
    [bold]maxk-lab check mine:advantages --k 8[/bold]
    """
    # Both import torch, which takes a second: `--help` does without.
    if function is not None:
        from maxk_lab.own.check import check
        from maxk_lab.own.functions import load_function

        verdict = check(
            load_function(function), k=k, signature=signature, binary=binary, name=function
        )
        emit_json(asdict(verdict)) if json else _show(verdict)
        raise typer.Exit(0 if verdict.ok else 1)
    from maxk_lab.estimators.check.run import run_checks

    results = run_checks(estimator, baseline)
    failed = [result for result in results if not result.ok]
    if json:
        keys = ("name", "row", "detail", "error", "tolerance", "ok")
        emit_json([{key: getattr(result, key) for key in keys} for result in results])
    else:
        rows = []
        for one in results:
            numbers = f"{one.error:.1e}", f"{one.tolerance:.0e}"
            rows.append(("ok" if one.ok else "FAIL", one.row, one.name, one.detail, *numbers))
        print_table(("", "row", "check", "detail", "error", "tolerance"), rows)
        say(f"{len(results) - len(failed)} of {len(results)} checks passed")
    if failed:
        raise typer.Exit(1)


def _show(verdict: Verdict) -> None:
    tell(f"{verdict.function} at K = {verdict.k}: {verdict.verdict}", bold=True)
    if verdict.example:
        tell(f"for example  {verdict.example}")
    if verdict.change:
        tell(f"change       {verdict.change}")
    if not verdict.bias:
        return
    rows = []
    for one in verdict.bias:
        ends = [f"{end:.4g}" for end in (min(one.factors), max(one.factors))]
        factor = ends[0] if one.is_exact else " to ".join(ends)
        rows.append((one.n, factor, f"{min(one.cosines):.4g}", f"{one.variance:.3g} times"))
    print_table(("n", "factor", "cosine", "variance over the best"), rows)
    print_table(
        ("", "law", "where it breaks"),
        (
            ("ok" if law.holds else "FAIL" if law.needed else "no", law.name, law.detail)
            for law in verdict.laws
        ),
    )
