"""Fixtures of all tests; Ctrl-C reaches the programs that they start, also in the background."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import hypothesis
import pytest

# One thread per process, however the tests are started: more only get in each other's way.
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

# As many examples as there is time for; how long one takes says something of the machine only.
hypothesis.settings.register_profile("lab", max_examples=40, deadline=None)
hypothesis.settings.load_profile("lab")

# Modules of tests/fixtures whose fixtures several rooms use.
pytest_plugins = [
    "launched",
    "attacked_runs",
    "chromium",
    "drawn_units",
    "forked",
    "own_code",
    "ray_cluster",
    "sweep_files",
    "synthetic_records",
    "written_runs",
]


def pytest_configure() -> None:
    """Hear SIGINT and SIGHUP again, to which background jobs and nohup make all below them deaf."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Group the tests of a file: one of pytest's workers runs them, and makes what they share."""
    if item.get_closest_marker("xdist_group") is None:
        item.add_marker(pytest.mark.xdist_group("/".join(item.path.parts[-2:])))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test as fast that is not marked as slow."""
    for item in items:
        if item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.fast)


@pytest.fixture(autouse=True)
def _no_sweep_folder() -> None:
    """Functions of the user's own are not looked for beside the sweep of an earlier test."""
    os.environ.pop("MAXK_LAB_SWEEP_FOLDER", None)


@pytest.fixture(autouse=True)
def _exact_products() -> Iterator[None]:
    """RL4CO's trainer rounds the products of matrices to bfloat16 for all tests that follow."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_float32_matmul_precision("highest")
