"""Ray: the head of a cluster is lost while a run is at work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from ray_cluster import ray_nodes
from run_processes import alive, events, wait_until, workers_of

from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.execute import execute
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.load import load_spec

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[1] / "run_fake.py"


@pytest.mark.deep
def test_a_run_whose_cluster_is_lost_ends_and_goes_on_elsewhere(small: str, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "results" / "small")
    with ray_nodes(1) as nodes:
        execution = f"execution: {{backend: ray, address: '{nodes.address}'}}\n"
        Path("on_ray.yaml").write_text(Path(small).read_text() + execution)
        program = subprocess.Popen(
            [sys.executable, str(SCRIPT), "on_ray.yaml", str(run.root), "stuck", "2"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            wait_until(lambda: events(run, "cell_done"))
            nodes.kill_head()
            _, errors = program.communicate(timeout=150)
        finally:
            program.kill()
        assert program.returncode != 0
        print(program.returncode, errors)
        assert errors
    wait_until(lambda: not any(map(alive, workers_of(run))))
    outcome = execute(make_plan(load_spec(small)), run, measure="fake_measures:quick")
    assert (len(outcome.done) + len(outcome.reused), outcome.failed) == (8, ())
    assert outcome.reused
