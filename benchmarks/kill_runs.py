"""Kill runs of a bandit sweep at random moments; count what is lost, wrong or left over.

    python benchmarks/kill_runs.py 200 --seed 1

SIGKILL goes twice to the driver of a run, twice to its process group, and twice to a worker. Then
the run goes on to its end, and has every metric of an undisturbed run, to the last digit. Exits
with code 1 if anything is wrong. Needs Linux.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path += [str(TESTS / "fixtures"), str(TESTS / "attack")]

from attacked_runs import FILE, LIGHT, NAME, laid_out  # noqa: E402
from launched import launching  # noqa: E402
from test_kills import kill  # noqa: E402


def problems(folder: Path, kills: int, dice: random.Random) -> list[str]:
    """Return the problems after `kills` kills, a multiple of 6, one per line."""
    undisturbed = folder / "undisturbed" / "results" / NAME
    undisturbed.parents[1].mkdir()
    (undisturbed.parents[1] / FILE).write_text(LIGHT, encoding="utf-8")
    lines: list[str] = []
    with launching(undisturbed.parents[1]) as launch:
        if launch("run", FILE).wait() != 0:
            raise SystemExit("the undisturbed run failed")
        for done in range(0, kills, 6):
            run = laid_out(folder / str(done), undisturbed)
            lines += kill(launch, run, dice, undisturbed)
            print(f"{done + 6}/{kills} kills, {len(lines)} problems", file=sys.stderr, flush=True)
    return lines


def main() -> int:
    """Print the counts; return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kills", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    kills = 6 * -(-arguments.kills // 6)
    with tempfile.TemporaryDirectory(prefix="killed-") as name:
        lines = problems(Path(name), kills, random.Random(arguments.seed))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    counts = Counter(line.partition(":")[0] for line in lines)
    print(f"{kills} SIGKILLs, {(used.ru_utime + used.ru_stime) / 60:.0f} CPU-minutes")
    print(*(f"{what}: {counts.pop(what, 0)}" for what in ("lost", "wrong", "leftover")), sep=", ")
    print(*(f"{what}: {count}" for what, count in counts.items()), *lines, sep="\n")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
