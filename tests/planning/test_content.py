"""The content of what a sweep only names is part of its cells: code, plugins, weights."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path

import pytest
from model_folders import stand_in_model
from own_code import REWARD, SWEEP, forget, install_plugin, planned
from typer.testing import CliRunner

from maxk_lab.cli import app
from maxk_lab.errors import LabError
from maxk_lab.execution.archive import write_bundle
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import Plan, make_plan
from maxk_lab.sweep_file.content import changed_since, check_content, source_files
from maxk_lab.sweep_file.load import read_spec, spec_to_yaml

OWN, MATCH = SWEEP % ("own_rewards:short", "centred"), SWEEP % ("exact_match", "centred")


def ids(plan: Plan) -> set[str]:
    return {cell.id for cell in plan.cells}


def test_the_code_of_a_reward_function_is_part_of_its_cells(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its place, its unrelated neighbours and its ends of lines are not."""
    before = planned(OWN)
    (entry,) = before.spec.content.items()
    assert (entry[0], set(entry[1])) == ("own_rewards:short", {"sha256"})
    for cell in before.cells:
        assert cell.as_dict()["content"] == cell.unit.as_dict()["content"] == dict([entry])
    shutil.copytree(project, project.parent / "elsewhere")
    monkeypatch.chdir(project.parent / "elsewhere")
    Path("unrelated.py").write_text("changed = True")
    Path("own_rewards.py").write_bytes(REWARD.replace("\n", "\r\n").encode())
    assert ids(planned(OWN)) == ids(before)
    Path("helper.py").write_text("def zero():\n    return 1.0\n")
    assert not ids(planned(OWN)) & ids(before)
    assert "own_rewards" not in sys.modules
    # A resolved spec has the cells without the code.
    Path("spec.yaml").write_text(spec_to_yaml(before.spec))
    for name in ("helper.py", "own_rewards.py"):
        Path(name).unlink()
    assert ids(make_plan(read_spec("spec.yaml"))) == ids(before)
    plan = planned(MATCH)
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


def test_a_model_is_identified_by_its_files(project: Path) -> None:
    pytest.importorskip("transformers")
    (project / "tiny").mkdir()
    stand_in_model(project / "tiny")
    before = planned(MATCH, **{"policy.pretrained": "tiny"})
    cell = before.cells[0].as_dict()
    assert (cell["content"].keys(), "pretrained" in cell["policy"]) == ({"pretrained"}, False)
    assert before.units[0].as_dict()["policy"]["pretrained"] == "tiny"
    absolute = planned(MATCH, **{"policy.pretrained": str(project / "tiny")})
    assert ids(absolute) == ids(before)
    resolved = spec_to_yaml(absolute.spec)
    assert str(project) not in resolved
    Path("spec.yaml").write_text(resolved)
    assert ids(make_plan(read_spec("spec.yaml"))) == ids(before)
    for name, text, same in (("README.md", "for people", True), ("config.json", "{}\n", False)):
        (project / "tiny" / name).write_text(text)
        assert (ids(planned(MATCH, **{"policy.pretrained": "tiny"})) == ids(before)) == same


def test_code_that_changes_after_the_plan_is_not_measured(project: Path) -> None:
    plan = planned(OWN)
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


IMPORTS = ["from lib.h import x", "import lib", "from lib import h", "import own_rewards, lib.h"]


@pytest.mark.parametrize("imports", IMPORTS)
def test_local_imports_of_a_module_are_its_source(project: Path, imports: str) -> None:
    """All of a package, also without an init, and what it imports; nothing is executed."""
    counted = {
        "lib/__init__.py": "",
        "lib/h.py": "from . import sub\nimport beyond, other.words, wandb, numpy, json\nx = 0\n",
        "lib/sub/h.py": "raise RuntimeError",
        "beyond.py": "def broken(",
        "other/words.py": "A = 1\n",
        "own_rewards.py": f"try:\n    {imports}\nexcept ImportError:\n    import nowhere\n",
    }
    # A folder of results is no module of the package that has its name.
    ignored = dict.fromkeys(("lib/sub/text.md", "own_rewards/data.py", "a.py", "wandb/run.py"), "")
    for name, code in (counted | ignored).items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(code)
    assert source_files(["own_rewards"]).keys() == counted.keys()
    assert source_files(["json", "maxk_lab.cli", "nowhere"]) == {}


NEEDED = "to read the run, install what it was measured with and is missing here: baseline half"


def test_every_verb_that_reads_names_the_missing_package(project: Path, site: Path) -> None:
    forget()
    run = RunDirectory(project / "results" / "named")
    run.root.mkdir(parents=True)
    run.write_spec(planned(SWEEP % ("exact_match", "half")).spec)
    folder, bundle = str(run.root), str(project / "named.zip")
    write_bundle(run, Path(bundle))
    # The reason of an installed package whose row is broken is a warning.
    (site / "half_package" / "rows.py").write_text("raise RuntimeError('no licence')\n")
    forget()
    with pytest.warns(UserWarning, match="no licence"), pytest.raises(LabError, match=NEEDED):
        run.spec()
    for about in site.glob("*.dist-info"):
        shutil.rmtree(about)
    importlib.invalidate_caches()
    forget()
    for verb in (
        ["bundle", folder],
        ["report", folder],
        ["report", bundle],
        ["compare", folder, bundle],
        ["show", folder],
        ["show", bundle],
    ):
        done = CliRunner().invoke(app, verb)
        text = " ".join(done.output.split())
        # `show` lists what it can of a run that cannot be read, with the problem.
        assert done.exit_code == (0 if verb[0] == "show" else 2), (verb, text)
        assert f"{NEEDED} (package half-centred 1.0)" in text, verb
        assert "did you mean" not in text, verb
