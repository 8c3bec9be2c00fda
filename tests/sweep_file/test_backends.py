"""The catalogue of backends: their parameters as a sweep file writes them, and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maxk_lab.errors import LabError, SpecError
from maxk_lab.execution.execute import execute
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.backends import BACKENDS
from maxk_lab.sweep_file.load import load_spec


def parsed(backend: str, name: str, value: Any) -> Any:
    return BACKENDS.get(backend).settings.from_mapping({name: value}).model_dump()[name]


@pytest.mark.parametrize(
    ("backend", "name", "written", "plain"),
    [
        ("ray", "address", "head:6379", "head:6379"),
        ("ray", "slots", 4, 4),
    ],
)
def test_parameters_are_read(backend: str, name: str, written: Any, plain: Any) -> None:
    assert parsed(backend, name, written) == plain
    assert parsed(backend, name, plain) == plain


@pytest.mark.parametrize(
    ("name", "written", "message"),
    [
        ("slots", -1, "slots must be at least 0, got -1"),
        ("address", "a b", "address must be a text of one word, got 'a b'"),
        ("address", "ray://head:1", "address is for a machine of the cluster, auto or host:port"),
    ],
)
def test_what_is_wrong_with_a_parameter_is_told(name: str, written: Any, message: str) -> None:
    with pytest.raises(LabError) as caught:
        parsed("ray", name, written)
    assert str(caught.value).startswith(message)


OWN = """\
from maxk_lab.settings import Settings, number
from maxk_lab.sweep_file.backends import BackendRow
from maxk_lab.execution.supervisor.local import LocalBackend

class CellarSettings(Settings):
    depth: int = number(1, "floors", low=0, high=9)

ROW = BackendRow(
    name="cellar", meaning="worker processes in the cellar",
    implementation="cellar:CellarBackend",
    settings=CellarSettings,
)


class CellarBackend(LocalBackend):
    depths = []

    def __init__(self, run, execution, jobs, tasks):
        self.depths.append(execution.parameters["depth"])
        super().__init__(run, execution, jobs, tasks)
"""


@pytest.fixture
def cellar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Installs a package with a backend of its own."""
    metadata = tmp_path / "site" / "cellar-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: cellar\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[maxk_lab.backends]\ncellar = cellar:ROW\n")
    (tmp_path / "site" / "cellar.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    BACKENDS.__dict__.pop("_rows", None)
    yield
    BACKENDS.__dict__.pop("_rows", None)
    sys.modules.pop("cellar", None)


@pytest.mark.slow
@pytest.mark.usefixtures("cellar")
def test_a_backend_of_another_package_measures_a_sweep(small: str, tmp_path: Path) -> None:
    chosen = ["execution.backend=cellar", "execution.depth=3", "seeds=[0]"]
    spec = load_spec(small, chosen)
    run = RunDirectory(tmp_path / "run")
    assert len(execute(make_plan(spec), run).done) == 4
    assert sys.modules["cellar"].CellarBackend.depths == [3]
    with pytest.raises(SpecError, match=r"execution\.depth: must be at most 9, got 30"):
        load_spec(small, [*chosen, "execution.depth=30"])
    with pytest.raises(SpecError, match="depth: is of backend cellar, and this run's is local"):
        load_spec(small, ["execution.depth=3"])
