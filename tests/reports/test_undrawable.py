"""Figures of numbers that no logarithmic axis has a place for, and of those that nothing can."""

from __future__ import annotations

import math
import warnings

import altair as alt
import pytest
from compiled_charts import marks

from maxk_lab.reports.charts import Figure, Panel
from maxk_lab.reports.drawing import figures
from maxk_lab.reports.formats.render import rendered
from maxk_lab.reports.report import make_report
from maxk_lab.reports.write import write_report

pytestmark = pytest.mark.slow
CHANGES = {
    "no variance": lambda m2, square: square,
    "a negative variance": lambda m2, square: square - 0.5,
    "a variance of rounding": lambda m2, square: square + 1e-17,
    "a variance on both sides of 0": lambda m2, square: square + math.sin(1e6 * square),
    "the largest variance": lambda m2, square: 1e75,
    "a tiny variance": lambda m2, square: 5e-324,
}


def records_of(lab, cells, change):
    records = [lab.record(cell) for cell in cells]
    for record in records:
        units = record.metrics["units"]
        pairs = zip(units["m2"], units["mean_square"], strict=True)
        units["m2"] = [change(m2, square) for m2, square in pairs]
    return records


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("instances", [1, 8])
def test_every_figure_is_drawn(lab, change, instances):
    cells = lab.cells(
        baselines=("none", "centred"), ns=(8,), ks=(2,), seeds=(0,), instances=instances
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        summary = make_report(cells, records_of(lab, cells, CHANGES[change]), name="it")
        drawn = list(figures(summary))
        assert all(sum(marks(figure).values()) > 0 for figure in drawn)
        assert bool(drawn) == (change not in ("no variance", "a variance of rounding"))
        assert rendered(summary, "terminal")


def flat(content, value):
    """The same content with this value in place of every number."""
    if isinstance(content, list):
        return [flat(one, value) for one in content]
    return value


@pytest.mark.parametrize(("value", "seeds"), [(0.0, (0,)), (-3.0, (0, 1)), (1e75, (0,))])
def test_nor_do_other_kinds_need_numbers_that_differ(lab, value, seeds):
    """One method and nothing that varies, over one seed or two."""
    trained, curves, weighed = (
        lab.training_cells(points=[("maxk", "centred", 8, 8)], seeds=seeds),
        lab.objective_cells(ks=(2,), seeds=seeds),
        lab.weights_cells(baselines=("none",), ks=(2,), seeds=seeds),
    )
    records = [lab.training_record(cell) for cell in trained]
    for final in (record.metrics["final"] for record in records):
        final |= {key: flat(final[key], value) for key in ("value", "per_instance")}
    level = lab.curve(0.5) | {"values": [value] * 5}
    records += [lab.done(cell, level | {"optimum": None}) for cell in curves]
    group = {name: flat(found, value) for name, found in lab.weighed().items()}
    records += [lab.done(cell, group) for cell in weighed]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        summary = make_report([*trained, *curves, *weighed], records, name="it")
        names = set()
        for figure in figures(summary):
            names.add(figure.name)
            assert sum(marks(figure).values()) > 0
    assert {"objective", "effective_rewards", "max_at_k"} <= names


def broken(pooled, origin):
    """Yield a chart that cannot be drawn, then fail."""
    chart = alt.Chart(alt.Data(values=[{"x": 1}])).mark_point().encode(x="nothing:X")
    yield Figure("sad", "A sad figure", "", "", (Panel("", alt.layer(chart)),))
    raise KeyError("nothing")


def test_a_figure_that_fails_is_told_and_takes_nothing_with_it(lab, tmp_path, monkeypatch):
    monkeypatch.setattr("maxk_lab.studies.exact.charts.charts", broken)
    cells = lab.cells(baselines=("none", "centred"), ns=(8, 16), ks=(2,))
    summary = make_report(cells, map(lab.record, cells), name="it")
    told: list[str] = []
    paths = write_report(summary, tmp_path / "out", failed=told.append)
    assert told[:2] == [
        f"the figures of the {kind} study could not be drawn: KeyError: 'nothing'"
        for kind in ("objective", "weights")
    ]
    assert [line.partition(" could")[0] for line in told[2:]] == ["figure sad", "figure sad-2"]
    assert "variance.png" in [path.name for path in paths]
    text = (tmp_path / "out" / "report.md").read_text()
    assert "figure sad could not be drawn: " in text
    with pytest.raises(KeyError, match="nothing"):
        list(figures(summary))
