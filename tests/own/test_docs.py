"""The examples of docs/your_own.md and howto/own_environment.md run; docs/files.md is current."""

import re
import shutil
import sys
from pathlib import Path

import fill
import pytest
from typer.testing import CliRunner

from maxk_lab.cli import app

pytestmark = pytest.mark.usefixtures("forked")
ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / name for name in ("your_own.md", "howto/own_environment.md")]
PAGE = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in ("mine", "prompts", "prompts.arithmetic", "tiny_model"):
        sys.modules.pop(name, None)


def said(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_python(folder):
    mine, *examples = BLOCKS
    (folder / "mine.py").write_text(mine)
    check = said("check", "mine:advantages", "--k", 2)
    assert check.exit_code == 1
    assert "biased" in check.output
    assert "give each sample a weight of its own" in check.output
    assert len(examples) == 3
    for example in examples:
        exec(compile(example, "your_own.md", "exec"), {})


def test_the_page_of_files_is_that_of_the_formats_that_are_read():
    template = fill.environment(ROOT / "docs/templates").get_template("files.md")
    assert template.render() == (ROOT / "docs/files.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_prompts_and_a_model_from_a_folder_of_one_s_own(folder):
    pytest.importorskip("transformers")
    shutil.copytree(ROOT / "examples/prompts", folder / "examples/prompts")
    shutil.copy(ROOT / "examples/own_prompts.yaml", folder / "examples")
    sys.path.insert(0, str(ROOT / "examples"))
    from tiny_model import write

    write("tiny")
    small = ("--set", "gradient.instances=4", "--set", "gradient.pool=32")
    run = said("run", "examples/own_prompts.yaml", *small, "--results", "results")
    assert run.exit_code == 0, run.output
    report = said("report", "own_prompts", "--results", "results")
    assert "language model" in report.output or "Use " in report.output
    assert "prompts.arithmetic:correct" in PAGE
