"""A fifth kind of study, registered by another package: one folder and one row suffice."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from maxk_lab.errors import SpecError
from maxk_lab.execution.execute import execute
from maxk_lab.execution.records import RunDirectory
from maxk_lab.planning.plan import make_plan, select
from maxk_lab.reports.formats.render import render
from maxk_lab.reports.summarise import summarise
from maxk_lab.reports.write import write_report
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.sweep_file.load import load_spec, spec_to_yaml
from maxk_lab.sweep_file.studies import STUDIES
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
claims:
- {name: one, kind: equals, metric: largest, value: 3.5, tolerance: .5, where: {k: 1, n: 4}}
- {name: two, kind: equals, metric: largest, value: 3.5, tolerance: .5, where: {k: 2, n: 4}}
- {name: sum, kind: equals, metric: largest, value: 2 + k + 0 * arms, tolerance: 1, where: {n: 4}}
- {name: all, kind: equals, metric: largest, value: 4, tolerance: 1}
"""


@pytest.fixture(autouse=True, scope="module")
def installed() -> Iterator[None]:
    """Install the package for these tests; catalogues look their entry points up once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SITE))
        for catalogue in (STUDIES, MEASURES):
            catalogue.__dict__.pop("_rows", None)
        yield
    for catalogue in (STUDIES, MEASURES):
        catalogue.__dict__.pop("_rows", None)
    for name in [name for name in sys.modules if name.partition(".")[0] == "dice_study"]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sweep") / "games.yaml"
    path.write_text(SWEEP, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def played(sweep: Path) -> RunDirectory:
    """A run in which seven dice roll off the table."""
    plan = make_plan(load_spec(sweep, ["dice.grid.n=[4, 7]", "dice.grid.estimator=maxk"]))
    run = RunDirectory(sweep.parent / "results" / "games")
    outcome = execute(plan, run, only="study=dice", jobs=2)
    assert (len(outcome.done), len(outcome.failed)) == (8, 8)
    return run


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


def test_its_cells_are_measured_and_its_failures_are_data(played: RunDirectory) -> None:
    plan = make_plan(played.spec())
    records = {record.cell["id"]: record for record in played.records(plan)}
    for cell in plan.cells:
        if cell.study == "dice" and cell.n == 4:
            assert 3 < records[cell.id].metrics["largest"] < 5
        elif cell.study == "dice":
            assert "7 dice roll off the table" in records[cell.id].error
    again = execute(plan, played, only="study=dice", retry_failed=False)
    assert (again.done, len(again.reused)) == ((), 8)
    assert played.spec() == plan.spec


def test_its_report_and_its_verdicts_are_like_those_of_the_others(
    played: RunDirectory, tmp_path: Path
) -> None:
    summary = summarise(played)
    verdicts = {claim.name: (claim.verdict, claim.detail) for claim in summary.claims}
    told = [verdict for verdict, _ in verdicts.values()]
    assert told == ["supported", "refuted", "supported", "undecided"]
    assert "4 of 4 exact numbers, e.g. dice/arms=2/maxk/none/n4/k2 seed 0: " in verdicts["two"][1]
    assert "0 of 2 seeds finished" in verdicts["all"][1]
    assert summary.failed[0].path == "dice/arms=2/maxk/none/n7/k1"
    files = write_report(summary, tmp_path, failed=pytest.fail)
    names = {str(path.relative_to(tmp_path)) for path in files}
    assert {"report.md", "report.json", "figures/dice.png", "figures/dice.svg"} <= names
    markdown = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "**Best** 4." in markdown
    assert "## Dice: bandit, maxk, none" in markdown
    assert re.search(r"^Best +4\.", render(summary, "terminal"), re.MULTILINE)


def test_a_tracker_is_told_of_it(played: RunDirectory) -> None:
    told = payloads("games", {}, played.records(make_plan(played.spec())))
    assert [payload.name for payload in told] == ["dice seed 0", "dice seed 1"]
    metrics = told[0].metrics
    assert (metrics["cells_done"], metrics["cells_failed"]) == (4, 4)
    assert metrics["dice/arms=2/maxk/none/n7/k1/status"] == "failed"
    assert 3 < metrics["dice/arms=2/maxk/none/n4/k1/largest"] < 4
    assert len(told[0].tables["cells"]) == 8
