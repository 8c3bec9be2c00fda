"""The sweeps of the project are valid and named as their files, as `make reproduce` expects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from maxk_lab.cli import app

SWEEPS = sorted((Path(__file__).parents[2] / "experiments").rglob("*.yaml"))


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_every_sweep_is_valid_and_named_as_its_file(path: Path) -> None:
    result = CliRunner().invoke(app, ["validate", str(path), "--json"])
    assert result.exit_code == 0, result.stdout
    assert json.loads(result.stdout)[0]["name"] == path.stem
