"""Figures of numbers that have no place on a logarithmic axis, and figures that fail."""

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


def drawn(cells, records):
    """Return the names of all figures of a report; each of them has marks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = make_report(cells, records, name="it")
        names = set()
        for figure in figures(report):
            names.add(figure.name)
            assert sum(marks(figure).values()) > 0
        assert rendered(report, "terminal")
    return names


@pytest.mark.parametrize(
    ("instances", "change", "has_figures"),
    [
        pytest.param(8, lambda square: square, False, id="no variance"),
        pytest.param(1, lambda square: square - 0.5, True, id="a negative variance"),
        pytest.param(8, lambda square: square - 0.5, True, id="negative variances"),
        pytest.param(1, lambda square: square + 1e-17, False, id="a variance of rounding"),
        pytest.param(
            8, lambda square: square + math.sin(1e6 * square), True, id="variances around 0"
        ),
        pytest.param(1, lambda square: 1e75, True, id="a huge variance"),
        pytest.param(8, lambda square: 1e75, True, id="huge variances"),
        pytest.param(8, lambda square: 5e-324, True, id="tiny variances"),
    ],
)
def test_every_figure_is_drawn(lab, instances, change, has_figures):
    methods = {"baselines": ("none", "centred"), "ns": (8,), "ks": (2,)}
    cells = lab.cells(**methods, seeds=(0,), instances=instances)
    records = [lab.record(cell) for cell in cells]
    for units in (record.metrics["units"] for record in records):
        units["m2"] = [change(square) for square in units["mean_square"]]
    assert bool(drawn(cells, records)) == has_figures


def flat(content, value):
    """Return the same lists with this value in place of every number."""
    return [flat(item, value) for item in content] if isinstance(content, list) else value


@pytest.mark.parametrize(("value", "seeds"), [(0.0, (0,)), (-3.0, (0, 1)), (1e75, (0,))])
def test_equal_numbers_of_one_method_are_drawn(lab, value, seeds):
    trained = lab.training_cells(points=[("maxk", "centred", 8, 8)], seeds=seeds)
    curves = lab.objective_cells(ks=(2,), seeds=seeds)
    weighed = lab.weights_cells(baselines=("none",), ks=(2,), seeds=seeds)
    records = [lab.training_record(cell) for cell in trained]
    for final in (record.metrics["final"] for record in records):
        final |= {name: flat(final[name], value) for name in ("value", "per_instance")}
    level = lab.curve(0.5) | {"values": [value] * 5, "optimum": None}
    group = {name: flat(numbers, value) for name, numbers in lab.weighed().items()}
    records += [lab.done(cell, level) for cell in curves]
    records += [lab.done(cell, group) for cell in weighed]
    names = drawn([*trained, *curves, *weighed], records)
    assert {"objective", "effective_rewards", "max_at_k"} <= names


def broken(pooled, origin):
    """Yield a chart that cannot be drawn, then fail."""
    chart = alt.Chart(alt.Data(values=[{"x": 1}])).mark_point().encode(x="nothing:X")
    yield Figure("sad", "A sad figure", "", "", (Panel("", alt.layer(chart)),))
    raise KeyError("nothing")


def test_a_figure_that_fails_is_named_and_all_others_are_drawn(lab, tmp_path, monkeypatch):
    monkeypatch.setattr("maxk_lab.studies.exact.charts.charts", broken)
    cells = lab.cells(baselines=("none", "centred"), ns=(8,), ks=(2,))
    report = make_report(cells, map(lab.record, cells), name="it")
    failures = []
    paths = write_report(report, tmp_path, ["markdown"], failed=failures.append)
    assert failures[:2] == [
        f"the figures of the {kind} study could not be drawn: KeyError: 'nothing'"
        for kind in ("objective", "weights")
    ]
    assert [line.partition(" could")[0] for line in failures[2:]] == ["figure sad", "figure sad-2"]
    assert "variance.png" in [path.name for path in paths]
    assert "figure sad could not be drawn: " in (tmp_path / "report.md").read_text()
    with pytest.raises(KeyError, match="nothing"):
        list(figures(report))
