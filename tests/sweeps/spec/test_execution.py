"""Times of the limits of a run, as people write them."""

from __future__ import annotations

import pytest

from maxk_lab.errors import LabError
from maxk_lab.sweeps.spec.execution import Execution, spelled


@pytest.mark.parametrize(
    ("written", "seconds", "shown"),
    [
        ("2h", 7200.0, "2 h"),
        ("1 h 30 min", 5400.0, "1 h 30 min"),
        ("90min", 5400.0, "1 h 30 min"),
        ("1.5 h", 5400.0, "1 h 30 min"),
        ("45s", 45.0, "45 s"),
        ("1h30min5s", 5405.0, "1 h 30 min 5 s"),
        (90.0, 90.0, "1 min 30 s"),
        ("0.5s", 0.5, "0.5 s"),
    ],
)
def test_times_are_read_and_shown(written: object, seconds: float, shown: str) -> None:
    limits = Execution.from_mapping({"timeout": written})
    assert limits.timeout == seconds
    assert spelled(seconds) == shown


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("soon", "timeout must be a time such as 2h, 30min or 45s, got 'soon'"),
        ("", "timeout must be a time such as 2h, 30min or 45s, got ''"),
        ("2 days", "timeout must be a time such as 2h, 30min or 45s, got '2 days'"),
        (0.1, "timeout must be at least 0.5, got 0.1"),
        (float("inf"), "timeout must be at most 3e+07, got inf"),
        (True, "timeout must be a number, got True"),
    ],
)
def test_other_times_are_refused(written: object, message: str) -> None:
    with pytest.raises(LabError) as caught:
        Execution.from_mapping({"timeout": written})
    assert str(caught.value) == message
