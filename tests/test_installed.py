"""Entry points of installed packages: a broken one is left out, said once, and ends nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from maxk_lab.errors import LabError, first_line
from maxk_lab.sweeps.studies import StudyRow

POINTS = """\
[maxk_lab.baselines]
leaves = leaving:ROW
missing = nowhere:ROW
nothing = fine:NOTHING
typed = fine:TEXT
taken = fine:TAKEN
half = fine:HALF
other = fine:OTHER_KIND
"""
FINE = """\
from dataclasses import replace
from maxk_lab.estimators import baseline
from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS
own = {row.name: row for row in BASELINES._own}
TEXT = "a row"
TAKEN = replace(own["centred"], meaning="another")
@baseline("half of s", name="half")
def HALF(rewards, k):
    raise RuntimeError("half of it is missing")
OTHER_KIND = {row.name: row for row in ESTIMATORS._own}["maxk"]
"""
SWEEP = """\
name: small
seeds: [0]
environment: {name: bandit, arms: 3}
gradient:
  instances: 2
  pool: 8
  grid: {estimator: maxk, baseline: NAME, n: 4, k: 2}
tracking: {wandb: disabled}
"""
PROGRAM = "from maxk_lab.cli import main\nif __name__ == '__main__':\n    main()"
Lab = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Runs `maxk-lab` where a package with these entry points is installed."""

    def run(*arguments: str) -> object:
        site = tmp_path / "site"
        package = site / "others-1.0.dist-info"
        package.mkdir(parents=True, exist_ok=True)
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
        (package / "entry_points.txt").write_text(POINTS)
        (site / "fine.py").write_text(FINE)
        (site / "leaving.py").write_text("raise SystemExit('off')")
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(site), *filter(None, sys.path)])},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.slow
def test_broken_entry_points_are_told_once_each_and_end_nothing(lab: Lab, tmp_path: Path) -> None:
    """A row whose function breaks fails its own cells only."""
    (tmp_path / "small.yaml").write_text(SWEEP.replace("NAME", "[centred, half]"))
    run = lab("run", "small.yaml")
    assert "1 measured, 0 already done, 1 failed" in run.stderr
    assert "half of it is missing" in run.stderr
    told = [line for line in run.stderr.splitlines() if "is left out" in line]
    assert told == [
        f"warning: baseline '{name}' of others 1.0 is left out: {why}"
        for name, why in {
            "leaves": "cannot load 'leaving:ROW': importing leaving raised SystemExit: off",
            "missing": "cannot load 'nowhere:ROW': No module named 'nowhere'",
            "nothing": "cannot load 'fine:NOTHING': module 'fine' has no attribute 'NOTHING'",
            "typed": "fine:TEXT must be a BaselineRow with a name, got 'a row'",
            "taken": "baseline 'centred' is already in the catalogue",
            "other": "fine:OTHER_KIND must be a BaselineRow with a name, got "
            + told[-1].partition("got ")[2],
        }.items()
    ]
    assert "Traceback" not in run.stderr
    rows = json.loads(lab("list", "baselines", "--json").stdout)
    packages = {row["name"]: row["package"] for row in rows}
    assert (packages["half"], packages["centred"]) == ("others 1.0", None)


@pytest.mark.slow
def test_who_asks_for_a_broken_one_is_told_why(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SWEEP.replace("NAME", "[leaves, typed]"))
    done = lab("validate", "small.yaml")
    assert done.returncode == 2
    problems = [line for line in done.stderr.splitlines() if line.startswith("small.yaml:7")]
    whys = ("importing leaving raised SystemExit: off", "must be a BaselineRow")
    for problem, name, why in zip(problems, ("leaves", "typed"), whys, strict=True):
        assert f"baseline '{name}' of others 1.0 is left out: " in problem
        assert why in problem


@pytest.mark.parametrize(
    ("error", "told"),
    [("ImportError('no')", "ImportError: no"), ("SystemExit(3)", "SystemExit: 3")],
)
def test_a_kind_of_study_that_cannot_be_imported_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str, told: str
) -> None:
    (tmp_path / "lost_kind").mkdir()
    (tmp_path / "lost_kind" / "pool.py").write_text(f"raise {error}")
    monkeypatch.syspath_prepend(tmp_path)
    kind = StudyRow(name="lost", meaning="", implementation="lost_kind")
    with pytest.raises(LabError, match=rf"importing lost_kind\.pool raised {told}"):
        kind.part("pool")
    with pytest.raises(ModuleNotFoundError):
        kind.part("figures")


def test_the_first_line_of_an_error_is_there_for_any_error() -> None:
    class SilentError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    assert first_line(ValueError("one\ntwo")) == "one"
    assert first_line(ValueError()) == first_line(SilentError()) == "no message"


@pytest.mark.parametrize("empty", [":{}", "{}:", "{}::{}"])
def test_an_empty_entry_of_pythonpath_opens_no_folder(tmp_path: Path, empty: str) -> None:
    mark, libraries = tmp_path / "mark", os.pathsep.join(filter(None, sys.path))
    package = tmp_path / "x-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: x\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[maxk_lab.baselines]\nx = evil:ROW\n")
    (tmp_path / "evil.py").write_text(f"open({str(mark)!r}, 'w').close()\n")

    def said(path: str) -> str:
        command = [sys.executable, "-P", "-c", PROGRAM, "list", "baselines"]
        env = os.environ | {"PYTHONPATH": path}
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert said(empty.format(libraries, libraries)) == ""
    assert not mark.exists()
    # By its own name the user has put it there.
    assert "baseline 'x' of x 1.0" in said(f":{tmp_path}:{libraries}")
    assert mark.exists()
