"""Units in jobs: all of them, once, balanced, and in no more jobs than there may be."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from maxk_lab.sweeps.plan.needs import WORTH_A_START, packs

TIMES = st.lists(st.floats(0, 1e5, allow_nan=False), max_size=60)


@given(TIMES, st.integers(1, 40), st.integers(1, 40), st.one_of(st.none(), st.integers(1, 20)))
def test_every_unit_is_in_one_pack(
    seconds: list[float], most: int, at_once: int, each: int | None
) -> None:
    units = list(range(len(seconds)))
    found = packs(units, seconds, most, at_once=at_once, each=each)
    assert sorted(unit for pack in found for unit in pack) == units
    assert all(pack == sorted(pack) and pack for pack in found)
    assert len(found) <= most
    assert [pack[0] for pack in found] == sorted(pack[0] for pack in found)
    if each is None and units:
        # The longest is at most a unit longer than the mean.
        loads = [sum(seconds[unit] for unit in pack) for pack in found]
        assert max(loads) <= sum(seconds) / len(found) + max(seconds) + 1e-6
        if len(units) > at_once and len(found) > 1:
            assert sum(seconds) / len(found) >= WORTH_A_START - 1e-6


def test_small_units_share_a_job() -> None:
    assert len(packs(range(1000), [1.0] * 1000, 100, at_once=50)) == 3
    assert len(packs(range(1000), [0.0] * 1000, 100, at_once=50)) == 1


def test_few_units_have_a_job_each() -> None:
    assert packs("abc", [1.0, 1.0, 1.0], 100, at_once=3) == [["a"], ["b"], ["c"]]


def test_long_units_have_a_job_each_up_to_the_most() -> None:
    assert [len(pack) for pack in packs(range(10), [3600.0] * 10, 100)] == [1] * 10
    assert [len(pack) for pack in packs(range(10), [3600.0] * 10, 4)] == [3, 3, 2, 2]


def test_the_longest_goes_alone() -> None:
    assert packs("abcd", [100.0, 900.0, 300.0, 500.0], 2) == [["a", "c", "d"], ["b"]]


def test_a_pack_may_be_told() -> None:
    assert packs(range(7), [1.0] * 7, 100, each=3) == [[0, 1, 2], [3, 4, 5], [6]]
    assert packs(range(7), [1.0] * 7, 2, each=1) == [[0, 1, 2, 3], [4, 5, 6]]


def test_nothing_is_no_job() -> None:
    assert packs([], [], 5) == packs([], [], 5, each=2) == []


def test_very_many_units_take_a_moment() -> None:
    count = 100_000
    before = time.process_time()
    found = packs(range(count), [60.0 + one % 7 for one in range(count)], 1000)
    assert len(found) == 1000
    assert time.process_time() - before < 2
