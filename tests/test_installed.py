"""Entry points of installed packages: a broken one is left out, said once, and ends nothing."""

import json
import os
import subprocess
import sys

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
    ...
OTHER_KIND = {row.name: row for row in ESTIMATORS._own}["maxk"]
"""
SWEEP = """\
name: small
seeds: [0]
environment: {name: bandit, arms: 3}
gradient: {pool: 8, grid: {estimator: maxk, baseline: [half, leaves, typed], n: 4, k: 2}}
"""
PROGRAM = "from maxk_lab.cli import main\nif __name__ == '__main__':\n    main()"


def lab(folder, path, *arguments):
    """Run `maxk-lab` in a folder with this PYTHONPATH."""
    return subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


LIBRARIES = os.pathsep.join(filter(None, sys.path))


def install(site, name, points, **modules):
    """Put a package into a folder: its entry points, and its modules."""
    package = site / f"{name}-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(points)
    for module, code in modules.items():
        (site / f"{module}.py").write_text(code)


def test_broken_entry_points_are_told_once_each_and_end_nothing(tmp_path):
    install(tmp_path / "site", "others", POINTS, fine=FINE, leaving="raise SystemExit('off')")
    (tmp_path / "small.yaml").write_text(SWEEP)
    path = os.pathsep.join([str(tmp_path / "site"), LIBRARIES])
    done = lab(tmp_path, path, "plan", "small.yaml")
    assert done.returncode == 2
    left_out = {
        "leaves": "cannot load 'leaving:ROW': importing leaving raised SystemExit: off",
        "missing": "cannot load 'nowhere:ROW': No module named 'nowhere'",
        "nothing": "cannot load 'fine:NOTHING': module 'fine' has no attribute 'NOTHING'",
        "typed": "fine:TEXT must be a BaselineRow with a name, got 'a row'",
        "taken": "baseline 'centred' is already in the catalogue",
        "other": "fine:OTHER_KIND must be a BaselineRow with a name, got ",
    }
    # A warning of each, and then the problems of a sweep that names two of them.
    lines = done.stderr.splitlines()[:-1]
    for line, name in zip(lines, (*left_out, "leaves", "typed"), strict=True):
        assert line.startswith(("warning", "small.yaml:4"))
        assert f"baseline '{name}' of others 1.0 is left out: {left_out[name]}" in line
    rows = json.loads(lab(tmp_path, path, "list", "baselines", "--json").stdout)
    packages = {row["name"]: row["package"] for row in rows}
    assert (packages["half"], packages["centred"]) == ("others 1.0", None)


def test_an_empty_entry_of_pythonpath_opens_no_folder(tmp_path):
    mark, points = tmp_path / "mark", "[maxk_lab.baselines]\nx = evil:ROW\n"
    install(tmp_path, "x", points, evil=f"open({str(mark)!r}, 'w').close()\n")
    done = lab(tmp_path, f":{LIBRARIES}::{LIBRARIES}:", "list", "baselines")
    assert (done.returncode, done.stderr) == (0, "")
    assert not mark.exists()
    # A user who writes the name of the folder wants its modules.
    done = lab(tmp_path, f":{tmp_path}:{LIBRARIES}", "list", "baselines")
    assert "baseline 'x' of x 1.0" in done.stderr
    assert mark.exists()


def test_python_m_imports_nothing_from_the_current_folder(tmp_path):
    mark = tmp_path / "mark"
    (tmp_path / "typer.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    command = [sys.executable, "-m", "maxk_lab", "--version"]
    assert subprocess.run(command, cwd=tmp_path, check=False, capture_output=True).returncode == 0
    assert not mark.exists()
