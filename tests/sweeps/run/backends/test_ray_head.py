"""Ray: the head of a cluster is lost while a run is at work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from ray_cluster import ray_nodes
from run_processes import events, wait_until

from maxk_lab.sweeps.run.records import RunDirectory

pytestmark = pytest.mark.slow
# A run on Ray in a program of its own, which gives a head less time than the lab does.
PROGRAM = """\
import runpy, sys
from maxk_lab.sweeps.run.backends.ray import watch
if __name__ == "__main__":
    watch._PATIENCE = 3.0
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
"""
SCRIPT = Path(__file__).parents[1] / "run_fake.py"


@pytest.mark.deep
def test_a_run_whose_cluster_is_lost_ends_in_good_order(small: str, tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "results" / "small")
    (tmp_path / "program.py").write_text(PROGRAM)
    with ray_nodes(1) as nodes:
        execution = f"execution: {{backend: ray, address: '{nodes.address}'}}\n"
        Path("on_ray.yaml").write_text(Path(small).read_text() + execution)
        program = subprocess.Popen(
            [sys.executable, "program.py", str(SCRIPT), "on_ray.yaml", str(run.root), "stuck", "2"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            wait_until(lambda: events(run, "cell_done"))
            nodes.kill_head()
            _, errors = program.communicate(timeout=100)
        finally:
            program.kill()
        assert f"the Ray cluster at {nodes.address} no longer answers" in errors
        assert program.returncode > 0
    assert run.ids()
    assert not [*(run.root / "leases").glob("*")]
    assert not [*(run.root / "drivers").glob("*")]
