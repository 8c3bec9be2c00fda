"""A script that runs a sweep needs no `if __name__ == "__main__":`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sweep_files import SMALL

HERE = Path(__file__).parent
SCRIPT = f"""
import sys

sys.path += [{str(HERE)!r}, {str(HERE.parents[1] / "fixtures")!r}]
from maxk_lab.sweeps import RunDirectory, load_spec, make_plan
from maxk_lab.sweeps.run.execute import execute

print("begun", flush=True)
plan = make_plan(load_spec("sweep.yaml"))
found = execute(plan, RunDirectory("run"), jobs=2, measure="fake_measures:quick")
print(len(found.done), "done")
"""


@pytest.mark.slow
def test_the_workers_of_a_script_do_not_begin_it_again(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(SMALL)
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=250
    )
    assert done.stdout == "begun\n8 done\n", done.stderr
