"""A run as its own process, for tests that kill it: run_fake.py SPEC RUN MEASURE JOBS."""

import sys
from pathlib import Path

from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.run import Run, execute
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.load import load_spec

# Where `fake_measures` finds what it needs.
sys.path.append(str(Path(__file__).parents[1] / "fixtures"))

from run_processes import logged

if __name__ == "__main__":
    spec, name, measure, jobs = sys.argv[1:]
    run, measure = RunDirectory(name), f"fake_measures:{measure}"
    plan = make_plan(load_spec(spec))
    try:
        execute(Run(plan, run), jobs=int(jobs), measure=measure, on_event=logged(run))
    except KeyboardInterrupt:
        sys.exit(130)
