"""The history of a job out of a log that may be cut off, damaged, or still being written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from maxk_lab.sweeps.run.backends.slurm.history import History
from maxk_lab.sweeps.run.backends.slurm.log import Log


def event(name: str, **payload: Any) -> str:
    return json.dumps({"time": 1.0, "event": name, **payload})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.log"


def history(path: Path, *lines: str) -> History:
    path.write_text("".join(f"{line}\n" for line in lines))
    return History.read(path)


def test_events_are_read_once_and_only_when_they_are_whole(path: Path) -> None:
    log = Log(path)
    assert list(log.new()) == []
    path.write_text(event("a", x=1) + "\n" + event("b")[:10])
    assert list(log.new()) == [("a", {"time": 1.0, "x": 1})]
    path.write_text(event("a", x=1) + "\n" + event("b") + "\n")
    assert [name for name, _ in log.new()] == ["b"]
    assert list(log.new()) == []


def test_lines_that_are_no_events_are_passed_over(path: Path) -> None:
    lines = ["", "[]", "7", "{}", "\udcff", event("a")]
    path.write_bytes("\n".join([*lines, ""]).encode(errors="surrogateescape"))
    assert [name for name, _ in Log(path).new()] == ["a"]


def test_a_start_that_ended_without_a_word_is_a_loss(path: Path) -> None:
    begun = [event("job_started", host="n1"), event("unit_started", key="u")]
    assert history(path, *begun).losses == {"u": 1}
    assert history(path, *begun, *begun).losses == {"u": 2}
    assert not history(path, *begun, event("unit_finished", key="u")).losses
    assert not history(path, *begun, event("left", key="u"), *begun[:1]).losses


def test_what_ends_after_a_signal_is_no_loss(path: Path) -> None:
    begun = [event("job_started", host="n1"), event("unit_started", key="u")]
    assert not history(path, *begun, event("job_signalled"), *begun[:1]).losses


def test_a_unit_stands_still_that_came_no_further_in_its_next_start(path: Path) -> None:
    def start(step: int) -> list[str]:
        return [
            event("job_started"),
            event("unit_started", key="u"),
            event("progress", key="u", phase="training", step=step),
            event("job_signalled"),
        ]

    before = history(path, *start(5))
    assert not before.stands_still(history(path), "u")
    assert history(path, *start(5), *start(5)).stands_still(before, "u")
    assert history(path, *start(5), *start(4)).stands_still(before, "u")
    assert not history(path, *start(5), *start(6)).stands_still(before, "u")
    recorded = event("cell_done", key="u", cell="c")
    assert not history(path, *start(5), *start(5), recorded).stands_still(before, "u")
    # One whose turn did not come was not begun again.
    assert not history(path, *start(5), event("job_started")).stands_still(before, "u")


def test_the_last_start_says_where_the_job_is_and_how_it_ended(path: Path) -> None:
    first = [event("job_started", host="n1"), event("job_failed", error="no room")]
    assert (history(path, *first).host, history(path, *first).failure) == ("n1", "no room")
    second = history(path, *first, event("job_started", host="n2"), event("job_finished"))
    assert (second.host, second.failure, second.finished) == ("n2", "", True)
    told = history(path, event("cell_done", cell="a"), event("cell_failed", cell="b")).told
    assert told == {"a", "b"}
