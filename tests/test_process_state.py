"""Every change that a user's function makes to the process is taken back."""

from __future__ import annotations

import os
import random
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.backends import cudnn, mkldnn, quantized

from maxk_lab.process_state import seed_generators, unchanged


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
        umask(),
        resource.getrlimit(resource.RLIMIT_FSIZE),
        resource.getrlimit(resource.RLIMIT_NOFILE),
        np.geterr(),
        torch.get_float32_matmul_precision(),
        mkldnn.matmul.fp32_precision,  # type: ignore[attr-defined]
        mkldnn.enabled,  # type: ignore[attr-defined]
        cudnn.deterministic,
        quantized.engine,
        torch.backends.mha.get_fastpath_enabled(),
        torch.backends.cuda.flash_sdp_enabled(),
        torch.get_deterministic_debug_mode(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.is_anomaly_enabled(),
        # Whether denormal numbers are zero.
        sys.float_info.min / 2 == 0,
    ]


def umask() -> int:
    now = os.umask(0o022)
    os.umask(now)
    return now


def limit(which: int, soft: int) -> None:
    resource.setrlimit(which, (soft, resource.getrlimit(which)[1]))


def change_precision_of_one_kernel() -> None:
    """The general precision cannot be read then."""
    mkldnn.matmul.fp32_precision = "bf16"  # type: ignore[attr-defined]


def close_streams() -> None:
    sys.stdin = sys.stdout = sys.stderr = None  # type: ignore[assignment]


LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE)


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    """A change that stayed must not reach the other tests."""
    folder, streams = os.getcwd(), (sys.stdin, sys.stdout, sys.stderr)
    mask, files, sizes = umask(), *map(resource.getrlimit, LIMITS)
    yield
    os.umask(mask)
    for which, both in zip(LIMITS, (files, sizes), strict=True):
        resource.setrlimit(which, both)
    np.seterr(all="warn", under="ignore")
    torch.set_flush_denormal(False)
    mkldnn.set_flags(True)
    mkldnn.matmul.fp32_precision = "none"
    torch.set_float32_matmul_precision("highest")
    torch.set_deterministic_debug_mode(0)
    torch.set_autocast_enabled("cpu", False)
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    torch.set_anomaly_enabled(False)
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
    lambda: os.umask(0o777),
    lambda: limit(resource.RLIMIT_FSIZE, 100),
    lambda: limit(resource.RLIMIT_NOFILE, 3),
    lambda: np.seterr(all="raise"),
    lambda: torch.set_float32_matmul_precision("medium"),
    change_precision_of_one_kernel,
    lambda: mkldnn.set_flags(False),
    lambda: setattr(cudnn, "deterministic", True),
    lambda: setattr(quantized, "engine", "onednn"),
    lambda: torch.backends.mha.set_fastpath_enabled(False),
    lambda: torch.backends.cuda.enable_flash_sdp(False),
    lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    lambda: torch.set_autocast_enabled("cpu", True),
    lambda: torch.set_autocast_dtype("cpu", torch.float16),
    lambda: torch.autograd.set_detect_anomaly(True),
    lambda: torch.set_flush_denormal(True),
]


@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_taken_back(change: Callable[[], Any]) -> None:
    before = state()

    def raising() -> None:
        with unchanged():
            change()
            with suppress(RuntimeError):  # settings that contradict each other cannot be read
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


def test_the_generators_of_the_process_are_seeded() -> None:
    def drawn(seed: int) -> tuple[float, float, float]:
        seed_generators(seed)
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    assert drawn(2**63 - 1) == drawn(2**63 - 1)
    assert all(one != other for one, other in zip(drawn(1), drawn(2), strict=True))
