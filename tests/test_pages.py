"""README.md and the pages of docs/: their links lead somewhere, their commands and examples run."""

import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import reference
import yaml
from typer.testing import CliRunner

from maxk_lab.cli import app
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.load import load_spec
from maxk_lab.sweep_file.model import KEYS

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
TEMPLATES = ROOT / "docs/templates"
PAGES = [README, ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if TEMPLATES not in page.parents and "_build" not in page.parts]
LINK = re.compile(r"\]\(([^)\s]+)\)")
COMMAND = re.compile(r"^    (maxk-lab|make) (.+?)(?:\s+#.*)?$", re.MULTILINE)


def text(path):
    return path.read_text(encoding="utf-8")


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text(ROOT / page), re.MULTILINE | re.DOTALL)


def anchors(path):
    headings = re.findall(r"^#+ (.+)$", text(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_or_a_heading(page):
    without_code = re.sub(r"```.*?```|`[^`\n]*`", "", text(page), flags=re.DOTALL)
    broken = []
    for link in LINK.findall(without_code):
        name, _, anchor = link.partition("#")
        path = (page.parent / name).resolve() if name else page
        whole = path.exists() and (not anchor or anchor in anchors(path))
        broken += [] if whole or link.startswith("https://") else [link]
    assert broken == []


def test_every_key_of_a_sweep_file_has_a_meaning():
    rows = [line.split(" | ") for line in reference.keys().splitlines() if line[:3] == "| `"]
    assert [key for key, _, _, meaning, *_ in rows if not meaning.strip()] == []
    written = yaml.safe_load(KEYS.read_text(encoding="utf-8"))
    assert {key.strip("| `") for key, *_ in rows} == set(written)


def test_the_front_page_is_one_page_whose_commands_are_there():
    assert len(README.read_bytes()) <= 6000
    commands = COMMAND.findall(text(README))
    assert [words for program, words in commands if program == "make"] == ["reproduce", "test"]
    assert {"make reproduce", "make test"} <= set(text(ROOT / ".ci/run").splitlines())
    verbs = [words.split() for program, words in commands if program == "maxk-lab"]
    assert verbs[:2] == [["init"], ["run", "quick.yaml", "--jobs", "2"]]
    for verb, *words in verbs:
        said = CliRunner().invoke(app, [verb, "--help"], env={"COLUMNS": "200"})
        assert said.exit_code == 0
        assert all(word in said.output for word in words if word.startswith("--"))
        for word in words:
            written = ROOT / "maxk_lab/sweeps" / word  # by init
            assert not word.endswith(".yaml") or written.is_file() or (ROOT / word).is_file()


def sweep(block):
    """A whole sweep of a part of one."""
    if set(block) == {"evaluate"}:
        del block["evaluate"]["data"]  # a file of the reader's
        grid = {"estimator": "maxk", "baseline": "subloo", "n": 8, "k": 4}
        block = {"training": {"steps": 400, "batch": 64, "grid": grid, **block}}
    for study, needed in {
        "training": {"steps": 2, "batch": 64, "evaluate": {"instances": 4, "samples": 64}},
        "gradient": {"instances": 4, "pool": 64},
    }.items():
        if study in block:
            block[study] = needed | block[study]
    bandit = "environment.arms" in block.get("vary", {})
    environment = {"name": "bandit"} if bandit else {"name": "tsp", "num_loc": 5}
    return {"name": "part", "seeds": [0], "environment": environment} | block


@pytest.mark.parametrize(
    ("page", "number"), [*(("sweep_file", at) for at in range(4)), ("environments", 0)]
)
def test_the_sweeps_of_the_pages_are_valid(page, number, tmp_path):
    block = yaml.safe_load(blocks(f"docs/{page}.md", "yaml")[number])
    file = tmp_path / "part.yaml"
    file.write_text(yaml.safe_dump(sweep(block)), encoding="utf-8")
    spec = load_spec(file)
    plan = make_plan(spec)
    # Points that make no sense are left out without an error, and no method with them.
    methods = {
        (estimator, baseline)
        for grid in (spec.training.grid if "training" in block else ())
        for estimator in grid.estimator
        for baseline in grid.baseline
    }
    assert methods <= {(cell.estimator, cell.baseline) for cell in plan.cells}
    assert plan.cells


def test_the_environment_of_the_page_on_extending_passes_its_check():
    (code,) = (one for one in blocks("docs/extending.md", "python") if "make_environment" in one)
    exec(compile(code, "extending.md", "exec"), {})
    # Draws of a policy that is not the one of log_probs.
    wrong = code.replace("rollout(policy,", "rollout(environment.policy(9),")
    assert wrong != code
    with pytest.raises(AssertionError):
        exec(compile(wrong, "extending.md", "exec"), {})


def test_the_baseline_of_the_page_on_extending_passes_its_check(monkeypatch):
    from maxk_lab.estimators.catalogue import BASELINES, _chosen
    from maxk_lab.estimators.check.run import run_checks

    module = ModuleType("my_package.baselines")
    code = blocks("docs/extending.md", "python")[0]
    assert code.startswith("# my_package/baselines.py\n")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code, module.__name__, "exec"), vars(module))
    groups = tomllib.loads(blocks("docs/extending.md", "toml")[0])["project"]["entry-points"]
    name, _, attribute = groups["maxk_lab.baselines"]["half_centred"].partition(":")
    row = getattr(sys.modules[name], attribute)
    monkeypatch.setitem(BASELINES._rows, row.name, row)
    _chosen.cache_clear()
    results = run_checks(None, row.name)
    assert len(results) > 3
    assert [result for result in results if not result.ok] == []
    _chosen.cache_clear()
