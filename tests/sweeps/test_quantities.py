"""Times as people write them, and as messages show them."""

from __future__ import annotations

import pytest

from maxk_lab.sweeps.quantities import seconds, spelled

TIMES = {
    "2h": (7200.0, "2 h"),
    "1.5 h": (5400.0, "1 h 30 min"),
    "1h30min5s": (5405.0, "1 h 30 min 5 s"),
    "1 h 30 min 5.25 s": (5405.25, "1 h 30 min 5.25 s"),
    "0.5s": (0.5, "0.5 s"),
}


def test_times_are_read_shown_and_read_again() -> None:
    assert {one: (seconds(one), spelled(seconds(one))) for one in TIMES} == TIMES
    assert all(seconds(shown) == count for count, shown in TIMES.values())
    for written in ("2 days", "", "h", "soon"):
        with pytest.raises(ValueError, match="must be a time such as 2h, 30min or 45s"):
            seconds(written)
