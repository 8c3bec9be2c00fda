"""The memory and time of units: counted low, near what they take, and refused in time."""

from __future__ import annotations

import subprocess
import sys

import pytest
from sweep_files import Write, plan_of

from maxk_lab.sweeps.plan.needs import largest_need, size

HEAD = "name: large\nseeds: 0\n"
GRADIENT = HEAD + "environment: {name: bandit, arms: 2500}\ngradient:\n"
GRID = "grid: {estimator: maxk, baseline: none, n: 4, k: 2}"
# Sizes of some hundred MB each, by what the need of them is for.
LARGE = {
    "products": f"""{GRADIENT}  instances: 2
  pool: 6000
  partitions: 1
  {GRID}
""",
    "step": f"""{HEAD}environment: {{name: tsp, num_loc: 50}}
policy: {{embed_dim: 32, num_heads: 4, num_encoder_layers: 1}}
training:
  steps: 1
  batch: 8192
  evaluate: {{instances: 2, samples: 4}}
  {GRID}
""",
    "evaluation": f"""{HEAD}environment: {{name: toy_llm, prompt_length: 40, max_length: 40}}
training:
  steps: 1
  batch: 8
  evaluate: {{instances: 64, samples: 64}}
  {GRID}
""",
    "groups": f"""{HEAD}environment: {{name: bandit, arms: 4}}
weights:
  groups: 600000
  {GRID}
""",
}
# Measures the first unit of a sweep file and prints the most memory that there was, in bytes.
PEAK = """
import resource, sys
from importlib import import_module
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.spec.load import load_spec
from maxk_lab.sweeps.studies import STUDIES
unit = make_plan(load_spec(sys.argv[1])).units[0]
measure = STUDIES.get(unit.study).part("worker").measure
cells = [cell.as_dict() for cell in unit.cells]
found = dict(measure(unit.as_dict(), cells, cache=None, event=lambda *_: None))
assert all(isinstance(one, dict) for one in found.values()), found
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks are read in kB of Linux")
@pytest.mark.parametrize("what", LARGE)
def test_a_need_is_below_the_peak_and_near_it(what: str, write: Write) -> None:
    path = write(LARGE[what])
    need = largest_need(plan_of(path).units[0])
    assert need is not None
    assert what in need.what
    done = subprocess.run(
        [sys.executable, "-c", PEAK, path], capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    peak = int(done.stdout.split()[-1])
    assert need.bytes <= peak <= 10 * need.bytes, (size(need.bytes), size(peak))
