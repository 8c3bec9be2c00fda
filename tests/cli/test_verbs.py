"""What `list` says is what the catalogues say."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from maxk_lab.catalogue import Catalogue
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.language.tasks import REWARDS, TASKS
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
