"""The memory and time of units: counted low, near what they take, and refused in time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sweep_files import Write, plan_of

from maxk_lab.errors import LabError
from maxk_lab.sweeps.plan import needs
from maxk_lab.sweeps.plan.needs import largest_need, memory_of_machine, size
from maxk_lab.sweeps.run.execute import execute
from maxk_lab.sweeps.run.records import RunDirectory

HEAD = "name: large\nseeds: [0]\n"
GRADIENT = HEAD + "environment: {name: gaussian, dim: 100}\ngradient:\n"
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
measure = STUDIES.get(unit.study).part("work").measure
cells = [cell.as_dict() for cell in unit.cells]
found = dict(measure(unit.as_dict(), cells, cache=None, event=lambda *_: None))
assert all(isinstance(one, dict) for one in found.values()), found
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks are read in kB of Linux")
@pytest.mark.parametrize("what", LARGE)
@pytest.mark.deep
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


def test_run_refuses_what_this_machine_cannot_hold(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needs, "memory_of_machine", lambda: 2**20)
    plan = plan_of(write(f"{GRADIENT}  pool: 3000\n  {GRID}\n"))
    with pytest.raises(LabError) as caught:
        execute(plan, RunDirectory(tmp_path / "run"))
    assert str(caught.value) == (
        "gaussian, stage 0, seed 0 needs at least 549 MiB of memory for the products of the scores "
        "of 16 × 3,000 trajectories, and this machine has 1 MiB: lower gradient.pool or "
        "gradient.instances"
    )
    assert not list(tmp_path.glob("run/records/*"))


def test_what_fits_is_not_refused(small: str) -> None:
    assert all(unit.check_machine() is None for unit in plan_of(small).units)


def test_the_least_limit_is_that_of_the_machine(tmp_path: Path) -> None:
    whole = memory_of_machine(limits=())
    assert whole is not None
    assert whole > 2**28
    limit, none = tmp_path / "memory.max", tmp_path / "none"
    limit.write_text("12345678\n")
    none.write_text("max\n")
    there = (str(none), str(tmp_path / "absent"))
    assert memory_of_machine(limits=there) == whole
    assert memory_of_machine(limits=(*there, str(limit))) == 12345678


def test_the_first_guess_of_the_time_is_as_fast_as_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = needs.guessed_seconds(1e6, 10)
    assert here == needs.slowness() * (1e6 * needs.SECONDS + 0.03 + 10 * 0.007)
    monkeypatch.setattr(needs, "slowness", lambda: 3.0)
    assert needs.guessed_seconds(1e6, 10) == pytest.approx(3 * 60.1)
