"""A removed verb, option, key or row exits with 2 and one line that says what to use instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from click.testing import Result

from maxk_lab import removed
from maxk_lab.catalogue import Catalogue, Row
from maxk_lab.planning.identity import with_removed_defaults

Lab = Callable[..., Result]

SWEEP = """\
name: old
seeds: 1
environment: {name: bandit}
gradient: {old_key: 3, grid: {estimator: maxk, baseline: none, n: 4, k: 2}}
"""


def with_row(table: Mapping, key: object, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(removed, name, {**table, key: "use new"})


def test_every_removed_thing_says_what_to_use_instead(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with_row(removed.VERBS, "old", monkeypatch, "VERBS")
    with_row(removed.OPTIONS, "plan --old", monkeypatch, "OPTIONS")
    with_row(removed.KEYS, "gradient.old_key", monkeypatch, "KEYS")
    Path("old.yaml").write_text(SWEEP, encoding="utf-8")
    for words, line in [
        (["old"], "error: maxk-lab old was removed: use new"),
        (["plan", "x.yaml", "--old"], "error: --old was removed: use new"),
        (["plan", "old.yaml"], "old.yaml:4:12: gradient.old_key: was removed: use new"),
    ]:
        result = lab(*words)
        assert result.exit_code == 2
        assert line in result.stderr + result.stdout


def test_a_removed_row_says_what_to_use_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    with_row(removed.ROWS, ("gadget", "old"), monkeypatch, "ROWS")
    row = Row(name="new", meaning="", implementation="")
    with pytest.raises(ValueError, match=r"gadget 'old\[3\]' was removed: use new"):
        Catalogue("gadget", [row], "maxk_lab.gadgets").get("old[3]")


def test_removed_settings_are_hashed_at_their_old_defaults() -> None:
    block = {"a": 1, "inner": {"b": 2}}
    removed_defaults = {"training.c": 3, "training.inner.d": 4, "training.inner.b": 5, "other.e": 6}
    restored = with_removed_defaults(block, "training", removed_defaults)
    assert restored == {"a": 1, "inner": {"b": 2, "d": 4}, "c": 3}
    assert block == {"a": 1, "inner": {"b": 2}}
