"""Every change that a user's function makes to the process is taken back."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from maxk_lab.process_state import unchanged


def state() -> list[Any]:
    return [
        os.getcwd(),
        dict(os.environ),
        (sys.stdin, sys.stdout, sys.stderr),
        sys.getrecursionlimit(),
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.tensor(0.0).device,
    ]


def close_streams() -> None:
    sys.stdin = sys.stdout = sys.stderr = None  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    """A change that stayed must not reach the other tests."""
    folder, streams = os.getcwd(), (sys.stdin, sys.stdout, sys.stderr)
    yield
    os.chdir(folder)
    sys.stdin, sys.stdout, sys.stderr = streams
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(1)
    torch.set_grad_enabled(True)
    torch.set_default_device("cpu")


CHANGES: list[Callable[[], Any]] = [
    lambda: os.chdir("/"),
    os.environ.clear,
    close_streams,
    lambda: sys.setrecursionlimit(500),
    lambda: torch.set_default_dtype(torch.float64),
    lambda: torch.set_num_threads(3),
    lambda: torch.set_grad_enabled(False),
    lambda: torch.set_default_device("meta"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_taken_back(change: Callable[[], Any]) -> None:
    before = state()

    def raising() -> None:
        with unchanged():
            change()
            assert state() != before
            raise ValueError("after the change")

    with pytest.raises(ValueError, match="after the change"):
        raising()
    assert state() == before


def test_a_folder_that_is_gone_is_no_reason_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    with unchanged():
        gone.rmdir()
        os.chdir("/")
    assert os.getcwd() == "/"
