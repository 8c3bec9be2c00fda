"""The golden results: every record is sound and planned, and no number differs from its value."""

import re
import shutil

import golden
import golden_values
import pytest

from maxk_lab.execution.archive import find_run
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.load import load_spec

pytestmark = pytest.mark.slow
# The longest. Every measure and family of comparisons of theirs is also among those of the others.
LONG = {"cross_fit_tsp", "llm_bandit", "ordergrad_bandit", "pronounce", "tsp_sweep"}
LONG |= {"tsp_training_tuned", "tsp_tuning"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.deep] * (name in LONG)) for name in golden.SWEEPS],
)
def test_every_number_equals_its_frozen_value(name):
    problems, _ = golden_values.differences(name, golden_values.removed_lines())
    assert problems == []


@pytest.mark.parametrize("name", golden.SWEEPS)
def test_every_record_is_sound_and_planned_and_every_figure_linked(name):
    assert golden.sweep_file(name).is_file()
    run = find_run(golden.bundle_of(name))
    plan = make_plan(run.spec())
    assert {head.status for head in run.heads.values()} == {"done"}
    assert run.ids() == sorted(cell.id for cell in plan.cells)
    # A change of the sweep file, or of the code that it names, gives other cells.
    today = make_plan(load_spec(golden.sweep_file(name)))
    assert run.ids() == sorted(cell.id for cell in today.cells)
    # The frozen values of a run are computed from all of its records.
    records = [run.read(cell.id, cell) for cell in plan.cells[::7]]
    assert all(record is not None and record.content is not None for record in records)
    folder = golden.GOLDEN / name
    report = (folder / "report.md").read_text(encoding="utf-8")
    assert "AGAINST its derivation" not in report
    linked = set(re.findall(r"\]\((figures/[^)]+)\)", report))
    assert {path.relative_to(folder).as_posix() for path in folder.glob("figures/*")} == linked


def test_every_golden_result_is_of_a_golden_sweep():
    folders = {path.name for path in golden.GOLDEN.iterdir() if path.is_dir()}
    assert folders - {"calibration", "values"} == set(golden.SWEEPS)


def test_a_changed_or_lost_value_is_found(tmp_path, monkeypatch):
    name = "pkpo_figure1"
    shutil.copytree(golden_values.VALUES / name, tmp_path / name)
    monkeypatch.setattr(golden_values, "VALUES", tmp_path)
    path = tmp_path / name / "estimates.csv"
    frozen = path.read_text(encoding="utf-8")
    first, last = frozen.splitlines()[1], frozen.splitlines()[-1]
    *place, value, low, high = first.split(",")
    changed = ",".join([*place, str(float(value) * (1 + 2e-9)), low, high])
    lost = last.replace(",optimum_value,", ",gone,")
    path.write_text(frozen.replace(first, changed).replace(last, lost), encoding="utf-8")
    problems, _ = golden_values.differences(name, [])
    assert [problem.partition(":")[0] for problem in problems] == ["changed", "lost"]
    line = golden_values.Removed.read(f"{name} estimates measure=gone|old # it went")
    problems, used = golden_values.differences(name, [line])
    assert len(problems) == 1
    assert used == {0}
