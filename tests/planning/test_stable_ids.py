"""Cells of experiments keep their ids and seeds: of those before grids were lists, too.

Gradient cells have had others since records hold the spread of blocks, and those of RL4CO since the
decoder is folded.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from maxk_lab.execution.checkpoints import policy_seed
from maxk_lab.planning.identity import environment_key
from maxk_lab.planning.plan import make_plan
from maxk_lab.seeds import derive_seed
from maxk_lab.sweep_file.load import load_spec

# Designs that are tuned now and then: as they were when the ids were written down.
DESIGN = {"tsp_sweep": ["gradient.instances=32", "gradient.pool=1024"]}
EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.mark.parametrize(
    ("name", "cells", "skipped", "hashed", "first"),
    [
        ("ci/llm_exact", 80, 36, "b995aaa2edb17418", "0164aa436886d322"),
        ("ci/llm_training_small", 8, 0, "070d11349271b0f3", "77d338a27e9a078d"),
        ("ci/papers_corollary3", 14, 1, "c3b078035c160c53", "1aead8e29f287286"),
        ("ci/papers_figure1", 5, 0, "a13f576452f03bba", "02541f8e73ecafd4"),
        ("ci/papers_figure5", 8, 0, "114a6db49a36f260", "2dd7cfb47a65edc0"),
        ("ci/papers_off_policy", 36, 0, "35e612be0b022008", "0635ebb03c24d6bf"),
        ("ci/papers_ordergrad", 72, 0, "ebd2b1f23c0583b5", "06f18bbf0e6da50c"),
        ("llm_training", 80, 32, "f81cbe7efcc9a95e", "007bd6820e43d58c"),
        ("tsp_sweep", 438, 11, "4e979dd049df80af", "005193170b6fe546"),
    ],
)
def test_the_ids_of_older_cells(
    name: str, cells: int, skipped: int, hashed: str, first: str
) -> None:
    plan = make_plan(load_spec(EXPERIMENTS / f"{name}.yaml", DESIGN.get(name, [])))
    ids = sorted({cell.id for cell in plan.cells})
    assert (len(plan.cells), len(plan.skipped)) == (cells, skipped)
    assert (hashlib.sha256("".join(ids).encode()).hexdigest()[:16], ids[0]) == (hashed, first)


@pytest.mark.parametrize(
    ("name", "version"), [("ci/tsp_training_small", 2), ("ci/llm_training_small", None)]
)
def test_cells_tell_the_digits_of_their_environment_where_they_have_changed(
    name: str, version: int | None
) -> None:
    cells = make_plan(load_spec(EXPERIMENTS / f"{name}.yaml")).cells
    assert {cell.as_dict().get("environment_version") for cell in cells} == {version}


@pytest.mark.parametrize(
    ("name", "policy", "data"),
    [
        ("ci/llm_exact", 5086430875860415366, 5062093339587232385),
        ("ci/llm_training_small", 7866751781113660960, 2810749096415185030),
        ("ci/papers_figure5", 1351006780233524086, 6829335588217286882),
        ("ci/tsp_training_small", 2853255277060274352, 3161461405164806456),
    ],
)
def test_the_seeds_of_policies_and_data(name: str, policy: int, data: int) -> None:
    unit = make_plan(load_spec(EXPERIMENTS / f"{name}.yaml")).units[0].as_dict()
    assert policy_seed(unit) == policy
    assert derive_seed("study", environment_key(unit["environment"]), unit["seed"]) == data
