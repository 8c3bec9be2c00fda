"""Cells are told apart by the content of what a sweep only names: code, plugins, weights."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from model_folders import stand_in_model
from own_code import REWARD, SWEEP, forget, install_plugin, planned

from maxk_lab.errors import LabError
from maxk_lab.planning.plan import Plan, make_plan
from maxk_lab.sweep_file.content import changed_since, check_content, source_files
from maxk_lab.sweep_file.load import read_spec, spec_to_yaml


def ids(plan: Plan) -> set[str]:
    return {cell.id for cell in plan.cells}


def test_the_code_of_a_reward_function_is_part_of_its_cells(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SWEEP % ("own_rewards:short", "centred")
    before = planned(text)
    (entry,) = before.spec.content.items()
    assert (entry[0], set(entry[1])) == ("own_rewards:short", {"sha256"})
    for cell in before.cells:
        assert cell.as_dict()["content"] == cell.unit.as_dict()["content"] == dict([entry])
    # Where it lies, what lies beside it, and ends of lines tell nothing.
    shutil.copytree(project, project.parent / "elsewhere")
    monkeypatch.chdir(project.parent / "elsewhere")
    Path("unrelated.py").write_text("changed = True")
    Path("own_rewards.py").write_bytes(REWARD.replace("\n", "\r\n").encode())
    assert ids(planned(text)) == ids(before)
    Path("helper.py").write_text("def zero():\n    return 1.0\n")
    assert not ids(planned(text)) & ids(before)
    assert "own_rewards" not in sys.modules
    # A resolved spec tells its cells where the code is not.
    Path("spec.yaml").write_text(spec_to_yaml(before.spec))
    for name in ("helper.py", "own_rewards.py"):
        Path(name).unlink()
    assert ids(make_plan(read_spec("spec.yaml"))) == ids(before)


def test_the_cells_of_what_is_our_own_have_no_content(project: Path) -> None:
    plan = planned(SWEEP % ("exact_match", "centred"))
    assert not plan.spec.content
    assert not any("content" in cell.as_dict() for cell in plan.cells)
    assert "content" not in spec_to_yaml(plan.spec)


def test_a_plugin_is_part_of_the_cells_that_use_it(project: Path, site: Path) -> None:
    def cells_by_baseline() -> dict[str, tuple[str, dict]]:
        forget()
        cells = planned(SWEEP % ("exact_match", "half")).cells
        return {one.baseline: (one.id, one.as_dict().get("content")) for one in cells}

    first = cells_by_baseline()
    assert first["none"][1] is None
    entry = first["half"][1]["baseline half"]
    assert (entry["package"], entry["version"]) == ("half-centred", "1.0")
    install_plugin(site, "1.1")
    second = cells_by_baseline()
    assert second["half"][1]["baseline half"] == entry | {"version": "1.1"}
    install_plugin(site, "1.1", "def half(): return 2\n")
    third = cells_by_baseline()
    assert third["half"][1]["baseline half"]["sha256"] != entry["sha256"]
    assert third["none"] == second["none"] == first["none"]
    assert len({cells["half"][0] for cells in (first, second, third)}) == 3


def test_a_model_is_told_by_its_files_wherever_it_lies(project: Path) -> None:
    pytest.importorskip("transformers")
    (project / "tiny").mkdir()
    stand_in_model(project / "tiny")
    text = SWEEP % ("exact_match", "centred")
    before = planned(text, **{"policy.pretrained": "tiny"})
    assert before.cells[0].as_dict()["content"].keys() == {"pretrained"}
    assert "pretrained" not in before.cells[0].as_dict()["policy"]
    assert before.units[0].as_dict()["policy"]["pretrained"] == "tiny"
    whole = planned(text, **{"policy.pretrained": str(project / "tiny")})
    assert ids(whole) == ids(before)
    assert str(project) not in spec_to_yaml(whole.spec)
    Path("spec.yaml").write_text(spec_to_yaml(whole.spec))
    assert ids(make_plan(read_spec("spec.yaml"))) == ids(whole)
    (project / "tiny" / "README.md").write_text("for people")
    assert ids(planned(text, **{"policy.pretrained": "tiny"})) == ids(before)
    (project / "tiny" / "config.json").write_text('{"a": 1}')
    assert not ids(planned(text, **{"policy.pretrained": "tiny"})) & ids(before)


def test_code_that_changes_after_the_plan_is_not_measured(project: Path) -> None:
    plan = planned(SWEEP % ("own_rewards:short", "centred"))
    unit = plan.units[0]
    cells = [cell.as_dict() for cell in unit.cells]
    check_content(unit.as_dict(), cells)
    assert changed_since(plan.spec) == []
    (project / "helper.py").write_text("def zero():\n    return 2.0\n")
    with pytest.raises(LabError, match="code of own_rewards:short changed while the run"):
        check_content(unit.as_dict(), cells)
    assert changed_since(plan.spec) == ["own_rewards:short"]
    for name in ("helper", "own_rewards"):
        (project / f"{name}.py").unlink()
    assert changed_since(plan.spec) == []


def written(project: Path, files: dict[str, str]) -> None:
    for name, code in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(code)


def test_folders_without_an_init_are_followed(project: Path) -> None:
    """A folder of results is no module of the package that has its name."""
    code = "import other.words, wandb\n\ndef short(): ...\n"
    written(project, {"parts/mine.py": code, "other/words.py": "A = 1\n", "wandb/run.py": ""})
    assert source_files(["parts.mine"]).keys() == {"parts/mine.py", "other/words.py"}


@pytest.mark.parametrize(
    "imports",
    ["from lib.h import x", "import lib", "from lib import h", "import own_rewards, lib.h as h"],
)
def test_what_a_module_imports_beside_it_is_its_source(project: Path, imports: str) -> None:
    """Of a package it is all, and what that imports in its turn; nothing is imported."""
    counted = {
        "lib/__init__.py": "",
        "lib/h.py": "from . import sub\nimport beyond, numpy, json\nx = 0\n",
        "lib/sub/h.py": "raise RuntimeError",
        "beyond.py": "def broken(",
        "own_rewards.py": f"try:\n    {imports}\nexcept ImportError:\n    import nowhere\n",
    }
    others = dict.fromkeys(("lib/sub/text.md", "own_rewards/data.py", "other.py"), "")
    written(project, counted | others)
    assert source_files(["own_rewards"]).keys() == counted.keys()
    assert source_files(["json", "maxk_lab.cli", "nowhere"]) == {}
