"""The configuration of a user: where it lies, and what stops where it is broken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from maxk_lab.cli import options, runs

Lab = Callable[..., Result]


def test_the_usual_place(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert options.CONFIG.name == "config.yaml"
    assert "maxk-lab" in options.CONFIG.parts[-2]
    monkeypatch.delenv("MAXK_LAB_CONFIG")
    monkeypatch.setattr(options, "CONFIG", tmp_path / "none.yaml")
    assert runs.config_path() is None
    (tmp_path / "none.yaml").symlink_to(tmp_path / "gone")
    assert lab("list", "profiles").exit_code == 2


def test_a_broken_configuration_stops_only_what_needs_it(
    lab: Lab, sweep: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAXK_LAB_CONFIG", "config.yaml")
    assert "cannot be read: No such file or directory" in lab("plan", sweep).stderr
    Path("config.yaml").write_text("execution: [")
    for verb in ("run", "plan"):
        refused = lab(verb, sweep)
        assert refused.exit_code == 2
        assert "config.yaml:1:13: (file): not YAML" in refused.stderr
    for words in (["validate", sweep], ["list", "backends"], ["list", "runs"]):
        assert lab(*words).exit_code == 0
