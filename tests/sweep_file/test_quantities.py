"""Times as people write them, and as messages show them."""

from __future__ import annotations

import pytest

from maxk_lab.sweep_file.execution import seconds, spelled, spelled_size

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


def test_a_size_is_shown_as_it_is_read() -> None:
    sizes = {"4.0GB": 4 * 10**9, "1.5GiB": 3 * 2**29, "1234567890B": 1234567890}
    assert {spelled_size(count): count for count in sizes.values()} == sizes
