"""The memory and time of units: counted low, near what they take, and refused in time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sweep_files import Write, plan_of

from maxk_lab.errors import LabError
from maxk_lab.execution.execute import execute
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning import needs
from maxk_lab.planning.needs import largest_need, memory_of_machine, size

GAUSSIAN = "environment: {name: gaussian, dim: 100}\ngradient: {pool: 64}\n"
SMALL_TSP = "environment: {name: tsp, num_loc: 50}\npolicy: {embed_dim: 32, num_heads: 4}\n"
# Sizes of some hundred MB each, by what the need of them is for.
LARGE = {
    "products": GAUSSIAN.replace("pool: 64", "instances: 2, pool: 6000, partitions: 1"),
    "step": SMALL_TSP + "training: {steps: 1, batch: 8192, evaluate: {instances: 2, samples: 4}}",
    "evaluation": "environment: {name: toy_llm, prompt_length: 40, max_length: 40}\n"
    "training: {steps: 1, batch: 8, evaluate: {instances: 64, samples: 64}}",
    "groups": "environment: {name: bandit, arms: 4}\nweights: {groups: 600000}",
}
# Measures the first unit of a sweep file and prints the most memory that there was, in bytes.
PEAK = """
import resource, sys
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.load import load_spec
from maxk_lab.sweep_file.studies import STUDIES
unit = make_plan(load_spec(sys.argv[1])).units[0]
measure = STUDIES.get(unit.study).part("work").measure
cells = [cell.as_dict() for cell in unit.cells]
found = dict(measure(unit.as_dict(), cells, cache=None, event=lambda *_: None))
assert all(isinstance(one, dict) for one in found.values()), found
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def sweep(text: str) -> str:
    """The whole of a sweep file whose last block is that of a study without its grid."""
    grid = "grid: {estimator: maxk, baseline: none, n: 4, k: 2}"
    return f"name: large\nseeds: [0]\n{text.rstrip().removesuffix('}')}, {grid}}}\n"


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks are read in kB of Linux")
@pytest.mark.parametrize("what", LARGE)
@pytest.mark.deep
def test_a_need_is_below_the_peak_and_near_it(what: str, write: Write) -> None:
    path = write(sweep(LARGE[what]))
    need = largest_need(plan_of(path).units[0])
    assert need is not None
    assert what in need.what
    done = subprocess.run(
        [sys.executable, "-c", PEAK, path], capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    peak = int(done.stdout.split()[-1])
    assert need.bytes <= peak <= 10 * need.bytes, (size(need.bytes), size(peak))


@pytest.mark.parametrize(
    ("text", "options", "need", "lower"),
    [
        (GAUSSIAN, ["gradient.pool=3000"],
         "549 MiB of memory for the products of the scores of 16 × 3,000 trajectories",
         "gradient.pool or gradient.instances"),
        (GAUSSIAN, ["gradient.partitions=1000000000"],
         "37.3 TiB of memory for the groups of 16 × 64 trajectories, cut in 1,000,000,000 ways",
         "gradient.partitions, gradient.pool or gradient.instances"),
        (GAUSSIAN, ["gradient.stages=7", "gradient.warmup.n=1000000000"],
         "46.6 TiB of memory for a step of 32 × 1,000,000,000 trajectories with its backward pass",
         "gradient.warmup.n, environment.dim or gradient.warmup.batch"),
        (GAUSSIAN, ["environment.dim=900000000", "gradient.pool=256"],
         "3.4 TiB of memory for the rollouts of 256 trajectories",
         "environment.dim or gradient.pool"),
        (LARGE["groups"], ["weights.groups=1000000000", "environment.arms=100"],
         "3.9 TiB of memory for 1,000,000,000 groups of 4 samples",
         "weights.groups, environment.arms or weights.grid.n"),
    ],
)  # fmt: skip
def test_run_refuses_what_this_machine_cannot_hold(
    write: Write,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    options: list[str],
    need: str,
    lower: str,
) -> None:
    monkeypatch.setattr(needs, "memory_of_machine", lambda: 2**20)
    plan = plan_of(write(sweep(text)), *options)
    with pytest.raises(LabError) as caught:
        execute(plan, RunDirectory(tmp_path / "run"))
    words = f"needs at least {need}, and this machine has 1 MiB: lower {lower}"
    assert str(caught.value) == f"{plan.units[0].label} {words}"
    assert not list(tmp_path.glob("run/records/*"))


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
