"""Every backend of the catalogue has the methods of the protocol, and takes what they are given."""

from __future__ import annotations

import inspect

import pytest

from maxk_lab.sweeps.backends import BACKENDS
from maxk_lab.sweeps.run.backends.backend import Backend
from maxk_lab.sweeps.run.backends.load import load_backend
from maxk_lab.sweeps.spec.execution import Execution

METHODS = [
    name
    for name, member in vars(Backend).items()
    if inspect.isfunction(member) and name not in ("__exit__", "__subclasshook__")
]


@pytest.mark.parametrize("name", BACKENDS.names())
def test_a_backend_is_what_the_protocol_says(name: str) -> None:
    backend = load_backend(Execution(backend=name))
    assert {"submit", "events", "leave", "detach", "__enter__"} <= set(METHODS)
    for method in METHODS:
        asked = inspect.signature(getattr(Backend, method)).parameters
        given = inspect.signature(getattr(backend, method)).parameters
        assert list(given) == list(asked), method
        assert [one.default for one in given.values()] == [one.default for one in asked.values()]
    assert isinstance(backend.here, bool)
    assert isinstance(backend.leases_itself, bool)
    assert isinstance(inspect.getattr_static(backend, "room"), property)
