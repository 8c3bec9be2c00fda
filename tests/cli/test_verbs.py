"""What `list` says is what the catalogues say."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result
from stored import damage
from written_runs import WriteRun

from maxk_lab.catalogue import Catalogue
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.language.tasks import REWARDS, TASKS
from maxk_lab.errors import LabWarning
from maxk_lab.estimators.catalogue import BASELINES


@pytest.mark.parametrize(
    ("what", "catalogue", "said"),
    [
        ("baselines", BASELINES, {"unbiased": "unbiased", "formula": "formula"}),
        ("tasks", TASKS, {"meaning": "meaning", "computed by": "implementation"}),
        ("rewards", REWARDS, {"meaning": "meaning", "computed by": "implementation"}),
        ("environments", ENVIRONMENTS, {"exact": "exact_when"}),
    ],
)
def test_list_says_what_the_catalogue_says(
    lab: Callable[..., Result], what: str, catalogue: Catalogue[Any], said: dict[str, str]
) -> None:
    rows = json.loads(lab("list", what, "--json").stdout)
    for key, field in {"name": "name", **said}.items():
        assert [row[key] for row in rows] == [getattr(row, field) for row in catalogue]
    text = lab("list", what).stdout
    assert all(row.name in text and row.implementation in text for row in catalogue)


@pytest.mark.parametrize("words", [["show"], ["plan", "sweep.yaml"], ["report", "small"]])
def test_a_verb_warns_of_an_unreadable_record(
    lab: Callable[..., Result], write_run: WriteRun, words: list[str]
) -> None:
    run, plan = write_run()
    path = damage(run.root, plan.cells[0].id)
    with pytest.warns(LabWarning, match=rf"{path}:\d+: unreadable record: its checksum"):
        lab(*words)
