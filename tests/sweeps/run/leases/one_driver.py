"""A driver that does what it reads, a word a line: one_driver.py RUN [SPEC [BEAT EXPIRY]].

`race COUNT` takes and gives back as many units as it can, and tells those that it took.
"""

from __future__ import annotations

import sys
from pathlib import Path

from maxk_lab.sweeps.run.leases import Driver, Lease


def race(driver: Driver, count: int) -> str:
    """Take every unit that has no mark yet, mark it, and give it back."""
    won = []
    for number in range(count):
        mark = driver.root / f"mark-{number}"
        if mark.exists() or (lease := driver.take(f"unit{number}")) is None:
            continue
        if not mark.exists():
            # Fails where another process has the unit, too.
            mark.touch(exist_ok=False)
            won.append(str(number))
        lease.release()
    return " ".join(won)


def main() -> None:
    run, spec, beat, expiry = [*sys.argv[1:], *("a", "0.1", "1")[len(sys.argv) - 2 :]]
    leases: dict[str, Lease | None] = {}
    with Driver(Path(run), spec_hash=spec, beat=float(beat), expiry=float(expiry)) as driver:
        print("ready", flush=True)
        for line in sys.stdin:
            word, *rest = line.split()
            if word == "race":
                print(race(driver, int(rest[0])), flush=True)
            elif word == "take":
                leases[rest[0]] = driver.take(rest[0])
                print(leases[rest[0]], flush=True)
            elif word == "held":
                lease = leases[rest[0]]
                print(lease is not None and lease.held, flush=True)


if __name__ == "__main__":
    main()
