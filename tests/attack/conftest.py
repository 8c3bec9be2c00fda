"""Marks the attacks; `make attack` runs them longer than CI does (see docs/robustness.md)."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Mark what lies in this folder: it starts the program, and finds its processes in /proc."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.attack)
            item.add_marker(pytest.mark.slow)
            if not sys.platform.startswith("linux"):
                item.add_marker(pytest.mark.skip(reason="needs Linux"))
