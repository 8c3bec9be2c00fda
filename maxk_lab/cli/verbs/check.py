"""`maxk-lab check`: a function or environment of the user's, or every formula."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from math import isnan
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxk_lab.cli import options
from maxk_lab.cli.console import emit_json, print_line, print_table, say
from maxk_lab.errors import LabError

if TYPE_CHECKING:
    from maxk_lab.own.verdict import Verdict

# Seconds before the first line of progress.
_QUIET = 8.0


def main(
    context: typer.Context,
    function: Annotated[
        str | None,
        typer.Argument(
            metavar="FUNCTION", help="module:name or file.py:name to check, a function or a class."
        ),
    ] = None,
    estimator: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this estimator.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this baseline.")
    ] = None,
    k: Annotated[
        int, typer.Option("--k", "-k", metavar="K", min=1, max=32, help="The K of FUNCTION.")
    ] = 4,
    signature: Annotated[
        str, typer.Option(metavar="NAME", help="Its arguments: rewards, flat, verl.")
    ] = "rewards",
    binary: Annotated[bool, typer.Option("--binary", help="Use rewards of 0 and 1 only.")] = False,
    metric: Annotated[
        bool, typer.Option("--metric", help="FUNCTION estimates pass@k or Max@k.")
    ] = False,
) -> None:
    """Check an advantage function of yours, or every formula of the catalogue.

    FUNCTION gets groups of n <= 64 and of 1,200 rewards: large, tiny, negative, tied, of several
    types. The verdict names the J_K for which its gradient estimate is unbiased, and the factor. It
    also has the equal row of the catalogue, the smallest counterexample, and advice.

    The call is f(rewards), with k and n by name. `flat` calls it like TRL with (rewards,
    num_generations), `verl` with (token_level_rewards, response_mask, index, config). With
    `--metric` the call is f(rewards, k) or f(n, c, k). The check ends within 60 seconds.

    A class is checked as an environment with six methods.

    Without FUNCTION, every formula is checked against brute force and for exact unbiasedness.

    Exits with 1 if a check fails, or if FUNCTION is not unbiased.

    \b
    [bold]maxk-lab check mine.py:advantages --k 8[/bold]
    [bold]maxk-lab check mine:pass_at_k --metric[/bold]
    [bold]maxk-lab check mine:Env[/bold]
    [bold]maxk-lab check --estimator maxk --baseline subloo[/bold]
    """
    json = options.shared(context).json
    if function is None:
        ok = _check_formulas(estimator, baseline, json=json)
    elif estimator or baseline:
        raise LabError("--estimator and --baseline choose formulas; leave them out with FUNCTION")
    else:
        settings = {"k": k, "signature": signature, "binary": binary, "metric": metric}
        ok = _check_function(function, settings, json=json)
    raise typer.Exit(0 if ok else 1)


def _check_function(function: str, settings: Mapping[str, Any], *, json: bool) -> bool:
    """Print the verdict on a function or a class; return whether it passed."""
    from maxk_lab.own.child import check_path

    start = time.monotonic()

    def progress(verdict: Verdict) -> None:
        if verdict.seen and time.monotonic() > start + _QUIET:
            say(f"so far {verdict.seen}")

    verdict = check_path(function, progress=progress, **settings)
    emit_json(asdict(verdict)) if json else show_verdict(verdict)
    return verdict.ok


def _check_formulas(estimator: str | None, baseline: str | None, *, json: bool) -> bool:
    """Print the checks of the catalogue; return whether all passed."""
    # Imports torch late, because it takes a second.
    from maxk_lab.estimators.check.run import run_checks

    results = run_checks(estimator, baseline)
    failed = [result for result in results if not result.ok]
    if json:
        keys = ("name", "row", "detail", "error", "tolerance", "ok")
        emit_json([{key: getattr(result, key) for key in keys} for result in results])
    else:
        rows = []
        for result in results:
            numbers = f"{result.error:.1e}", f"{result.tolerance:.0e}"
            mark = "ok" if result.ok else "FAIL"
            rows.append((mark, result.row, result.name, result.detail, *numbers))
        print_table(("", "row", "check", "detail", "error", "tolerance"), rows)
        say(f"{len(results) - len(failed)} of {len(results)} checks passed")
    return not failed


def show_verdict(verdict: Verdict) -> None:
    """Print a verdict."""
    at = f" at K = {verdict.k}:" if verdict.k else ""
    print_line(f"{verdict.function}{at} {verdict.verdict}", bold=True)
    fields = {"seen": verdict.seen, "example": verdict.example, "change": verdict.change}
    for name, text in fields.items():
        for number, line in enumerate(text.splitlines()):
            print_line(f"{'' if number else name:9}{line}")
    if verdict.bias:
        rows = []
        for bias in verdict.bias:
            low, high = (f"{end:.4g}" for end in bias.factor)
            factor = low if low == high else f"{low} to {high}"
            variance = "undefined" if isnan(bias.variance) else f"{bias.variance:.3g} times"
            rows.append((bias.n, factor, f"{bias.cosine:.4g}", variance))
        print_table(("n", "factor", "cosine", "variance over the best"), rows)
    broken = [law for law in verdict.laws if not law.holds]
    if broken:
        laws = [("FAIL" if law.needed else "no", law.name, law.detail) for law in broken]
        print_table(("", "law", "where it breaks"), laws)
    if verdict.laws:
        print_line(f"{len(verdict.laws) - len(broken)} of {len(verdict.laws)} laws hold")
