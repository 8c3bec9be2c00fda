"""A recommendation on the screen, with the lines to paste, or as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from maxk_lab.cli.console import console, say, tell

if TYPE_CHECKING:
    from maxk_lab.report.recommendation import Candidate, Recommendation

_SHOWN = 12
_CAVEAT = (
    "Ranked by SNR per rollout, over every n; a report ranks the variance of a group, at one n and "
    "K at a time. How much instances differ from each other does not enter it, although fewer, "
    "larger groups see fewer of them."
)
_FITTED = "Its coefficients are fitted on other instances, which the training study does."


def print_recommendation(answer: Recommendation) -> None:
    """Print the ranking, the rows left out of it, and the lines to paste."""
    from rich.table import Table

    if not answer.candidates:
        say(f"No candidate for {answer.objective}: every row was left out.")
        _print_left_out(answer)
        return
    key = answer.best.row.key
    where = ", ".join([key.environment, *(f"{name} = {value}" for name, value in key.setting)])
    table = Table(
        title=f"{answer.objective}, {answer.budget} rollouts a step: {where}, stage {key.stage}",
        title_justify="left",
        caption="SNR of a step: of the mean of budget/n estimates, "
        f"{answer.best.step_snr.level:.0%} intervals about instances like these"
        f"{_or_these(answer)}; "
        f"against the best: {_paired_by(answer)}, "
        f"Bonferroni over {len(answer.candidates) - 1} comparisons. "
        "The interval of the best is not corrected for its having been picked.",
        caption_justify="left",
    )
    for heading in ("estimator", "baseline"):
        table.add_column(heading)
    for heading in ("n", "groups a step", "SNR of a step", "against the best"):
        table.add_column(heading, justify="right")
    for one in answer.candidates[:_SHOWN]:
        table.add_row(*_line(one))
    console().print(table)
    if len(answer.candidates) > _SHOWN:
        say(f"and {len(answer.candidates) - _SHOWN} more (--json lists all)")
    _print_not_compared(answer)
    _print_left_out(answer)
    assert answer.use is not None
    tell(_verdict(answer, answer.use))
    tell(_CAVEAT)
    line = _paste(answer.use)
    tell(f"Paste: {line}" if line else _FITTED)
    tell(f"In a sweep's training study: {_paste_yaml(answer.use, answer.budget)}")


def _or_these(answer: Recommendation) -> str:
    """The addition where too few instances carry a mean, and an interval is about these."""
    told = [found for one in answer.candidates for found in (one.step_snr, one.against_best)]
    fallen_back = any(found is not None and found.fallen_back for found in told)
    return ", with † about these instances" if fallen_back else ""


def _paired_by(answer: Recommendation) -> str:
    """How the comparisons are made: estimates of one mean differ in SNR by their variance."""
    unbiased = all(one.row.catalogued_unbiased for one in answer.candidates)
    return f"paired{', by the variance, as is the order: all have one mean' * unbiased}"


def _line(one: Candidate) -> tuple[str, ...]:
    from maxk_lab.report.document import marked

    key, against = one.row.key, "best"
    if one.against_best is not None:
        against = f"{marked(one.against_best)}{'*' * _unpaired(one.against_best)}"
    return key.estimator, key.baseline, str(key.n), str(one.groups), marked(one.step_snr), against


def _unpaired(found: Any) -> bool:
    return bool(found.known and found.reason.startswith("unpaired"))


def _print_not_compared(answer: Recommendation) -> None:
    """Say why some intervals are about these instances, not paired, or not there at all."""
    told: dict[str, None] = {}
    for one in answer.candidates:
        for found in (one.step_snr, one.against_best):
            if found is not None and found.reason:
                mark = "*" if _unpaired(found) else "†" if found.known else "—"
                told[f"{mark}: {found.reason}"] = None
    for line in told:
        say(line)


def _print_left_out(answer: Recommendation) -> None:
    reasons: dict[str, list[str]] = {}
    for row, reason in answer.left_out:
        reasons.setdefault(reason, []).append(_named(row.key))
    for reason, names in reasons.items():
        say(f"left out, {reason}: {_some(names, 3)}")


def _named(key: Any) -> str:
    return f"{key.estimator}/{key.baseline} n={key.n}"


def _some(names: list[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def _verdict(answer: Recommendation, use: Candidate) -> str:
    key = use.row.key
    what = f"{key.estimator} with {key.baseline}, n = {key.n}"
    if use is not answer.best:
        return (
            f"Recommended: {what}. It ties with {_named(answer.best.row.key)}, which has the "
            "highest SNR per rollout, and is the simplest that needs rewards alone."
        )
    if not answer.ties:
        return f"Recommended: {what}; its SNR per rollout is above that of every other candidate."
    ties = _some([_named(tie.row.key) for tie in answer.ties], 4)
    return f"Recommended: {what}; not told apart from it: {ties}."


def _paste(best: Candidate) -> str | None:
    """Return the line of a training loop; None for a baseline whose coefficients are fitted.

    No candidate gives weights to tokens: a gradient study refuses these.
    """
    from maxk_lab.estimators.catalogue import TRAJECTORY_WEIGHTS
    from maxk_lab.estimators.method import Method

    key = best.row.key
    arguments = f'estimator="{key.estimator}", baseline="{key.baseline}", k={key.k}'
    method = Method.parse(key.estimator, key.baseline, key.k)
    needed, notes = method.needed_weight, ""
    if method.fit is not None:
        return None
    if method.needs_ratios:
        arguments += ", ratios=ratios"
        notes = (
            ", ratios the same: probability under the policy over that under the one that drew it"
        )
    if needed is not None:
        arguments += f', trajectory_weights={{"{needed}": g}}'
        notes = f", g the same: {TRAJECTORY_WEIGHTS[needed]}"
    return (
        f"weights = advantages(rewards, {arguments})  # rewards [{best.groups}, {key.n}]{notes}; "
        "loss = -(weights * log_probs).sum(-1).mean()"
    )


def _paste_yaml(best: Candidate, budget: int) -> str:
    key = best.row.key
    method = f'estimator: "{key.estimator}", baseline: "{key.baseline}"'
    return f"{{batch: {budget}, grid: {{{method}, n: {key.n}, k: {key.k}}}}}"


def as_json(answer: Recommendation) -> dict[str, Any]:
    def of(one: Candidate) -> dict[str, Any]:
        key = one.row.key
        return {
            "estimator": key.estimator,
            "baseline": key.baseline,
            "n": key.n,
            "k": key.k,
            "groups": one.groups,
            "step_snr": asdict(one.step_snr),
            "against_best": None if one.against_best is None else asdict(one.against_best),
            "told_apart": one.told_apart,
            "cells": dict(one.row.cells),
        }

    place = answer.candidates[0].row.key if answer.candidates else None
    return {
        "objective": answer.objective,
        "budget": answer.budget,
        "environment": place and place.environment,
        "setting": dict(place.setting) if place else {},
        "stage": place and place.stage,
        "candidates": [of(one) for one in answer.candidates],
        "left_out": [{"row": row.key.path, "reason": reason} for row, reason in answer.left_out],
        "use": of(answer.use) if answer.use else None,
        "paste": _paste(answer.use) if answer.use else None,
    }
