"""`make reproduce` under other seeds, and the table of the claims that hold there."""

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
# The reports of `.ci/reports.py` are calls of the same program.
REPORTS = """
import subprocess, sys
import maxk_lab.cli
maxk_lab.cli.main = lambda: sys.exit(subprocess.call([{program!r}, *sys.argv[1:]]))
"""
needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(folder, words, case):
    """Start `make reproduce` with a program that logs its calls; `case` is a branch of bash."""
    script = (
        f'echo "$*" >> {folder}/calls\ncase "$*" in {case}\nesac\n',
        f'PYTHONPATH={folder} exec {sys.executable} "$@"\n',
    )
    for name, text in zip(("maxk-lab", "python"), script):
        (folder / name).write_text(f"#!/bin/bash\n{text}")
        (folder / name).chmod(0o755)
    program = str(folder / "maxk-lab")
    (folder / "sitecustomize.py").write_text(REPORTS.format(program=program))
    command = ["make", "-o", ".venv/.installed", f"BIN={folder}", "RESULTS=there", "reproduce"]
    return subprocess.Popen(
        [*command, *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )


def calls(folder):
    path = folder / "calls"
    return sorted(path.read_text().splitlines()) if path.exists() else []


def planned(*runs, jobs):
    """The calls that check the formulas, run sweeps and write reports; a run is FOLDER/SWEEP."""
    calls = ["check"]
    for run in runs:
        results, _, name = run.rpartition("/")
        shift = f"--shift-seeds {results.partition('-')[2]} " if "-" in results else ""
        calls += [
            f"run ci/{name}.yaml --jobs {jobs} --retry-failed {shift}--results {results}",
            f"report {name} --results {results} --out {run}/report",
        ]
    return sorted(calls)


SEEDS = 'added to every seed, as in SEEDS="100 200"; got '
ALONE = planned("there/a", jobs=2)
# Sweeps run side by side with one worker each, and each shift has results of its own.
FOUR = planned(*(f"there/seeds-{shift}/{name}" for shift in (1, 20) for name in "ab"), jobs=1)
FAILED = """\
make reproduce: 2 failed
  there/seeds-20/b: the run did not finish well
  there/seeds-1/a: a claim was refuted, or cells failed
"""


@needs_make
@pytest.mark.parametrize(
    ("words", "fails", "expected", "lines"),
    [
        (["SWEEPS=ci/a.yaml"], "", ALONE, ["== maxk-lab report there/a\n", "every check passed"]),
        (
            ["SWEEPS=ci/a.yaml ci/b.yaml", "JOBS=2", "SEEDS=1 20"],
            "report*seeds-1/*a/report|run*b.yaml*seeds-20",
            FOUR,
            [FAILED],
        ),
        (["SEEDS=ten"], "", [], [f"{SEEDS}ten"]),
        (["SEEDS=100 -1"], "", [], [f"{SEEDS}-1"]),
        (["SEEDS=0"], "", [], [f"{SEEDS}0"]),
    ],
)
def test_the_sweeps_and_shifts_of_a_command(tmp_path, words, fails, expected, lines):
    with make(tmp_path, words, f"{fails or 'none'}) exit 1;;") as process:
        output = "".join(process.communicate(timeout=100))
    assert calls(tmp_path) == expected
    assert [line for line in lines if line not in output] == [], output
    assert process.returncode == (0 if "every check passed" in output else 2)


@needs_make
def test_control_c_stops_all_sweeps_and_says_how_to_go_on(tmp_path):
    waits = "run*) for i in {1..200}; do sleep 0.1; done;;"
    with make(tmp_path, ["JOBS=2", "SWEEPS=ci/a.yaml ci/b.yaml ci/c.yaml"], waits) as process:
        while len(calls(tmp_path)) < 3:
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=100)
    assert "interrupted; the same command continues" in errors
    assert process.returncode != 0
    assert not any("c.yaml" in call for call in calls(tmp_path))


def write_report(results, sweep, claim, verdict):
    folder = results / sweep / "report"
    folder.mkdir(parents=True)
    content = {"origin": {"name": sweep}, "claims": [{"name": claim, "verdict": verdict}]}
    (folder / "report.json").write_text(json.dumps(content))


PAGE = "# Above\n<!-- claims over seeds: begin -->\nold\n<!-- claims over seeds: end -->\nbelow\n"


def test_the_table_counts_the_verdicts_of_every_claim(tmp_path):
    low, high, page = tmp_path / "seeds-100", tmp_path / "seeds-1000", tmp_path / "page.md"
    write_report(low, "b", "two", "undecided")
    write_report(low, "a", "one", "supported")
    write_report(high, "b", "two", "refuted")
    page.write_text(PAGE, encoding="utf-8")
    for _ in range(2):  # the second table replaces the first
        claims_over_seeds.main([str(high), str(low), "--into", str(page)])
    lines = page.read_text(encoding="utf-8").splitlines()
    assert (lines[0], lines[-1], "old" in lines) == ("# Above", "below", False)
    assert [line for line in lines if line.startswith("|")] == [
        "| sweep | claim | 100 | 1000 | supported | undecided | refuted |",
        "| --- | --- | :-: | :-: | --: | --: | --: |",
        "| a | `one` | ● | – | 1 | 0 | 0 |",
        "| b | `two` | ○ | ✗ | 0 | 1 | 1 |",
        "| 2 claims |  |  |  | 1 | 1 | 1 |",
    ]
    page.write_text("# Above\n", encoding="utf-8")
    for arguments, message in (
        ([str(low), "--into", str(page)], "the page needs one line <!-- claims over seeds: begin"),
        ([str(tmp_path)], "holds no report with claims: run make reproduce first"),
    ):
        with pytest.raises(SystemExit, match=message):
            claims_over_seeds.main(arguments)
    assert page.read_text(encoding="utf-8") == "# Above\n"
