"""The watch on a Ray cluster, with one that is made of paper."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from run_processes import wait_until

from maxk_lab.errors import RefusedError
from maxk_lab.sweeps.run.backends.ray import watch as module
from maxk_lab.sweeps.run.backends.ray.watch import Watch, leave_lost


class Head:
    """A head node that counts what it is asked, until it says nothing more."""

    def __init__(self) -> None:
        self.asked, self.lost, self.over = 0, False, threading.Event()

    def ask(self) -> int:
        self.asked += 1
        if self.lost:
            self.over.wait()
        return self.asked


@pytest.fixture
def head(monkeypatch: pytest.MonkeyPatch) -> Iterator[Head]:
    monkeypatch.setattr(module, "_EVERY", 0.01)
    monkeypatch.setattr(module, "_FRESH", 0.2)
    head = Head()
    yield head
    head.over.set()


def lose(head: Head) -> None:
    head.lost = True
    asked = head.asked
    wait_until(lambda: head.asked > asked)


def test_a_head_that_answers_is_asked_again_and_again(head: Head) -> None:
    watch = Watch("the cluster", head.ask)
    assert watch.answer() >= 1
    wait_until(lambda: watch.answer() > 3)
    assert watch.answers
    watch.close()
    asked = head.asked
    assert not watch._thread.is_alive()
    assert head.asked == asked


def test_a_head_that_answers_no_more_is_lost(head: Head, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch("the cluster", head.ask)
    monkeypatch.setattr(module, "_PATIENCE", 0.1)
    lose(head)

    def look() -> bool:
        watch.check()
        return False

    with pytest.raises(RefusedError, match="the cluster no longer answers; finished cells are"):
        wait_until(look)
    wait_until(lambda: not watch.answers)
    watch.close()


def test_a_driver_that_was_stopped_does_not_take_the_cluster_for_lost(
    head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch("the cluster", head.ask)
    lose(head)
    watch.check()
    now = module.time.monotonic()
    head.over.set()
    watch.close()
    monkeypatch.setattr(module.time, "monotonic", lambda: now + 3600)
    assert not watch.answers
    watch.check()
    assert watch._silent <= 2 * module._LOOK


def test_a_lost_cluster_is_left_soon_and_not_once_more_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over, gone = threading.Event(), []
    monkeypatch.setattr(module, "_FAREWELL", 0.05)
    monkeypatch.setattr(module.atexit, "unregister", gone.append)
    leave_lost(over.wait)
    assert gone == [over.wait]
    leave_lost(lambda: None)
    assert len(gone) == 1
    over.set()
