"""Times and sizes as people write them, and as messages show them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from maxk_lab.sweeps.quantities import bytes_of, seconds, spelled, spelled_size

SIZES = {
    "4GB": (4 * 10**9, "4 GB"),
    "4 gb": (4 * 10**9, "4 GB"),
    "1.5 GiB": (3 * 2**29, "1.5 GiB"),
    "300000000 B": (300_000_000, "300 MB"),
    "2TiB": (2**41, "2 TiB"),
    "1234567891B": (1_234_567_891, "1.235 GB"),
    "12B": (12, "12 B"),
}
TIMES = {
    "2h": (7200.0, "2 h"),
    "1.5 h": (5400.0, "1 h 30 min"),
    "1h30min5s": (5405.0, "1 h 30 min 5 s"),
    "1 h 30 min 5.25 s": (5405.25, "1 h 30 min 5.25 s"),
    "0.5s": (0.5, "0.5 s"),
}


def test_what_is_written_is_read_shown_and_read_again() -> None:
    assert {one: (bytes_of(one), spelled_size(bytes_of(one))) for one in SIZES} == SIZES
    assert {one: (seconds(one), spelled(seconds(one))) for one in TIMES} == TIMES
    assert all(seconds(shown) == count for count, shown in TIMES.values())
    for size in (1, 999, 10**9, 2**30, 7 * 2**38):
        assert bytes_of(spelled_size(size)) == size


@pytest.mark.parametrize(
    ("read", "written", "words"),
    [(bytes_of, written, "a size such as 4GB, 512MB or 8GiB")
     for written in ("", "4", "4 X", "GB", "-1GB", "4G", "1e3 MB", "9" * 60 + "B")]
    + [(seconds, written, "a time such as 2h, 30min or 45s")
       for written in ("2 days", "", "h", "soon")],
)  # fmt: skip
def test_what_is_none_is_refused(read: Callable[[str], object], written: str, words: str) -> None:
    with pytest.raises(ValueError, match=f"must be {words}"):
        read(written)
