"""Code and places that lie in sweeps, results and folders: none is run, none leaks out."""

import shutil
import socket
import sys
from importlib.util import find_spec

import pytest
from launched import launching

SWEEP = """\
name: doors
seeds: [0]
environment:
  {name: toy_llm, vocab_size: 4, max_length: 3, prompt_length: 3, rewards: ["trapped.fn:reward"]}
gradient:
  instances: 2
  pool: 16
  grid: {estimator: maxk, baseline: [none, subloo], n: 4, k: 2}
tracking: {wandb: disabled}
"""
# Names that libraries try to import, installed or not, and some of the interpreter's own.
TRIED = [
    *("bottleneck", "numexpr", "sitecustomize", "usercustomize", "random"),
    *("json", "typing", "torch", "typer", "wandb"),
]
GROUPS = [
    *("baselines", "estimators", "environments", "policies"),
    *("tasks", "rewards", "gaussian_rewards"),
]
TRAP = """\
import pathlib
pathlib.Path({mark!r}).mkdir(exist_ok=True)
(pathlib.Path({mark!r}) / __name__).touch()
def reward(prompts, completions, **columns):
    return [0.0 for _ in completions]
row = reward
"""
SIBLINGS = """\
import typer

def reward(prompts, completions, **columns):
    import sibling
    sibling.CALLS.append(prompts)
    if len(sibling.CALLS) > 1:
        raise ValueError("no such place")
    return [0.0 for _ in completions]
"""
SECRET = "tok3n-in-the-command-line"
READING = [
    ["plan", "doors.yaml", "doors.yaml"],
    ["plan", "doors.yaml", "--cells"],
    ["show"],
    ["list", "baselines"],
    ["show", "doors"],
    ["report", "doors"],
    ["report", "doors", "--out", "written"],
    ["track", "doors"],
]


def set_traps(folder):
    """Fill a folder with code that leaves a mark when it runs; return the folder of the marks."""
    mark = folder.parent / f"{folder.name}-marks"
    for name in (*TRIED, "evil", "trapped/fn"):
        path = folder / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(TRAP.format(mark=str(mark)))
    rows = [f"[maxk_lab.{group}]\nx = evil:row\n" for group in GROUPS]
    package = folder / "x-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: x\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("".join(rows))
    (folder / "matplotlibrc").write_text("backend: module://evil\ntext.usetex: True\n")
    return mark


def marks(folder):
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def run_once(folder, stand_in, reward, *arguments, **env):
    """Run the sweep in a folder where its reward is this source; return what it prints."""
    (folder / "trapped").mkdir(parents=True, exist_ok=True)
    (folder / "trapped" / "fn.py").write_text(reward)
    (folder / "doors.yaml").write_text(SWEEP)
    with launching(folder, stand_in=stand_in) as launch:
        launched = launch("run", "doors.yaml", *arguments, env=env)
        launched.wait()
        assert "Traceback" not in launched.err
        return launched.err


@pytest.mark.deep
def test_reading_runs_nothing_that_lies_about(tmp_path, launch):
    quiet = "def reward(prompts, completions, **columns): ..."
    assert "2 measured" in run_once(tmp_path / "mine", "quick", quiet)
    folder = tmp_path / "somebody_elses"
    folder.mkdir()
    shutil.copytree(tmp_path / "mine" / "results", folder / "results")
    shutil.copy(tmp_path / "mine" / "doors.yaml", folder)
    mark = set_traps(folder)
    for verb in READING:
        launched = launch(*verb, folder=folder, limit=200)
        assert (launched.wait(), marks(mark)) == (0, set()), (verb, launched.err)
        assert "Traceback" not in launched.err


def test_a_run_takes_no_library_from_its_folder_and_its_records_tell_nothing_private(tmp_path):
    """The folder is open for what the sweep names, and what that imports; one cell fails."""
    folder = tmp_path / "ada" / "sweep"
    folder.mkdir(parents=True)
    mark = set_traps(folder)
    (folder / "sibling.py").write_text("CALLS = []")
    env = {"HOME": str(folder.parent), "USER": "ada-the-user", "WANDB_API_KEY": "k" * 40}
    text = run_once(folder, "rewarded", SIBLINGS, "--set", f"description={SECRET}", **env)
    assert "1 measured" in text
    assert "1 failed" in text
    # What is not installed is found in the folder once it is open; see SECURITY.md.
    assert marks(mark) <= {name for name in TRIED if not find_spec(name)}
    run = folder / "results" / "doors"
    private = [socket.gethostname(), "ada-the-user", str(tmp_path), sys.executable, "k" * 40]
    for path in (*run.glob("records/*"), run / "spec.yaml"):
        text = path.read_text("utf-8")
        assert [word for word in private if word in text] == []
        assert path.name == "spec.yaml" or SECRET not in text
