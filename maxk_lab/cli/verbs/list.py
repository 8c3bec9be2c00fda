"""`maxk-lab list`: everything that a sweep can name, and the runs on disk."""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxk_lab.catalogue import Catalogue, Parameter
from maxk_lab.cli import configuration, options
from maxk_lab.cli.console import emit_json, say
from maxk_lab.cli.rows import print_rows
from maxk_lab.cli.verbs.upkeep import table
from maxk_lab.errors import LabError
from maxk_lab.installed import package_of

if TYPE_CHECKING:
    from maxk_lab.estimators.catalogue import MethodRow


class What(StrEnum):
    """Everything that can be listed."""

    estimators = "estimators"
    baselines = "baselines"
    environments = "environments"
    policies = "policies"
    tasks = "tasks"
    rewards = "rewards"
    gaussian_rewards = "gaussian_rewards"
    backends = "backends"
    profiles = "profiles"
    runs = "runs"


def list_(
    what: Annotated[What, typer.Argument(help="What to list.")],
    pattern: Annotated[
        str | None, typer.Argument(help="Only those of such a name, e.g. 'tsp_*'.")
    ] = None,
    sort: Annotated[
        str | None, typer.Option(metavar="|".join(table.SORTS), help="The order of runs.")
    ] = None,
    results: options.Results = options.RESULTS,
    json: options.Json = False,
) -> None:
    """List what can be named in a sweep, with formulas and conditions, your profiles, or the runs \
on disk.

    Of runs: when they last changed, how many cells are done, failed and missing, how many records \
are stale, the verdicts of their last report unless records are newer, and their size.

    \b
    [bold]maxk-lab list baselines[/bold]
    [bold]maxk-lab list runs[/bold]
    [bold]maxk-lab list runs 'tsp_*' --sort size[/bold]
    """
    if what is What.runs:
        table.list_runs(results, pattern, sort, json=json)
        return
    if sort is not None:
        raise LabError(f"--sort is for runs: {what} stand in the order of their catalogue")
    if what is What.profiles:
        rows = configuration.profiles()
    elif what is What.backends:
        rows = _backends()
    elif what is What.environments:
        rows = _environments()
    elif what is What.policies:
        rows = _policies()
    elif what in (What.tasks, What.rewards, What.gaussian_rewards):
        rows = _plain(what)
    else:
        rows = _estimators(what)
    if (catalogue := _catalogues().get(what)) is not None:
        rows = [row | {"package": _package(catalogue, row["name"])} for row in rows]
    rows = [row for row in rows if pattern is None or fnmatchcase(str(row["name"]), pattern)]
    if json:
        emit_json(rows)
    elif rows:
        print_rows(rows)
    elif what is What.profiles:
        say(configuration.no_profiles())
    else:
        say(f"no {what} are named {pattern}")


def _estimators(what: What) -> list[dict[str, Any]]:
    from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS

    rows: list[MethodRow] = [*(ESTIMATORS if what is What.estimators else BASELINES)]
    return [
        {
            "name": row.name,
            "meaning": row.meaning,
            "formula": row.formula,
            "objective": row.objective,
            "unbiased": row.unbiased,
            "condition": row.condition,
            "shift invariant": row.shift_invariant,
            "constraint": row.constraint,
            "binary rewards": row.binary_rewards or None,
            **_of_a_baseline(row),
            "parameter": _parameter(row.parameter) if row.parameter else None,
            "computed by": row.implementation,
            "citation": row.citation,
        }
        for row in rows
    ]


def _of_a_baseline(row: MethodRow) -> dict[str, Any]:
    """Return the needs of a baseline besides the rewards: which weight of each trajectory."""
    from maxk_lab.estimators.catalogue import BaselineRow

    if not isinstance(row, BaselineRow):
        return {}
    kind = (
        row.parameter.name
        if row.trajectory_weight is None and row.needs() is not None and row.parameter
        else None
    )
    return {
        "needs g": f"as {kind} says" if kind else row.needs(),
        "token level": "one weight per token: training studies only" if row.token_level else None,
        "any objective": row.any_objective or None,
        "importance ratios": row.off_policy or None,
    }


def _catalogues() -> dict[What, Catalogue[Any]]:
    """Return the catalogues that packages add rows to."""
    from maxk_lab.environments.catalogue import ENVIRONMENTS, GAUSSIAN_REWARDS, REWARDS, TASKS
    from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS
    from maxk_lab.policies.catalogue import POLICIES

    return {
        What.estimators: ESTIMATORS,
        What.baselines: BASELINES,
        What.environments: ENVIRONMENTS,
        What.policies: POLICIES,
        What.tasks: TASKS,
        What.rewards: REWARDS,
        What.gaussian_rewards: GAUSSIAN_REWARDS,
    }


def _package(catalogue: Catalogue[Any], name: str) -> str | None:
    """Return the package that a row is from, with its version; None for our own."""
    point = catalogue.origin(name)
    return None if point is None else package_of(point)


def _plain(what: What) -> list[dict[str, Any]]:
    """Return every field of the rows of tasks or reward functions."""
    from dataclasses import fields

    return [
        {
            {"implementation": "computed by"}.get(
                field.name, field.name.replace("_", " ")
            ): getattr(row, field.name)
            for field in fields(row)
        }
        for row in _catalogues()[what]
    ]


def _environments() -> list[dict[str, Any]]:
    from maxk_lab.environments.catalogue import ENVIRONMENTS

    return [
        {
            "name": row.name,
            "meaning": row.meaning,
            "reward": row.reward,
            "parameters": [_parameter(parameter) for parameter in row.parameters],
            "policy": [_parameter(parameter) for parameter in row.policy_parameters],
            "exact": row.exact_when,
            "computed by": row.implementation,
            "citation": row.citation,
        }
        for row in ENVIRONMENTS
    ]


def _policies() -> list[dict[str, Any]]:
    from maxk_lab.environments.catalogue import ENVIRONMENTS
    from maxk_lab.policies.catalogue import POLICIES

    return [
        {
            "name": row.name,
            "meaning": row.meaning,
            "parameters": [_parameter(parameter) for parameter in row.parameters],
            "acts in": tuple(
                place.name for place in ENVIRONMENTS if row.name in place.accepted_policies
            ),
            "computed by": row.implementation,
            "citation": row.citation,
        }
        for row in POLICIES
    ]


def _backends() -> list[dict[str, Any]]:
    from maxk_lab.sweeps.backends import BACKENDS

    return [
        {
            "name": row.name,
            "meaning": row.meaning,
            "parameters": [_parameter(parameter) for parameter in row.parameters],
            "needs": f"pip install 'maxk-lab[{row.extra}]'" if row.extra else None,
            "computed by": row.implementation,
        }
        for row in BACKENDS
    ]


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "type": parameter.type_name,
        "default": list(parameter.default)
        if isinstance(parameter.default, tuple)
        else parameter.default,
        "low": parameter.low,
        "high": parameter.high,
        "choices": list(parameter.choices),
        "meaning": parameter.meaning,
    }
