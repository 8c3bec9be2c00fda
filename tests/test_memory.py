"""The collector is off while objects that stay are made, and as it was afterwards."""

from __future__ import annotations

import gc
import weakref

import pytest

from maxk_lab.memory import kept


def fails() -> None:
    with kept():
        assert not gc.isenabled()
        raise KeyError


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_rests_meanwhile(enabled):
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(KeyError):
            fails()
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
        gc.unfreeze()


class Ring:
    def __init__(self):
        self.itself = self


def test_garbage_is_not_kept():
    ring = Ring()
    gone = weakref.ref(ring)
    with kept():
        del ring
    gc.unfreeze()
    assert gone() is None


def test_what_was_made_is_not_looked_through_again():
    with kept():
        made = [[number] for number in range(1000)]
    try:
        tracked = {id(one) for one in gc.get_objects()}
        assert not any(id(one) in tracked for one in made)
    finally:
        gc.unfreeze()
