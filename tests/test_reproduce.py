"""`make reproduce` under other seeds, and the table of the claims that hold there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import claims_over_seeds
import pytest

ROOT = Path(__file__).parents[1]
# What `make reproduce` runs of a sweep, alone on its core.
RUN = "run ci/a.yaml --jobs 1 --retry-failed"


NOTING = """
import subprocess, sys
import maxk_lab.cli
maxk_lab.cli.main = lambda: sys.exit(subprocess.call([{program!r}, *sys.argv[1:]]))
"""


def make(folder: Path, *words: str, refused: str = "") -> subprocess.CompletedProcess[str]:
    """`make reproduce` of one sweep, with a program that only notes how it is called."""
    program = folder / "bin" / "maxk-lab"
    program.parent.mkdir(exist_ok=True)
    fail = f'case "$*" in {refused}) exit 1;; esac\n' if refused else ""
    program.write_text(f'#!/bin/bash\necho "$*" >> {folder}/calls\n{fail}')
    program.chmod(0o755)
    # The reports are those of this interpreter, with the noting program as `maxk_lab.cli.main`.
    (folder / "bin" / "python").write_text(
        f'#!/bin/bash\nPYTHONPATH={folder}/bin exec {sys.executable} "$@"\n'
    )
    (folder / "bin" / "python").chmod(0o755)
    (folder / "bin" / "sitecustomize.py").write_text(NOTING.format(program=str(program)))
    command = ["make", "-o", ".venv/.installed", f"BIN={program.parent}", "reproduce"]
    return subprocess.run(
        [*command, "SWEEPS=ci/a.yaml", "RESULTS=there", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def calls(folder: Path) -> list[str]:
    path = folder / "calls"
    return path.read_text().splitlines() if path.exists() else []


needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@needs_make
def test_each_of_several_seeds_has_results_of_its_own(tmp_path: Path) -> None:
    done = make(tmp_path, "SEEDS=100 200", "JOBS=1", refused="report*seeds-100*")
    assert calls(tmp_path) == [
        "check",
        f"{RUN} --shift-seeds 100 --results there/seeds-100",
        f"{RUN} --shift-seeds 200 --results there/seeds-200",
        "report a --results there/seeds-100 --out there/seeds-100/a/report",
        "report a --results there/seeds-200 --out there/seeds-200/a/report",
    ]
    assert done.returncode == 2
    assert "  there/seeds-100/a: a claim was refuted, or cells failed\n" in done.stdout
    assert "seeds-200/a: a claim" not in done.stdout


@needs_make
@pytest.mark.parametrize("seeds", ["ten", "100 -1", "0"])
def test_seeds_that_are_no_whole_numbers_are_refused_before_anything_runs(
    tmp_path: Path, seeds: str
) -> None:
    done = make(tmp_path, f"SEEDS={seeds}")
    assert done.returncode == 2
    assert f'added to every seed, as in SEEDS="100 200"; got {seeds.split()[-1]}' in done.stderr
    assert calls(tmp_path) == []


@needs_make
def test_sweeps_run_side_by_side_each_with_a_worker_and_a_name_before_its_lines(
    tmp_path: Path,
) -> None:
    """One alone has all workers."""
    assert make(tmp_path).returncode == 0
    assert calls(tmp_path) == [
        "check",
        "run ci/a.yaml --jobs 2 --retry-failed --results there",
        "report a --results there --out there/a/report",
    ]
    (tmp_path / "calls").unlink()
    done = make(tmp_path, "SWEEPS=ci/a.yaml ci/b.yaml", "JOBS=2", refused="run*b.yaml*")
    assert sorted(calls(tmp_path)) == [
        "check",
        "report a --results there --out there/a/report",
        "report b --results there --out there/b/report",
        "run ci/a.yaml --jobs 1 --retry-failed --results there",
        "run ci/b.yaml --jobs 1 --retry-failed --results there",
    ]
    assert "\n== maxk-lab report there/a\n" in done.stdout
    assert "make reproduce: 1 failed\n  there/b: the run did not finish well\n" in done.stdout
    assert done.returncode == 2


@needs_make
def test_control_c_stops_all_sweeps_and_says_how_to_go_on(tmp_path: Path) -> None:
    program = tmp_path / "maxk-lab"
    waits = "for i in {1..200}; do sleep 0.1; done"
    program.write_text(f'#!/bin/bash\necho "$*" >> {tmp_path}/calls\n[ "$1" != run ] || {waits}\n')
    program.chmod(0o755)
    command = ["make", "-o", ".venv/.installed", f"BIN={tmp_path}", "reproduce", "JOBS=2"]
    with subprocess.Popen(
        [*command, "SWEEPS=ci/a.yaml ci/b.yaml ci/c.yaml", "RESULTS=there"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    ) as process:
        while len(calls(tmp_path)) < 3:
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=100)
    assert "interrupted; the same command continues" in said
    assert process.returncode != 0
    assert not any("c.yaml" in call for call in calls(tmp_path))


def report(results: Path, sweep: str, **verdicts: str) -> None:
    """Write what of a report the table is made from."""
    folder = results / sweep / "report"
    folder.mkdir(parents=True)
    claims = [{"name": name, "verdict": verdict} for name, verdict in verdicts.items()]
    text = json.dumps({"header": {"name": sweep}, "claims": claims})
    (folder / "report.json").write_text(text)


PAGE = "# Above\n<!-- claims over seeds: begin -->\nold\n<!-- claims over seeds: end -->\nbelow\n"


def test_the_table_counts_the_verdicts_of_every_claim(tmp_path: Path) -> None:
    report(tmp_path / "seeds-100", "b", two="undecided")
    report(tmp_path / "seeds-100", "a", one="supported")
    report(tmp_path / "seeds-1000", "b", two="refuted")
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    folders = [str(tmp_path / "seeds-1000"), str(tmp_path / "seeds-100")]
    for _ in range(2):  # it can be put there again
        claims_over_seeds.main([*folders, "--into", str(page)])
    lines = page.read_text(encoding="utf-8").splitlines()
    assert (lines[0], lines[-1], "old" in lines) == ("# Above", "below", False)
    assert [line for line in lines if line.startswith("|")] == [
        "| sweep | claim | 100 | 1000 | supported | undecided | refuted |",
        "| --- | --- | :-: | :-: | --: | --: | --: |",
        "| a | `one` | ● | – | 1 | 0 | 0 |",
        "| b | `two` | ○ | ✗ | 0 | 1 | 1 |",
        "| 2 claims |  |  |  | 1 | 1 | 1 |",
    ]


def test_a_page_without_marks_and_a_folder_without_claims_are_told(tmp_path: Path) -> None:
    report(tmp_path / "seeds-100", "a", one="supported")
    page = tmp_path / "page.md"
    page.write_text("# Above\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="the page needs one line <!-- claims over seeds: begin"):
        claims_over_seeds.main([str(tmp_path / "seeds-100"), "--into", str(page)])
    assert page.read_text(encoding="utf-8") == "# Above\n"
    with pytest.raises(SystemExit, match="holds no report with claims: run make reproduce first"):
        claims_over_seeds.main([str(tmp_path / "seeds-200")])
