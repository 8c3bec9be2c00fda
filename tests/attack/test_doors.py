"""Code, text and places that lie in sweeps, results and folders: none is run, none leaks out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from attack_figures import Figures
from launched import Launch, Launched

SWEEP = """\
name: doors
description: {description}
seeds: [0]
environment:
  {{name: toy_llm, vocab_size: 4, max_length: 3, prompt_length: 3, rewards: ["{reward}"]}}
gradient:
  instances: 2
  pool: 16
  grid: {{estimator: maxk, baseline: [none, subloo], n: 4, k: 2}}
tracking: {{wandb: disabled}}
"""
# Names that libraries try to import, installed or not, and some of the interpreter's own.
TRIED = [
    "bottleneck",
    "numexpr",
    "pyarrow",
    "cython",
    "scikits",
    "sksparse",
    "pydot",
    "sitecustomize",
    "usercustomize",
    "random",
    "pickle",
    "struct",
    "json",
    "typing",
    "site",
    "torch",
    "typer",
    "matplotlib",
    "wandb",
    "lxml",
    "tables",
    "xlrd",
]
GROUPS = [
    "baselines",
    "estimators",
    "environments",
    "policies",
    "measures",
    "studies",
    "formats",
    "tasks",
    "rewards",
    "gaussian_rewards",
]
TRAP = """\
import pathlib
pathlib.Path({mark!r}).mkdir(exist_ok=True)
(pathlib.Path({mark!r}) / __name__).touch()
def reward(prompts, completions, **columns):
    return [0.0 for _ in completions]
row = reward
"""
REWARD = """\
def reward(prompts, completions, **columns):
    return [len(text) for text in completions]
"""
SIBLINGS = """\
def reward(prompts, completions, **columns):
    import sibling
    return [sibling.VALUE * len(text) for text in completions]
"""
READING = [
    ["validate", "doors.yaml"],
    ["plan", "doors.yaml", "--cells"],
    ["run", "doors.yaml", "--dry-run"],
    ["list", "runs"],
    ["list", "baselines"],
    ["list", "rewards"],
    ["show", "doors"],
    ["report", "doors"],
    ["report", "doors", "--out", "written"],
    ["recommend", "doors.yaml", "--budget", "8"],
    ["track", "doors"],
    ["check", "--estimator", "maxk", "--baseline", "centred"],
]


def write_sweep(
    folder: Path, reward: str = "trapped.fn:reward", description: str = "plain"
) -> None:
    text = SWEEP.format(reward=reward, description=json.dumps(description))
    (folder / "doors.yaml").write_text(text, encoding="utf-8")


def set_traps(folder: Path) -> Path:
    """Fill a folder with code that leaves a mark when it runs; returns the folder of the marks."""
    mark = folder.parent / f"{folder.name}-marks"
    trap = TRAP.format(mark=str(mark))
    for name in (*TRIED, "evil"):
        (folder / f"{name}.py").write_text(trap, encoding="utf-8")
    (folder / "trapped").mkdir()
    for name in ("__init__", "fn"):
        (folder / "trapped" / f"{name}.py").write_text(trap, encoding="utf-8")
    package = folder / "x-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: x\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(
        "".join(f"[maxk_lab.{group}]\nx = evil:row\n" for group in GROUPS)
    )
    (folder / "matplotlibrc").write_text("backend: module://evil\ntext.usetex: True\n")
    return mark


def marks(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def ended(launched: Launched) -> tuple[int, str]:
    """The exit code and all that was said; never a traceback."""
    code, said = launched.wait(), launched.out + launched.err
    assert "Traceback" not in said, said
    return code, said


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a run of the sweep, whose reward was there when it ran."""
    folder = tmp_path_factory.mktemp("measured")
    write_sweep(folder)
    (folder / "trapped").mkdir()
    (folder / "trapped" / "fn.py").write_text(
        SIBLINGS.replace("sibling.VALUE", "1").replace("import sibling", "")
    )
    program = "from maxk_lab.cli import main\nif __name__ == '__main__':\n    main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "run", "doors.yaml"],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "results"


def test_reading_runs_nothing_that_lies_about(
    measured: Path, tmp_path: Path, launch: Launch, figures: Figures
) -> None:
    folder = tmp_path / "somebody_elses"
    folder.mkdir()
    shutil.copytree(measured, folder / "results")
    write_sweep(folder)
    mark = set_traps(folder)
    launched = [launch(*verb, folder=folder) for verb in READING]
    codes = {verb[0]: ended(one) for verb, one in zip(READING, launched, strict=True)}
    figures("code from data", commands=len(READING), ran=len(marks(mark)))
    assert marks(mark) == []
    assert {verb: code for verb, (code, _) in codes.items() if code} == {}, codes


def test_a_run_opens_the_folder_for_what_its_sweep_names_and_takes_no_library_from_it(
    tmp_path: Path, launch: Launch
) -> None:
    write_sweep(tmp_path, "fn:reward")
    mark = set_traps(tmp_path)
    (tmp_path / "fn.py").write_text(SIBLINGS)
    (tmp_path / "sibling.py").write_text("VALUE = 2")
    code, said = ended(launch("run", "doors.yaml"))
    # Libraries that are not installed are found in the folder once it is open; see SECURITY.md.
    assert set(marks(mark)) <= {name for name in TRIED if name not in sys.stdlib_module_names}
    assert "evil" not in marks(mark)
    assert code == 0, said
    (record, *_) = (tmp_path / "results" / "doors" / "cells").glob("*.json")
    assert json.loads(record.read_text())["status"] == "done"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import sys; sys.exit(0)", "importing bad raised SystemExit: 0"),
        ("raise GeneratorExit", "importing bad raised GeneratorExit: no message"),
        ("raise KeyboardInterrupt('mine')", "cannot load the reward function 'bad:reward': mine"),
        ("class Odd(BaseException): ...\nraise Odd('x')", "importing bad raised Odd: x"),
        ("import nowhere", "No module named 'nowhere'"),
        ("reward = print\nreward = type('R', (), {})", "must be a function"),
    ],
)
def test_a_module_that_breaks_at_its_import_fails_the_cells_and_says_so(
    tmp_path: Path, launch: Launch, source: str, reason: str
) -> None:
    write_sweep(tmp_path, "bad:reward")
    (tmp_path / "bad.py").write_text(f"def reward(): ...\n{source}\n")
    assert ended(launch("validate", "doors.yaml"))[0] == 0
    code, said = ended(launch("run", "doors.yaml"))
    assert code == 1
    assert "2 failed" in said
    assert reason in said
