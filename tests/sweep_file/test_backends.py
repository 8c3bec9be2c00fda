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
from maxk_lab.sweep_file.backends import BACKENDS, slurm_seconds
from maxk_lab.sweep_file.load import load_spec


def parsed(backend: str, name: str, value: Any) -> Any:
    return BACKENDS.get(backend).settings.from_mapping({name: value}).model_dump()[name]


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("4:00:00", 14_400),
        ("4h", 14_400),
        ("90 min", 5_400),
        ("45:00", 2_700),
        ("1-12", 129_600),
        ("36h", 129_600),
        ("2-03:30", 185_400),
        ("1-00:00:00", 86_400),
    ],
)
def test_times_of_slurm(written: str, seconds: int) -> None:
    assert parsed("slurm", "time", written) == written
    assert slurm_seconds(written) == seconds


@pytest.mark.parametrize("written", [14_400, "30", "4:77:00", "soon", True, None, ["4h"], "1-2-3"])
def test_other_times_of_slurm_are_refused(written: Any) -> None:
    with pytest.raises(LabError, match="time must be a time such as"):
        parsed("slurm", "time", written)


@pytest.mark.parametrize(
    ("backend", "name", "written", "plain"),
    [
        ("slurm", "partition", "gpu,long", "gpu,long"),
        ("slurm", "signal", "2min", 120),
        ("slurm", "signal", 90, 90),
        ("slurm", "setup", "module load cuda", ["module load cuda"]),
        ("slurm", "setup", ["a", "b"], ["a", "b"]),
        ("slurm", "pack", "auto", "auto"),
        ("slurm", "pack", 20, 20),
        ("slurm", "options", {"reservation": "course"}, {"reservation": "course"}),
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
        ("partition", 3, "partition must be a text, got 3"),
        ("array", 0, "array must be at least 1, got 0"),
        ("signal", "soon", "signal must be a time of at most 65535 seconds, such as 120 or 2min"),
        ("signal", float("nan"), "signal must be a time of at most 65535 seconds"),
        ("setup", ["a\nb"], "setup must be a list of shell lines, each a text"),
        ("setup", 3, "setup must be a list of shell lines"),
        ("pack", 0, "pack must be auto or a whole number of at least 1, got 0"),
        ("pack", True, "pack must be auto or a whole number of at least 1, got True"),
        ("options", "x", "options must be a mapping of options of sbatch to values, got 'x'"),
        ("options", {"a b": 1}, "options has 'a b', which is no option of sbatch"),
        ("options", {"array": "1"}, "options has array, which a run sets itself; leave it out"),
        ("options", {"job_name": "x"}, "options has job_name, which a run sets itself"),
        ("options", {"no-requeue": True}, "options has no-requeue, which a run sets itself"),
        ("options", {"mem": [1]}, "options needs a number, a text, true or false for mem"),
        ("options", {"mem": "1\n2"}, "options needs a number, a text, true or false for mem"),
    ],
)
def test_what_is_wrong_with_a_parameter_is_told(name: str, written: Any, message: str) -> None:
    with pytest.raises(LabError) as caught:
        parsed("slurm", name, written)
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
