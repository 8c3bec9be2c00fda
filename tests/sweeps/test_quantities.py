"""Times and sizes as people write them, and as messages show them."""

from __future__ import annotations

import pytest

from maxk_lab.sweeps.quantities import bytes_of, seconds, spelled, spelled_size


@pytest.mark.parametrize(
    ("written", "count", "shown"),
    [
        ("4GB", 4 * 10**9, "4 GB"),
        ("4 gb", 4 * 10**9, "4 GB"),
        ("1.5 GiB", 3 * 2**29, "1.5 GiB"),
        ("512MB", 512 * 10**6, "512 MB"),
        ("300000000 B", 300_000_000, "300 MB"),
        ("2TiB", 2**41, "2 TiB"),
        ("1234567891B", 1_234_567_891, "1.235 GB"),
        ("12B", 12, "12 B"),
    ],
)
def test_sizes_are_read_and_shown(written: str, count: int, shown: str) -> None:
    assert bytes_of(written) == count
    assert spelled_size(count) == shown


@pytest.mark.parametrize("written", ["", "4", "4 X", "GB", "-1GB", "4G", "1e3 MB", "9" * 60 + "B"])
def test_other_sizes_are_refused(written: str) -> None:
    with pytest.raises(ValueError, match="must be a size such as 4GB, 512MB or 8GiB"):
        bytes_of(written)


@pytest.mark.parametrize(
    ("written", "count", "shown"),
    [
        ("2h", 7200.0, "2 h"),
        ("1 h 30 min", 5400.0, "1 h 30 min"),
        ("1.5 h", 5400.0, "1 h 30 min"),
        ("1h30min5s", 5405.0, "1 h 30 min 5 s"),
        ("0.5s", 0.5, "0.5 s"),
    ],
)
def test_times_are_read_and_shown(written: str, count: float, shown: str) -> None:
    assert (seconds(written), spelled(count)) == (count, shown)


@pytest.mark.parametrize("written", ["2 days", "", "h", "soon"])
def test_other_times_are_refused(written: str) -> None:
    with pytest.raises(ValueError, match="must be a time such as 2h, 30min or 45s"):
        seconds(written)


def test_what_is_shown_is_read_again() -> None:
    for count in (0.5, 59.0, 3600.0, 5405.25):
        assert seconds(spelled(count)) == count
    for size in (1, 999, 10**9, 2**30, 7 * 2**38):
        assert bytes_of(spelled_size(size)) == size
