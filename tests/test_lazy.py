"""Public names: each package exports them lazily, and a user's mypy knows their types."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from mypy import api

PACKAGE = Path(__file__).parents[1] / "maxk_lab"
EXPORTING = sorted(
    ".".join(("maxk_lab", *init.parent.relative_to(PACKAGE).parts))
    for init in PACKAGE.rglob("__init__.py")
    if "lazy_exports" in init.read_text(encoding="utf-8")
)
# The stubs of others take mypy long, and no signature of the package needs more than a name.
CONFIG = """\
[mypy]
follow_imports = silent
no_implicit_reexport = true
[mypy-torch.*,rl4co.*,numpy.*,scipy.*,pandas.*,tensordict.*,wandb.*,matplotlib.*]
follow_imports = skip
ignore_missing_imports = true
"""
# Uses that mypy refuses, and what it says of them.
WRONG = {
    "advantages([0.0], estimator='maxk', baseline='centred', k='two')": 'expected "int | None"',
    "advantages([0.0], estimators='maxk')": 'Unexpected keyword argument "estimators"',
    "Objective('max', 2).orderweights": '"Objective" has no attribute "orderweights"',
    "from maxk_lab.estimators import advantage": 'attribute "advantage"; maybe "advantages"?',
}


@pytest.mark.slow
@pytest.mark.deep
def test_mypy_reports_wrong_uses_and_knows_every_exported_name(tmp_path, monkeypatch):
    names = [(package, name) for package in EXPORTING for name in dir(import_module(package))]
    assert len(names) > 50
    script = ["from maxk_lab.estimators import Objective, advantages", *WRONG]
    for number, (package, name) in enumerate(names):
        script += [f"from {package} import {name} as n{number}", f"reveal_type(n{number})"]
    (tmp_path / "user.py").write_text("\n".join(script), encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(CONFIG, encoding="utf-8")
    monkeypatch.setenv("MYPYPATH", str(PACKAGE.parent))
    # What mypy found out of the package in an earlier run stays true until a file changes.
    cache = PACKAGE.parent / ".mypy_cache" / "user"
    config = ["--config-file", str(tmp_path / "mypy.ini"), "--cache-dir", str(cache)]
    said, broken, _ = api.run([*config, "--no-error-summary", str(tmp_path / "user.py")])
    assert not broken
    wrong = [line for line in said.splitlines() if ": error:" in line]
    assert len(wrong) == len(WRONG), wrong
    assert all(words in line for line, words in zip(wrong, WRONG.values(), strict=True))
    types = [line for line in said.splitlines() if "Revealed type" in line]
    assert [name for name, line in zip(names, types, strict=True) if 'is "Any"' in line] == []


def modules_after(code):
    """The modules of a process after this code."""
    program = [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"]
    return set(subprocess.run(program, check=True, capture_output=True, text=True).stdout.split())


def test_importing_the_packages_imports_nothing_of_what_they_export():
    loaded = modules_after(f"import {', '.join(EXPORTING)}")
    parents = {name.rsplit(".", depth)[0] for name in EXPORTING for depth in range(3)}
    ours = {name for name in loaded if name.startswith("maxk_lab")}
    assert ours == parents | {"maxk_lab.lazy"}
    assert "torch" not in loaded


@pytest.mark.parametrize("package", EXPORTING)
def test_a_package_has_its_names_and_no_others(package):
    exporting = import_module(package)
    assert dir(exporting) == exporting.__all__
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = exporting.nonsense


def test_advantages_import_torch_and_numpy_and_nothing_for_sweeps_or_reports():
    """Also with the adapters, which run beside a trainer."""
    loaded = modules_after(
        "from maxk_lab import advantages; advantages([1.0, 0.0], k=1); "
        "from maxk_lab.adapters import grouped_advantages; "
        "grouped_advantages([1.0, 2.0, 3.0], [0, 0, 0], k=2)"
    )
    assert {"torch", "numpy"} <= loaded
    heavy = {"altair", "lightning", "omegaconf", "pandas", "rich", "rl4co", "scipy", "transformers"}
    assert not (heavy | {"typer", "wandb", "yaml"}) & loaded
