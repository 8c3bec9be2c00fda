"""Cells of experiments keep their ids and seeds."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from maxk_lab.execution.checkpoints import policy_seed
from maxk_lab.planning.identity import environment_key
from maxk_lab.planning.plan import make_plan
from maxk_lab.seeds import derive_seed
from maxk_lab.sweep_file.load import load_spec

# The design of a sweep that is tuned now and then, as it was when the ids were written down.
DESIGN = {"tsp_sweep": ["gradient.instances=32", "gradient.pool=1024"]}
EXPERIMENTS = Path(__file__).parents[2] / "experiments"
SEEDS = {
    "ci/llm_exact": (5086430875860415366, 5062093339587232385),
    "ci/llm_training_small": (7866751781113660960, 2810749096415185030),
    "ci/papers_figure5": (1351006780233524086, 6829335588217286882),
    "ci/tsp_training_small": (2853255277060274352, 3161461405164806456),
}


@pytest.mark.parametrize(
    ("name", "cells", "skipped", "hashed", "version"),
    [
        ("ci/llm_exact", 80, 36, "b995aaa2edb17418", None),
        ("ci/llm_training_small", 8, 0, "070d11349271b0f3", None),
        ("ci/papers_corollary3", 14, 1, "c3b078035c160c53", None),
        ("ci/papers_figure1", 5, 0, "a13f576452f03bba", None),
        ("ci/papers_figure5", 8, 0, "114a6db49a36f260", None),
        ("ci/papers_off_policy", 36, 0, "35e612be0b022008", None),
        ("ci/papers_ordergrad", 72, 0, "ebd2b1f23c0583b5", None),
        ("ci/tsp_training_small", 15, 0, "cf74ae3542f84045", 2),
        ("llm_training", 80, 32, "f81cbe7efcc9a95e", None),
        ("tsp_sweep", 438, 11, "4e979dd049df80af", 2),
    ],
)
def test_the_ids_and_seeds_of_experiments(
    name: str, cells: int, skipped: int, hashed: str, version: int | None
) -> None:
    """The version of an environment is in its cells since its digits changed."""
    plan = make_plan(load_spec(EXPERIMENTS / f"{name}.yaml", DESIGN.get(name, [])))
    ids = "".join(sorted({cell.id for cell in plan.cells}))
    digest = hashlib.sha256(ids.encode()).hexdigest()[:16]
    assert (len(plan.cells), len(plan.skipped), digest) == (cells, skipped, hashed)
    assert {cell.as_dict().get("environment_version") for cell in plan.cells} == {version}
    if name in SEEDS:
        unit = plan.units[0].as_dict()
        data = derive_seed("study", environment_key(unit["environment"]), unit["seed"])
        assert (policy_seed(unit), data) == SEEDS[name]
