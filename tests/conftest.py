"""Fixtures of all tests; Ctrl-C reaches the programs that they start, also in the background."""

from __future__ import annotations

import os
import signal

import pytest

# One thread per process, however the tests are started: more only get in each other's way.
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
# No configuration of whoever runs the tests.
os.environ["MAXK_LAB_CONFIG"] = ""

# Modules of tests/fixtures whose fixtures several rooms use.
pytest_plugins = [
    "attack_figures",
    "launched",
    "attacked_runs",
    "drawn_units",
    "sweep_files",
    "synthetic_records",
]


def pytest_configure() -> None:
    """A shell starts background jobs deaf to SIGINT, and what they start inherits that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test as fast that is not marked as slow."""
    for item in items:
        if item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.fast)
