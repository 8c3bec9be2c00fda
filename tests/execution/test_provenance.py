"""Provenance: results in the checkout are no code, and no record names a folder of its machine."""

import subprocess
import traceback
from pathlib import Path

import yaml

from maxk_lab.execution.provenance import _git, without_places
from maxk_lab.sweep_file.vary import short_names


def test_only_code_makes_a_checkout_dirty(tmp_path):
    package, results = tmp_path / "maxk_lab", tmp_path / "results/golden/report.md"
    for path in (package / "__init__.py", package / "results/reading.py", results):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1\n")
    who = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "All")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    clean = _git(package)
    assert clean is not None
    for name, dirty in (
        ("results/golden/report.md", False),
        ("results/new/spec.yaml", False),
        ("maxk_lab/results/reading.py", True),
        ("maxk_lab/new.py", True),
        ("experiments/results/sweep.yaml", True),
        ("setup.py", True),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("2\n")
        assert _git(package) == clean | {"dirty": dirty}, name
        path.unlink()
        subprocess.run(["git", "checkout", "-q", "."], cwd=tmp_path, check=True)
    assert clean["dirty"] is False


def test_tracebacks_name_files_from_where_they_are_found(tmp_path, monkeypatch):
    try:
        yaml.safe_load("a: [")
    except yaml.YAMLError:
        text = without_places(traceback.format_exc())
    assert 'File "yaml/__init__.py", line' in text
    assert str(Path(yaml.__file__).parents[1]) not in text
    assert "expected the node content" in text
    home = tmp_path / "home" / "ada"
    (home / "work").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home / "work")
    text = without_places(f'File "{home}/work/fn.py", line 3\nno {home}/data.npz, no /usr/x')
    assert text == 'File "fn.py", line 3\nno ~/data.npz, no /usr/x'
    text = without_places("no /scratch/ada/x/data.npz; see https://a.org/b/c/d, /usr/lib/x/y.so")
    assert text == "no data.npz; see https://a.org/b/c/d, /usr/lib/x/y.so"
    monkeypatch.setattr("sys.path", ["", "/"])
    for nowhere in ("/", ""):
        monkeypatch.setenv("HOME", nowhere)
        assert without_places("1/2, /usr/x") == "1/2, /usr/x"


def test_paths_have_short_names_that_tell_them_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {
        str(tmp_path / "models" / "tiny"): "models/tiny",
        "../x": "../x",
        "/home/ada/a/last.ckpt": "a/last.ckpt",
        "/home/ada/b/last.ckpt": "b/last.ckpt",
        "/y/z": "z",
    }
    assert short_names(names) == names
