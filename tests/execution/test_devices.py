"""CUDA devices: which of them a worker sees, without any on this machine."""

import os
from collections import Counter
from collections.abc import Callable

import pytest
from sweep_files import plan_of

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError
from maxk_lab.execution.devices import Devices, devices_here
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.cells import Unit

Fake = Callable[[str], None]


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    """Put a program on the path that prints something, or fails, in the place of NVIDIA's."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def fake(script):
        program = folder / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    return fake


def test_devices_are_those_that_this_process_sees_or_the_driver_names(nvidia_smi, monkeypatch):
    nvidia_smi('test "$1" = --query-gpu=index || exit 1; printf "0\\n1\\n"')
    assert devices_here() == ("0", "1")
    nvidia_smi("echo 'No devices were found'; exit 6")
    assert devices_here() == ()
    for value, devices in {
        "": (),
        "-1": (),
        "2,3": ("2", "3"),
        "GPU-ab12, MIG-77": ("GPU-ab12", "MIG-77"),
        "1,-1,2": ("1",),
    }.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
        assert devices_here() == devices


@pytest.mark.parametrize(
    ("visible", "share", "most", "seen"),
    [
        ("0,1", 1, 2, ["0", "1"]),
        ("0,1", 0.5, 4, ["0", "1", "0", "1"]),
        ("0", 0.3, 3, ["0", "0", "0"]),
        ("0,1", 0.1, 20, ["0"]),
        ("0,1,2,3,4", 2, 2, ["0,1", "2,3"]),
        ("0,1", 0, None, ["", ""]),
        # Unset: one each, and several see the same where there are more workers.
        ("0,1", None, None, ["0", "1", "0"]),
        # Where nobody knows of any, and none is demanded, torch finds what it finds.
        ("", None, None, [None]),
        ("", 0.5, "this machine has no CUDA device", []),
        ("0,1", 4, "this machine has 2 CUDA devices", []),
    ],
)
def test_shares_of_devices(monkeypatch, visible, share, most, seen):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    devices = Devices(share)
    if isinstance(most, str):
        with pytest.raises(LabError, match=most):
            devices.most()
        return
    assert devices.most() == most
    wanted = devices.wanted_by(True)
    assert [devices.take(wanted) for _ in seen] == seen
    # What one has that ends is the next one's.
    devices.give(seen[-1])
    assert devices.take(wanted) == seen[-1]


@pytest.mark.usefixtures("forked_here")
def test_workers_see_what_is_theirs(go, nvidia_smi, tmp_path, monkeypatch):
    """Every worker sees a device if any unit can use one; torch finds what it finds."""

    def seen(*overrides, on_device=()):
        monkeypatch.setattr(Unit, "on_device", property(lambda unit: unit.seed in on_device))
        run = RunDirectory(tmp_path / "results" / str(len(list(tmp_path.glob("results/*")))))
        outcome = go("sees", *overrides, run=run)
        records = [run.read(cell) for cell in outcome.done]
        return Counter(r.metrics["undefined"]["sees"] for r in records if r and r.metrics)

    nvidia_smi('printf "3\n4\n"')
    assert seen("execution.gpus=2") == {"3,4": 8}
    assert seen("execution.gpus=0", on_device={0, 1}) == {"": 8}
    assert seen(on_device={1}) == {"3": 8}
    assert seen() == {"": 8}
    nvidia_smi("exit 6")
    assert seen(on_device={0, 1}) == {"all": 8}


def test_training_units_can_use_a_device(write):
    grid = "grid: {estimator: maxk, baseline: none, n: 4, k: 1}"
    for environment, device, on_device in (
        ("tsp", "auto", [False, True]),
        ("tsp", "cuda", [False, True]),
        ("tsp", "cpu", [False, False]),
        ("gaussian", "auto", [False, False]),  # its instances stay on the CPU
    ):
        text = f"name: two\nseeds: [0]\nenvironment: {{name: {environment}}}\n"
        text += f"gradient: {{{grid}}}\ntraining: {{device: {device}, {grid}}}\n"
        assert [unit.on_device for unit in plan_of(write(text)).units] == on_device
    assert "cuda" not in ENVIRONMENTS.get("gaussian").supports
