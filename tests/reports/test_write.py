"""The report folder: every file asked for, figures that say what they show, the same bytes."""

import json

import pytest

from maxk_lab.errors import LabError
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import make_plan
from maxk_lab.reports.report import read_report
from maxk_lab.reports.write import write_report
from maxk_lab.sweep_file.load import load_spec

pytestmark = pytest.mark.slow

SWEEP = """
name: small
seeds: [0, 1]
environment: {name: tsp, num_loc: 20}
gradient:
  pool: 64
  grid: {estimator: maxk, baseline: [none, centred, group_mean], n: 8, k: 2}
claims:
  - name: shrinks
    kind: equals
    metric: scale
    where: {baseline: group_mean}
    value: 1 - k/n
    tolerance: 0.05
"""


@pytest.fixture(scope="module")
def summary(lab, tmp_path_factory):
    """The summary of a finished run on disk."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "sweep.yaml").write_text(SWEEP)
    spec = load_spec(folder / "sweep.yaml")
    directory = RunDirectory(folder / "small")
    directory.write_spec(spec)
    for cell in make_plan(spec).cells:
        directory.write(lab.record(cell.as_dict()))
    return read_report(directory)


def test_the_folder(summary, tmp_path):
    paths = write_report(summary, tmp_path, failed=pytest.fail)
    names = [path.relative_to(tmp_path).as_posix() for path in paths]
    assert names[:5] == ["report.md", "report.html", "table.csv", "report.json", "table.tex"]
    pictures = [
        f"figures/{name}.{kind}" for name in ("variance", "snr") for kind in ("png", "svg", "pdf")
    ]
    assert names[5:] == pictures
    assert all(path.stat().st_size > 300 for path in paths)
    text = (tmp_path / "report.md").read_text()
    assert all(f"]({name})" in text for name in pictures if name.endswith("png"))
    assert json.loads((tmp_path / "report.json").read_text())["claims"][0]["verdict"] == "supported"
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(paths)


@pytest.mark.parametrize("format", ["terminal", "pdf"])
def test_a_format_that_is_no_file_writes_nothing(summary, tmp_path, format):
    with pytest.raises(LabError, match=format):
        write_report(summary, tmp_path, ["csv", format])
    assert list(tmp_path.iterdir()) == []
