"""A fifth kind of study, registered by another package: one folder and one row suffice."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from maxk_lab.errors import SpecError
from maxk_lab.report import render, write_report
from maxk_lab.report.summarise import summarise
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.sweeps import RunDirectory, load_spec, make_plan
from maxk_lab.sweeps.plan.plan import select
from maxk_lab.sweeps.run.execute import execute
from maxk_lab.sweeps.spec.load import spec_to_yaml
from maxk_lab.sweeps.studies import STUDIES
from maxk_lab.tracking.payload import payloads

# As installed: a package, and the metadata whose entry points name its row.
SITE = Path(__file__).parent / "dice"
SWEEP = """\
name: games
seeds: [0, 1]
environment: {name: bandit}
vary: {environment.arms: [2, 4]}
dice:
  throws: 400
  grid: {estimator: [maxk, reinforce], baseline: none, n: [4, 8], k: [1, 2]}
weights:
  grid: {estimator: maxk, baseline: centred, n: 4, k: 2}
"""


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the package for one test; catalogues look their entry points up once."""
    monkeypatch.syspath_prepend(str(SITE))
    for catalogue in (STUDIES, MEASURES):
        catalogue.__dict__.pop("_rows", None)
    yield
    for catalogue in (STUDIES, MEASURES):
        catalogue.__dict__.pop("_rows", None)
    for name in [name for name in sys.modules if name.partition(".")[0] == "dice_study"]:
        del sys.modules[name]


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    path = tmp_path / "games.yaml"
    path.write_text(SWEEP, encoding="utf-8")
    return path


def test_a_sweep_file_may_have_its_block(sweep: Path, tmp_path: Path) -> None:
    assert STUDIES.names()[-1] == "dice"
    spec = load_spec(sweep)
    assert spec.dice.throws == 400
    assert list(spec.studies) == ["weights", "dice"]
    written = tmp_path / "written.yaml"
    written.write_text(spec_to_yaml(spec), encoding="utf-8")
    assert load_spec(written) == spec


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("dice.throw=3", "unknown key 'throw' (did you mean throws?)"),
        ("dice.throws=0", "must be at least 1, got 0"),
        ("dice.throws=1001", "nobody throws so often"),
        ("dice.dices=2", "is no word; write throws"),
        ("dice.grid.k=9", "none of its 2 points can run"),
        ("dice.grid.n=13", "13 dice are thrown by nobody"),
        ("dise={}", "unknown key 'dise' (did you mean dice?)"),
    ],
)
def test_its_mistakes_are_told_with_those_of_the_others(
    sweep: Path, override: str, problem: str
) -> None:
    estimator = "dice.grid.estimator=maxk"
    with pytest.raises(SpecError) as caught:
        load_spec(sweep, [estimator, override, "weights.groups=none"])
    said = [str(one) for one in caught.value.problems]
    assert len(said) == 2, said
    assert any(problem in one for one in said), said
    assert any("weights.groups: must be a whole number" in one for one in said), said


def test_it_is_planned_after_the_kinds_of_the_package(sweep: Path) -> None:
    plan = make_plan(load_spec(sweep))
    assert [cell.study for cell in plan.cells] == ["weights"] * 4 + ["dice"] * 4 * 6
    assert {cell.setting["environment.arms"] for cell in plan.cells} == {2, 4}
    # REINFORCE takes no K: asked for two, it is measured once.
    assert [str(skipped) for skipped in plan.skipped if skipped.study == "dice"] == [
        f"estimator=reinforce baseline=none n={n} k=2: "
        f"repeats estimator=reinforce baseline=none n={n} k=1"
        for n in (4, 8)
    ]
    assert len(select(plan, "study=dice,n=8")) == 12
    assert [sum(unit.work().values()) for unit in plan.units][-1] == 400.0


def test_its_cells_are_measured_and_its_failures_are_data(sweep: Path, tmp_path: Path) -> None:
    plan = make_plan(load_spec(sweep, ["dice.grid.n=[4, 7]", "dice.grid.estimator=maxk"]))
    run = RunDirectory(tmp_path / "results" / "games")
    outcome = execute(plan, run, only="study=dice", jobs=2)
    assert (len(outcome.done), len(outcome.failed)) == (8, 8)
    records = {record.cell["id"]: record for record in run.records(plan)}
    for cell in plan.cells:
        if cell.study == "dice" and cell.n == 4:
            assert 3 < records[cell.id].metrics["largest"] < 5
        elif cell.study == "dice":
            assert "7 dice roll off the table" in records[cell.id].error
    again = execute(plan, run, only="study=dice", retry_failed=False)
    assert (again.done, len(again.reused)) == ((), 8)
    assert run.spec() == plan.spec


CLAIMS = """\
claims:
- {name: one die, kind: equals, metric: largest, value: 3.5, tolerance: 0.5, where: {k: 1}}
- {name: two dice, kind: equals, metric: largest, value: 3.5, tolerance: 0.5, where: {k: 2}}
- {name: arithmetic, kind: equals, metric: largest, value: 2 + k + arms - arms, tolerance: 1}
"""


def test_its_report_and_its_verdicts_are_like_those_of_the_others(
    sweep: Path, tmp_path: Path
) -> None:
    sweep.write_text(SWEEP + CLAIMS, encoding="utf-8")
    plan = make_plan(load_spec(sweep, ["dice.grid.n=[4, 7]", "dice.grid.estimator=maxk"]))
    run = RunDirectory(tmp_path / "results" / "games")
    execute(plan, run, only="study=dice", jobs=2)
    summary = summarise(run, plan)
    assert [claim.verdict for claim in summary.claims] == ["undecided"] * 3
    assert "0 of 2 seeds finished" in summary.claims[0].detail
    assert summary.failed[0].path == "dice/arms=2/maxk/none/n7/k1"

    plan = make_plan(load_spec(sweep, ["dice.grid.estimator=maxk"]))
    execute(plan, run, only="study=dice", jobs=2)
    summary = summarise(run)
    verdicts = {claim.name: (claim.verdict, claim.detail) for claim in summary.claims}
    assert [verdict for verdict, _ in verdicts.values()] == ["supported", "refuted", "supported"]
    assert (
        "8 of 8 exact numbers, e.g. dice/arms=2/maxk/none/n4/k2 seed 0: " in verdicts["two dice"][1]
    )
    files = write_report(summary, tmp_path / "report", failed=pytest.fail)
    names = {str(path.relative_to(tmp_path / "report")) for path in files}
    assert {"report.md", "report.json", "figures/dice.png", "figures/dice.svg"} <= names
    markdown = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert "**Best** 4." in markdown
    assert "## Dice: bandit, maxk, none" in markdown
    assert "| 2 | 4 | 1 | 3." in markdown
    assert re.search(r"^Best +4\.", render(summary, "terminal"), re.MULTILINE)


def test_a_tracker_is_told_of_it(sweep: Path, tmp_path: Path) -> None:
    plan = make_plan(load_spec(sweep, ["dice.grid.n=[4, 7]", "dice.grid.estimator=maxk"]))
    run = RunDirectory(tmp_path / "results" / "games")
    execute(plan, run, only="study=dice", jobs=2)
    told = payloads("games", {}, run.records(plan))
    assert [payload.name for payload in told] == ["dice seed 0", "dice seed 1"]
    metrics = told[0].metrics
    assert (metrics["cells_done"], metrics["cells_failed"]) == (4, 4)
    assert metrics["dice/arms=2/maxk/none/n7/k1/status"] == "failed"
    assert 3 < metrics["dice/arms=2/maxk/none/n4/k1/largest"] < 4
    assert len(told[0].tables["cells"]) == 8
