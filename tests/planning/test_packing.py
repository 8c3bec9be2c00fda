"""Units in jobs: all of them, once, balanced, and in no more jobs than there may be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxk_lab.planning.needs import WORTH_A_START, packs

TIMES = st.lists(st.floats(0, 1e5, allow_nan=False), max_size=60)


@given(
    TIMES, st.integers(1, 40), st.integers(1, 40), st.one_of(st.just("auto"), st.integers(1, 20))
)
def test_every_unit_is_in_one_pack(
    seconds: list[float], most: int, at_once: int, each: int | str
) -> None:
    units = list(range(len(seconds)))
    found = packs(units, seconds, most, at_once=at_once, each=each)
    assert sorted(unit for pack in found for unit in pack) == units
    assert all(pack == sorted(pack) and pack for pack in found)
    assert len(found) <= most
    if each == "auto" and units:
        # The longest is at most a unit longer than the mean.
        loads = [sum(seconds[unit] for unit in pack) for pack in found]
        assert max(loads) <= sum(seconds) / len(found) + max(seconds) + 1e-6
        if len(units) > at_once and len(found) > 1:
            assert sum(seconds) / len(found) >= WORTH_A_START - 1e-6


@pytest.mark.parametrize(
    ("seconds", "most", "options", "sizes"),
    [
        ([1.0] * 1000, 100, {"at_once": 50}, [334, 333, 333]),
        ([0.0] * 1000, 100, {"at_once": 50}, [1000]),
        ([1.0] * 3, 100, {"at_once": 3}, [1, 1, 1]),
        ([3600.0] * 10, 4, {}, [3, 3, 2, 2]),
        ([100.0, 900.0, 300.0, 500.0], 2, {}, [2, 2]),
        ([1.0] * 7, 100, {"each": 3}, [3, 2, 2]),
        ([1.0] * 7, 2, {"each": 1}, [4, 3]),
        ([], 5, {}, []),
        ([], 5, {"each": 2}, []),
    ],
)
def test_units_share_a_job_as_far_as_it_is_worth_a_start(
    seconds: list[float], most: int, options: dict[str, int], sizes: list[int]
) -> None:
    found = packs(range(len(seconds)), seconds, most, **options)
    assert [len(pack) for pack in found] == sizes
