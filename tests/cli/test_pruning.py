"""`show --prune` on the command line: what it asks, says and leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from click.testing import Result
from written_runs import WriteRun

from maxk_lab.reports.summarise import summarise
from maxk_lab.reports.view import View
from maxk_lab.reports.write import write_report
from maxk_lab.sweep_file.load import load_spec

Lab = Callable[..., Result]
PRUNE = ("show", "small", "--prune")


def test_prune_asks_and_leaves_what_is_not_its_own(
    write_run: WriteRun, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four records are stale, and a report is older than its records."""
    run, _ = write_run()
    write_report(summarise(run), run.report_path, ["markdown", "json"], view=View(sort="variance"))
    (run.report_path / "notes.txt").write_text("mine")
    run.write_spec(load_spec("sweep.yaml", ["seeds=[0]"]))
    with monkeypatch.context() as patch:  # somebody sits there, and can be asked
        patch.setattr("maxk_lab.cli.verbs.show.sys", SimpleNamespace(stdin=Mock()))
        refused = lab(*PRUNE, input="n\n")
    assert refused.exit_code == 1
    assert "Nothing was removed" in refused.stderr
    assert len(run.ids()) == 8
    assert lab(*PRUNE, "--yes").exit_code == 0
    assert len(run.ids()) == 4
    assert [path.name for path in run.report_path.iterdir()] == ["notes.txt"]
    again = lab(*PRUNE)
    assert (again.stdout, "0 bytes in small can go" in again.stderr) == ("", True)


def test_run_says_what_can_go_of_a_large_cache(
    write_run: WriteRun, small: str, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = write_run()
    run.cache_path.mkdir()
    (run.cache_path / "pool-0123456789abcdef.npz").write_bytes(b"0" * 2000)
    assert "--prune" not in lab("run", small).stderr
    monkeypatch.setattr("maxk_lab.cli.verbs.run._MOST_CACHE", 1999)
    said = lab("run", small).stderr
    assert "The cache holds 2.0 kB that finished cells need no more; this frees them: " in said
    assert "maxk-lab show small --prune\n" in said
