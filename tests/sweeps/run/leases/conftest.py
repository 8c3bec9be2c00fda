"""Drivers in this process, whose clock is moved by hand, and in processes of their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from run_drivers import FakeClock, Other

from maxk_lab.sweeps.run.leases import Driver


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def driver(run: Path, clock: FakeClock) -> Iterator[Callable[..., Driver]]:
    """Return a function that registers a driver, which stays until the test ends."""
    with ExitStack() as stack:

        def driver(spec_hash: str = "a", **options: Any) -> Driver:
            made = Driver(run, spec_hash=spec_hash, **({"clock": clock} | options))
            return stack.enter_context(made)

        yield driver


@pytest.fixture
def other(run: Path) -> Iterator[Callable[..., Other]]:
    """Return a function that starts a driver as a process of its own."""
    with ExitStack() as stack:

        def other(*arguments: str, waits: bool = False) -> Other:
            made = Other(run, *arguments)
            stack.callback(made.end)
            assert waits or made.hear() == "ready"
            return made

        yield other


@pytest.fixture
def elsewhere(run: Path) -> Callable[..., Path]:
    """Return a function that makes the drivers that are registered those of another host."""

    def elsewhere(one: Driver | None = None) -> Path:
        paths = [run / "drivers" / f"{one.info.id}.json"] if one else [*(run / "drivers").iterdir()]
        for path in paths:
            told = json.loads(path.read_bytes())
            path.write_text(json.dumps(told | {"host": "node7", "boot": "another"}))
        return paths[0]

    return elsewhere
