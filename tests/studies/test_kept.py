"""The files that a unit keeps: whoever carries a unit elsewhere knows each of them beforehand."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import pytest

from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.spec.load import load_spec
from maxk_lab.sweeps.studies import STUDIES

TSP = """\
name: kept
seeds: [0]
environment: {name: tsp, num_loc: 6}
policy: {embed_dim: 16, num_encoder_layers: 1, num_heads: 2, feedforward_hidden: 8}
"""
GRADIENT = """\
gradient:
  stages: [0, 1, 2]
  warmup: {batch: 2, n: 2}
  instances: 2
  pool: 16
  grid: {estimator: maxk, baseline: none, n: 4, k: 2}
"""
TRAINING = """\
training:
  steps: 2
  batch: 2
  snapshots: [1]
  grid: {estimator: maxk, baseline: none, n: 2, k: 2}
  evaluate: {instances: 2, samples: 2, reference: exact}
"""


@pytest.mark.parametrize(("study", "files"), [(GRADIENT, 5), (TRAINING, 4)])
@pytest.mark.slow
def test_all_that_a_unit_keeps_is_known_beforehand(
    write: Callable[[str], str], tmp_path: Path, study: str, files: int
) -> None:
    plan = make_plan(load_spec(write(TSP + study)))
    cache = tmp_path / "cache"
    patterns: list[str] = []
    for unit in plan.units:
        kind, cells = STUDIES.get(unit.study), [cell.as_dict() for cell in unit.cells]
        patterns += kind.part("spec").kept(unit.as_dict(), cells)
        measured = kind.part("work").measure(
            unit.as_dict(), cells, cache=cache, event=lambda name, payload: None
        )
        assert not [result for _, result in measured if isinstance(result, Exception)]
    names = [path.name for path in cache.iterdir()]
    assert len(names) == files
    assert not [one for one in names if not any(fnmatch(one, each) for each in patterns)]
