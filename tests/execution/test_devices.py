"""CUDA devices: which of them a worker sees, without any on this machine."""

import os

import pytest
from sweep_files import plan_of

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError
from maxk_lab.execution.devices import Devices, devices_here
from maxk_lab.planning.cells import Unit


def test_devices_are_those_that_this_process_sees_or_the_driver_names(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    program = tmp_path / "nvidia-smi"
    program.touch(mode=0o755)
    for value, devices in {
        'test "$1" = --query-gpu=index || exit 1; printf "0\\n1\\n"': ("0", "1"),
        "echo 'No devices were found'; exit 6": (),
    }.items():
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        program.write_text(f"#!/bin/sh\n{value}\n")
        assert devices_here() == devices
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
    ],
)
def test_shares_of_devices(monkeypatch, visible, share, most, seen):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    devices = Devices(share)
    assert devices.most() == most
    uses_device = devices.wanted_by(True)
    assert [devices.take(uses_device) for _ in seen] == seen
    # What one has that ends is the next one's.
    devices.give(seen[-1])
    assert devices.take(uses_device) == seen[-1]


@pytest.mark.parametrize(("visible", "share", "words"), [("", 0.5, "no"), ("0,1", 4, "2")])
def test_more_devices_than_the_machine_has_are_refused(monkeypatch, visible, share, words):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(LabError, match=f"this machine has {words} CUDA device"):
        Devices(share).most()


@pytest.mark.usefixtures("forked_here")
@pytest.mark.parametrize(
    ("names", "share", "on_device", "seen"),
    [
        (("3", "4"), "2", (), "3,4"),
        (("3", "4"), "0", (0, 1), ""),
        (("3", "4"), "null", (1,), "3"),
        (("3", "4"), "null", (), ""),
        ((), "null", (0, 1), "all"),
    ],
)
def test_workers_see_what_is_theirs(go, run, monkeypatch, names, share, on_device, seen):
    """Every worker sees a device if any unit can use one; torch finds what it finds."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("maxk_lab.execution.devices.devices_here", lambda: names)
    monkeypatch.setattr(Unit, "on_device", property(lambda unit: unit.seed in on_device))
    assert len(go("sees", f"execution.gpus={share}").done) == 8
    records = map(run.read, run.ids())
    assert {record.metrics["undefined"]["sees"] for record in records} == {seen}


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
