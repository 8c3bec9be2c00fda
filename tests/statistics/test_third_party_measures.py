"""A measure of another package, a function and a row: recorded, shown, tracked and claimed."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# As installed: a module, and the metadata whose entry points name its rows.
SITE = Path(__file__).parent / "shop"
SWEEP = """\
name: shop
seeds: [0, 1]
environment: {name: bandit, arms: 3}
gradient:
  instances: 12
  pool: 64
  grid: {estimator: maxk, baseline: [none, centred], n: 4, k: 2}
weights:
  groups: 5
  grid: {estimator: maxk, baseline: centred, n: 4, k: 2}
figures:
  - {name: noise, metric: noise_share, against: k, lines: [baseline]}
claims:
  - {name: a_share, kind: equals, metric: noise_share, value: "0.5", tolerance: 0.6}
  - name: less_noise
    kind: ratio
    metric: largest_share
    of: {baseline: none}
    over: {baseline: centred}
    at_most: 100
  - {name: small, kind: equals, metric: weight_max, value: "0", tolerance: 10}
"""
SCRIPT = """
import json, sys
from pathlib import Path
from maxk_lab.reports.summarise import summarise
from maxk_lab.reports.write import write_report
from maxk_lab.execution.records import RunDirectory
from maxk_lab.sweep_file.load import load_spec
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.studies import STUDIES
from maxk_lab.execution.records import Record
from maxk_lab.tracking.payload import payloads

folder = Path(sys.argv[1])
plan = make_plan(load_spec(folder / "sweep.yaml"))
run = RunDirectory(folder / "shop")
run.write_spec(plan.spec)
for unit in plan.units:
    cells = {cell.id: cell.as_dict() for cell in unit.cells}
    measure = STUDIES.get(unit.study).part("work").measure
    found = measure(unit.as_dict(), list(cells.values()), cache=None, event=lambda *_: None)
    for cell, metrics in found:
        if isinstance(metrics, Exception):
            raise metrics
        run.write(Record(cells[cell], "done", metrics))
write_report(summarise(run, plan), folder / "report")
records = run.records(plan)
sent = [
    [payload.metrics, {name: list(table.columns) for name, table in payload.tables.items()}]
    for payload in payloads("shop", {}, records)
]
print(json.dumps({"records": [[r.cell["study"], r.metrics] for r in records], "sent": sent}))
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """The folder of the report, and the records and payloads of the sweep."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "sweep.yaml").write_text(SWEEP, encoding="utf-8")
    path = os.pathsep.join([str(SITE), *sys.path])
    made = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return folder / "report", json.loads(made.stdout)


OF_UNITS = ("largest_share", "agreeing")


@pytest.mark.slow
def test_a_record_holds_it(shop):
    _, told = shop
    for study, metrics in told["records"]:
        if study == "weights":
            assert metrics["weight_max"] == max(max(group) for group in metrics["weights"])
            continue
        share = metrics["variance"] / (metrics["variance"] + metrics["mean_square"])
        assert metrics["noise_share"] == pytest.approx(share)
        for name in OF_UNITS:
            assert len(metrics["measures"][name]) == len(metrics["units"]["m2"])
            values = [value for value in metrics["measures"][name] if value is not None]
            assert metrics[name] == pytest.approx(sum(values) / len(values))
            assert 0 < metrics[name] <= 1


@pytest.mark.slow
def test_it_is_a_column_in_every_format(shop):
    report, _ = shop
    markdown, latex = ((report / name).read_text() for name in ("report.md", "table.tex"))
    for heading in ("noise share", "largest share", "agreeing", "max"):
        assert f"| {heading} |" in markdown
        assert heading in latex
    assert "tr Cov ĝ / E‖ĝ‖²" in markdown
    with (report / "table.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    gradient = [row for row in rows if row["noise_share"]]
    assert len(gradient) == 2
    for row in gradient:
        for name in ("noise_share", *OF_UNITS):
            assert float(row[f"{name}_low"]) <= float(row[name]) <= float(row[f"{name}_high"])
    assert (report / "figures" / "noise.png").exists()


@pytest.mark.slow
def test_claims_may_name_it_and_a_tracker_is_told(shop):
    report, told = shop
    claims = json.loads((report / "report.json").read_text())["claims"]
    verdicts = {claim["name"]: claim["verdict"] for claim in claims}
    assert verdicts == dict.fromkeys(("a_share", "less_noise", "small"), "supported")
    names = {name for metrics, _ in told["sent"] for name in metrics}
    assert "weights/maxk/centred/n4/k2/weight_max" in names
    columns = {column for _, tables in told["sent"] for column in tables["cells"]}
    assert columns >= {"noise_share", "weight_max", *OF_UNITS}
