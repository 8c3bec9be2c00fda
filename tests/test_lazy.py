"""Public names: each package exports them lazily, and a user's mypy knows their types."""

from __future__ import annotations

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
# Their stubs take mypy long, and no signature of the package needs more of them than a name.
HEAVY = "[mypy-torch.*,rl4co.*,numpy.*,scipy.*,pandas.*,tensordict.*,wandb.*,matplotlib.*]\n"


def mypy(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The complaints and notes of mypy about a user's script, without its path."""
    monkeypatch.setenv("MYPYPATH", str(PACKAGE.parent))
    (tmp_path / "user.py").write_text(script, encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\nfollow_imports = silent\nno_implicit_reexport = true\n"
        f"{HEAVY}follow_imports = skip\nignore_missing_imports = true\n",
        encoding="utf-8",
    )
    config, cache = tmp_path / "mypy.ini", tmp_path / "cache"
    arguments = ["--config-file", config, "--cache-dir", cache, "--no-error-summary"]
    found, broken, _ = api.run([*map(str, arguments), str(tmp_path / "user.py")])
    assert not broken, broken
    return [line.split(" ", 1)[1] for line in found.splitlines()]


@pytest.mark.slow
def test_mypy_reports_wrong_uses_and_knows_every_exported_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [(package, name) for package in EXPORTING for name in dir(import_module(package))]
    assert len(names) > 90
    imports = "".join(
        f"from {package} import {name} as name_{number}\n"
        for number, (package, name) in enumerate(names)
    )
    uses = [
        "from maxk_lab.estimators import Objective, advantages, advantage",
        "advantages([0.0, 1.0], estimator='maxk', baseline='centred', k='two')",
        "advantages([0.0, 1.0], estimators='maxk')",
        "Objective('max', 2).orderweights",
        *(f"reveal_type(name_{number})" for number in range(len(names))),
    ]
    said = mypy(imports + "\n".join(uses), tmp_path, monkeypatch)
    wrong = [line for line in said if line.startswith("error")]
    assert len(wrong) == 4, wrong
    assert 'has no attribute "advantage"; maybe "advantages"?' in wrong[0]
    assert 'incompatible type "str"; expected "int | None"' in wrong[1]
    assert 'Unexpected keyword argument "estimators" for "advantages"' in wrong[2]
    assert '"Objective" has no attribute "orderweights"' in wrong[3]
    types = [line for line in said if "Revealed type" in line]
    assert len(types) == len(names)
    unknown = [name for name, line in zip(names, types, strict=True) if 'is "Any"' in line]
    assert unknown == []


def test_importing_the_packages_imports_nothing_of_what_they_export() -> None:
    program = f"import sys, {', '.join(EXPORTING)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    loaded = set(done.stdout.decode().split())
    parents = {name.rsplit(".", depth)[0] for name in EXPORTING for depth in range(3)}
    ours = {name for name in loaded if name.startswith("maxk_lab")}
    assert ours == parents | {"maxk_lab.lazy"}
    assert "torch" not in loaded


@pytest.mark.parametrize("package", EXPORTING)
def test_a_package_has_its_names_and_no_others(package: str) -> None:
    exporting = import_module(package)
    assert dir(exporting) == exporting.__all__
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = exporting.nonsense
