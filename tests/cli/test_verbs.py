"""Verbs that measure nothing: plan, validate, list, run --dry-run; the user's mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable

from click.testing import Result

from maxk_lab.environments.catalogue import ENVIRONMENTS, REWARDS, TASKS
from maxk_lab.estimators.catalogue import BASELINES

Lab = Callable[..., Result]


def test_list_says_what_the_catalogue_says(lab: Lab) -> None:
    rows = json.loads(lab("list", "baselines", "--json").stdout)
    assert [row["name"] for row in rows] == list(BASELINES.names())
    assert [row["unbiased"] for row in rows] == [row.unbiased for row in BASELINES]
    text = lab("list", "baselines").stdout
    assert all(row.formula in text and row.constraint in text for row in BASELINES)
    assert {row["name"] for row in json.loads(lab("list", "environments", "--json").stdout)} >= {
        "tsp",
        "bandit",
    }


def test_list_has_tasks_and_reward_functions_and_says_when_an_environment_is_exact(
    lab: Lab,
) -> None:
    for what, catalogue in (("tasks", TASKS), ("rewards", REWARDS)):
        rows = json.loads(lab("list", what, "--json").stdout)
        assert [(row["name"], row["meaning"]) for row in rows] == [
            (row.name, row.meaning) for row in catalogue
        ]
        assert all(row.implementation in lab("list", what).stdout for row in catalogue)
    exact = {
        row["name"]: row["exact"]
        for row in json.loads(lab("list", "environments", "--json").stdout)
    }
    assert exact == {row.name: row.exact_when for row in ENVIRONMENTS}
    text = lab("list", "environments").stdout
    assert "rewards: list of str = []; " in text
    assert "pretrained: str; " in text
