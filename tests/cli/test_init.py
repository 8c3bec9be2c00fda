"""The front door: sweep files that travel with the package, the schema, and `python -m`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.load import load_spec
from maxk_lab.sweep_file.text import read_source

Lab = Callable[..., Result]
ROOT = Path(__file__).resolve().parents[2]
SWEEPS = sorted((ROOT / "maxk_lab" / "sweeps").glob("*.yaml"))


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_init_writes_a_sweep_that_can_be_planned(
    path: Path, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert lab("init", path.stem).stdout == f"Wrote {path.name}\n"
    assert lab("plan", path.name).exit_code == 0
    again = lab("init", path.stem)
    assert again.exit_code == 2
    assert f"{path.name} exists" in again.stderr


def test_quick_is_the_sweep_of_the_readme() -> None:
    ours, theirs = (
        [cell.id for cell in make_plan(load_spec(path)).cells]
        for path in (ROOT / "maxk_lab/sweeps/quick.yaml", ROOT / "experiments/quick.yaml")
    )
    assert ours == theirs


@pytest.mark.slow
def test_the_schema_accepts_every_sweep_and_names_a_mistake(lab: Lab) -> None:
    schema = json.loads(lab("list", "schema").stdout)
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for path in [*SWEEPS, *ROOT.glob("experiments/**/*.yaml")]:
        assert not [*validator.iter_errors(read_source(path).tree)], path
    tree = read_source(SWEEPS[0]).tree
    tree["gradient"]["poool"] = tree["gradient"].pop("pool")
    (error,) = validator.iter_errors(tree)
    assert "poool" in str(error)


@pytest.mark.slow
def test_the_package_is_a_program(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "maxk_lab", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.startswith("maxk-lab ")


@pytest.mark.slow
def test_a_shell_completes_verbs_options_and_choices() -> None:
    for words, completed in {
        "re": "recommend\nreport",
        "plan --c": "--cells",
        "list es": "estimators",
    }.items():
        line = f"maxk-lab {words}"
        shell = {"COMP_WORDS": line, "COMP_CWORD": str(len(words.split()))}
        env = os.environ | {"_MAXK_LAB_COMPLETE": "complete_bash"} | shell
        command = [sys.executable, "-m", "maxk_lab"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.stdout.strip() == completed
