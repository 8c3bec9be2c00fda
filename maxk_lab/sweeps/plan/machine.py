"""The memory of this machine, as far as this process may use it."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

# Files in which a container is told its limit, of both versions of control groups.
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


# Every unit of a plan asks.
@lru_cache(maxsize=8)
def memory_of_machine(limits: tuple[str, ...] = LIMITS) -> int | None:
    """Return the bytes of memory that there are, or that are allowed; None where nobody tells."""
    found = [limit for path in limits if (limit := _limit(Path(path))) is not None]
    with suppress(AttributeError, OSError, ValueError):  # where the system does not tell
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(found, default=None)


def _limit(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # not there, or "max"
        return None
