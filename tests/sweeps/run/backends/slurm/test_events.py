"""The log of events: a line each, whatever a full disk has left of the one before."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from maxk_lab.sweeps.run.backends.slurm.events import Teller


def test_an_event_joins_no_line_that_was_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "events.log"
    tell = Teller(log)
    tell("first")
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda file, data: write(file, data[:9]))
        tell("cut")
    tell("second")
    tell("third")
    first, cut, *others = log.read_text().splitlines()
    assert len(cut) == 9
    assert [json.loads(line)["event"] for line in (first, *others)] == ["first", "second", "third"]
