"""Report several runs in one process: importing what charts need takes longer than a report.

python .ci/reports.py FAILED RUN...   appends the runs whose report does not end well to FAILED
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

from maxk_lab.cli import main

INTERRUPTED = 130


def report(run: Path) -> int:
    """Run `maxk-lab report` and return its exit code."""
    words = ["report", run.name, "--results", str(run.parent), "--out", str(run / "report")]
    print(f"== maxk-lab report {run}", flush=True)
    sys.argv = ["maxk-lab", *words]
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    except Exception:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    failed, *runs = map(Path, sys.argv[1:])
    for run in runs:
        code = report(run)
        if code == INTERRUPTED:
            sys.exit(INTERRUPTED)
        if code:
            with failed.open("a") as file:
                file.write(f"{run}: a claim was refuted, or cells failed\n")
