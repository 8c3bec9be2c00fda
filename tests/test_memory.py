"""The collector is off while objects that stay are made, and as it was afterwards."""

import gc
import weakref

import pytest

from maxk_lab.memory import collector_at_rest, kept_to_the_end, never_collected


class Ring:
    def __init__(self):
        self.itself = self


def fails():
    with collector_at_rest():
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


def test_what_is_made_at_rest_is_collected_later():
    with collector_at_rest():
        ring = Ring()
    gone = weakref.ref(ring)
    del ring
    gc.collect()
    assert gone() is None


def test_what_is_never_collected_is_not_looked_through_but_garbage_goes():
    ring = Ring()
    gone = weakref.ref(ring)
    with never_collected():
        del ring
        made = [[number] for number in range(1000)]
    try:
        assert gone() is None
        tracked = {id(one) for one in gc.get_objects()}
        assert not any(id(one) in tracked for one in made)
    finally:
        gc.unfreeze()


def test_what_is_kept_to_the_end_is_not_looked_through(monkeypatch):
    monkeypatch.setattr(gc, "collect", None)
    with kept_to_the_end():
        made = [[number] for number in range(1000)]
    try:
        tracked = {id(one) for one in gc.get_objects()}
        assert not any(id(one) in tracked for one in made)
    finally:
        gc.unfreeze()
