"""The front door: sweep files that travel with the package, the schema, and `python -m`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from sweep_files import ids_of

from maxk_lab.sweep_file.text import read_source

ROOT = Path(__file__).resolve().parents[2]
SWEEPS = sorted((ROOT / "maxk_lab" / "sweeps").glob("*.yaml"))


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_init_writes_a_sweep_that_can_be_planned(path, lab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert lab("init", path.stem).stdout == f"Wrote {path.name}\n"
    assert lab("plan", path.name).exit_code == 0
    again = lab("init", path.stem)
    assert again.exit_code == 2
    assert f"{path.name} exists" in again.stderr
    if path.stem == "quick":  # also the sweep of the README
        assert ids_of(path.name) == ids_of(str(ROOT / "experiments/quick.yaml"))


@pytest.mark.slow
def test_the_schema_accepts_every_sweep_and_names_a_mistake(lab):
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
def test_the_package_is_a_program(tmp_path):
    command = [sys.executable, "-m", "maxk_lab", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.startswith("maxk-lab ")
