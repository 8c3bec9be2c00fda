"""The catalogue of backends: their parameters as a sweep file writes them, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maxk_lab.errors import LabError, SpecError
from maxk_lab.sweeps.backends import BACKENDS
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.execute import execute
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.load import load_spec
from maxk_lab.sweeps.spellings import slurm_seconds


def parsed(backend: str, name: str, value: Any) -> Any:
    parameter = BACKENDS.get(backend).parameter(name)
    assert parameter is not None
    return parameter.parse(value)


def test_local_ray_and_slurm_are_there() -> None:
    assert BACKENDS.names()[:3] == ("local", "ray", "slurm")
    assert [BACKENDS.get(name).extra for name in ("local", "ray", "slurm")] == ["", "ray", "slurm"]


@pytest.mark.parametrize("row", [*BACKENDS], ids=lambda row: row.name)
def test_what_a_parameter_has_read_it_reads_again(row: Any) -> None:
    for parameter in row.parameters:
        assert parameter.parse(parameter.default) == parameter.default
    assert row.parameter("no such") is None


@pytest.mark.parametrize(
    ("written", "slurm", "seconds"),
    [
        ("4:00:00", "4:00:00", 14_400),
        ("4h", "4:00:00", 14_400),
        ("90 min", "1:30:00", 5_400),
        ("45:00", "0:45:00", 2_700),
        ("1-12", "1-12:00:00", 129_600),
        ("36h", "1-12:00:00", 129_600),
        ("2-03:30", "2-03:30:00", 185_400),
        ("1-00:00:00", "1-00:00:00", 86_400),
        # Slurm counts in minutes.
        ("61s", "0:02:00", 120),
    ],
)
def test_times_of_slurm(written: str, slurm: str, seconds: int) -> None:
    assert parsed("slurm", "time", written) == slurm
    assert parsed("slurm", "time", slurm) == slurm
    assert slurm_seconds(slurm) == seconds


# 14400 is what YAML 1.1 makes of 4:00:00 without quotes.
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
        ("partition", "a b", "partition must be a text of one word, got 'a b'"),
        ("partition", "a\n#SBATCH", "partition must be a text of one word"),
        ("partition", 3, "partition must be a text of one word, got 3"),
        ("array", 0, "array must be at least 1, got 0"),
        ("signal", "soon", "signal must be a time of at most 65535 seconds, such as 120 or 2min"),
        ("signal", float("nan"), "signal must be a time of at most 65535 seconds"),
        ("setup", ["a\nb"], "setup must be a list of shell lines, each a text"),
        ("setup", 3, "setup must be a list of shell lines"),
        ("pack", 0, "pack must be auto or a whole number of at least 1, got 0"),
        ("pack", True, "pack must be auto or a whole number of at least 1, got True"),
        ("options", "x", "options must be a mapping of options of sbatch to values, got 'x'"),
        ("options", {"a b": 1}, "options has 'a b', which is no option of sbatch"),
        ("options", {"mem": [1]}, "options needs a number, a text, true or false for mem"),
        ("options", {"mem": "1\n2"}, "options needs a number, a text, true or false for mem"),
    ],
)
def test_what_is_wrong_with_a_parameter_is_told(name: str, written: Any, message: str) -> None:
    with pytest.raises(LabError) as caught:
        parsed("slurm", name, written)
    assert str(caught.value).startswith(message)


@pytest.mark.slow
def test_the_catalogue_imports_nothing_heavy() -> None:
    script = (
        "import sys; import maxk_lab.sweeps.backends; "
        "print([name for name in ('torch', 'ray', 'submitit', 'pandas') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.stdout == "[]\n", found.stderr


OWN = """\
from maxk_lab.catalogue import Parameter
from maxk_lab.sweeps.backends import BackendRow
from maxk_lab.sweeps.run.supervisor.local import LocalBackend

ROW = BackendRow(
    name="cellar", meaning="worker processes in the cellar",
    implementation="cellar:CellarBackend",
    parameters=(Parameter("depth", int, 1, low=0, high=9, meaning="floors"),),
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
    with pytest.raises(SpecError, match="depth must be at most 9, got 30"):
        load_spec(small, [*chosen, "execution.depth=30"])
    with pytest.raises(SpecError, match="depth: is of backend cellar, and this run's is local"):
        load_spec(small, ["execution.depth=3"])
