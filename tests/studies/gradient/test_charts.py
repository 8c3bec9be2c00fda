"""The charts of gradients: as many marks as rows, best first, biased ones marked."""

from collections import Counter

import pytest
from compiled_charts import marks
from compiled_charts import rows as rows_of

from maxk_lab.report.summarise import summarise_records
from maxk_lab.studies.gradient import charts
from maxk_lab.studies.gradient.charts import estimates
from maxk_lab.studies.gradient.charts.declared import declared_chart
from maxk_lab.sweeps.spec.figures import Figure as Declared

BASELINES = ("none", "group_mean", "centred", "sample_loo", "pkpo_sloo", "subloo")
NOISE = {"none": 30.0, "group_mean": 1.0, "sample_loo": 3000.0, "pkpo_sloo": 9.0}
ALL = ("heat_map", "anatomy")


@pytest.fixture(scope="module")
def summary(lab):
    """Six baselines at two n, two K and two stages; one of them lost a seed at n = 16, K = 4."""
    cells = lab.cells(baselines=BASELINES, ns=(8, 16), ks=(2, 4), stages=(0, 200))
    records = [
        lab.record(
            cell,
            noise=NOISE.get(cell["baseline"], 2.0 + (cell["baseline"] == "subloo")),
            status="failed"
            if (cell["baseline"], cell["n"], cell["k"], cell["seed"]) == ("pkpo_sloo", 16, 4, 1)
            else "done",
        )
        for cell in cells
    ]
    return summarise_records(cells, records, name="it")


@pytest.fixture(scope="module")
def drawn(summary):
    """Every chart by its name."""
    found = charts.charts(summary.studies["gradient"], summary, ALL)
    return {figure.name: figure for figure in found}


def values(summary, measure):
    """The values of a measure of every row that has one, by its path."""
    found = estimates(summary.studies["gradient"].rows)
    found = found[found.measure == measure]
    return dict(zip(found.row, found.value, strict=True))


@pytest.mark.parametrize(("name", "measure"), [("variance", "over_lowest"), ("snr", "snr")])
def test_a_chart_has_a_mark_with_a_bar_for_every_row(summary, drawn, name, measure):
    data, wanted = rows_of(drawn[name].whole), values(summary, measure)
    assert {row["row"]: row["value"] for row in data} == pytest.approx(wanted)
    open_ends, stars = (sum(bool(row[end]) for row in data) for end in ("open", "best"))
    found = marks(drawn[name].whole)
    assert found["symbol"] == len(data) + open_ends
    bars = sum(row["lo"] is not None for row in data)
    # One line at the lowest in each of four panels, and the stars of what is significantly lowest.
    compared = name == "variance"
    assert found["rule"] == bars + (4 if compared else 0)
    assert found["text"] == (stars if compared else 0)
    assert stars > 0
    assert all(row["solid"] == (row["baseline"] != "group_mean") for row in data)


def test_the_lowest_is_1_and_the_biased_stand_last(summary, drawn):
    lowest = [row for row in rows_of(drawn["variance"].whole) if row["value"] == 1]
    assert {row["baseline"] for row in lowest} == {"centred"}
    # A lowest among baselines of which one is unfinished is not known.
    places = Counter((row["n"], row["k"], row["stage"]) for row in lowest)
    assert set(places.values()) == {1}
    assert not {place for place in places if place[:2] == (16, 4)}
    for name, last in (("variance", "sample_loo"), ("snr", "sample_loo")):
        for part in drawn[name].whole["vconcat"]:
            layers = [one for one in part["spec"]["layer"] if "y" in one["encoding"]]
            (order,) = {tuple(one["encoding"]["y"]["sort"]) for one in layers}
            assert order[0] == "centred"
            assert order[-2:] == (last, "group_mean (biased)")


def test_the_bias_is_shown_of_the_biased_in_length_and_direction(drawn):
    data = rows_of(drawn["bias"].whole)
    assert {row["baseline"] for row in data} == {"group_mean"}
    assert Counter(row["measure"] for row in data) == {"scale": 8, "cosine": 8}
    open_ends = sum(row["open"] != 0 for row in data)
    assert marks(drawn["bias"].whole)["symbol"] == 16 + open_ends
    assert "38 rows of methods that are unbiased by derivation" in drawn["bias"].caption


def test_the_anatomy_adds_up(lab):
    cells = lab.cells(baselines=BASELINES, ns=(8, 16), ks=(2,))
    summary = summarise_records(cells, [lab.record(c, make=lab.measured) for c in cells], name="it")
    found = charts.anatomy(estimates(summary.studies["gradient"].rows))
    totals = Counter()
    for row in rows_of(found.whole):
        assert row["n"] == 16
        totals[row["row"]] += row["value"]
    assert list(totals.values()) == pytest.approx([100.0] * len(BASELINES))
    assert marks(found.whole)["rect"] == 4 * len(BASELINES)


def test_places_and_n_beyond_are_said_or_left_out(lab):
    cells = lab.vary(
        lab.cells(baselines=("none", "centred"), ns=(4, 6, 8, 12, 16, 24, 32), ks=(2,), seeds=(0,)),
        "environment.arms",
        range(2, 10),
    )
    summary = summarise_records(cells, map(lab.record, cells), name="many")
    figure = next(charts.charts(summary.studies["gradient"], summary))
    data = rows_of(figure.whole)
    assert "The first 6 of 8 settings." in figure.caption
    assert {row["panel"] for row in data} == {f"K = 2, arms {arms}" for arms in range(2, 8)}
    shown = {row["n"] for row in data}
    assert len(shown) == 5
    assert {4, 32} < shown


@pytest.fixture(scope="module")
def varied(lab):
    """The estimates of two settings."""
    cells = lab.vary(
        lab.cells(baselines=("none", "centred", "group_mean"), ns=(8, 16, 32), ks=(2, 4)),
        "environment.arms",
        (4, 9),
    )
    summary = summarise_records(cells, map(lab.record, cells), name="it")
    return estimates(summary.studies["gradient"].rows)


def test_a_declared_chart_has_a_line_per_combination(varied):
    declared = Declared(
        name="it", metric="variance", against="n", lines=("baseline", "environment.arms"),
        panels="k", scale="log",
    )  # fmt: skip
    figure = declared_chart(varied, declared)
    data = rows_of(figure.whole)
    assert len(data) == len(varied[varied.measure == "variance"]) == 36
    assert list(dict.fromkeys(row["panel"] for row in data)) == ["K = 2", "K = 4"]
    lines = {row["line"] for row in data}
    assert lines == {f"{b}, arms = {a}" for b in ("none", "centred", "group_mean") for a in (4, 9)}
    assert {row["line"][:10] for row in data if row["broken"]} == {"group_mean"}
    assert marks(figure.whole) == {"symbol": 36, "rule": 36, "line": 36}


def test_of_many_lines_those_of_an_axis_have_panels_of_their_own(varied, monkeypatch):
    monkeypatch.setattr("maxk_lab.studies.gradient.charts.declared.LINES", 4)
    lines = ("baseline", "environment.arms")
    declared = Declared(name="it", metric="variance", against="n", lines=lines, panels="k")
    data = rows_of(declared_chart(varied, declared).whole)
    assert {row["panel"] for row in data} == {
        f"arms = {a}, K = {k}" for a in (4, 9) for k in (2, 4)
    }
    assert {row["look"] for row in data} == {"none", "centred", "group_mean"}


def test_a_bias_that_is_proven_to_be_none_stands_hollow_at_the_lower_edge(lab):
    """Its value is rounding, twenty powers of ten below the others."""
    cells = lab.cells(baselines=("centred", "group_mean"), ns=(8, 16), ks=(2,))
    how = {"centred": {"off": 1e-14}, "group_mean": {"off": 0.5}}
    records = [lab.record(cell, make=lab.exact, **how[cell["baseline"]]) for cell in cells]
    summary = summarise_records(cells, records, name="it")
    declared = Declared(name="it", metric="squared_bias", against="n", scale="log")
    figure = declared_chart(estimates(summary.studies["gradient"].rows), declared)
    found = {row["line"]: row for row in rows_of(figure.whole)}
    assert found["centred"]["value"] == pytest.approx(0.025, rel=0.1)
    assert (found["centred"]["solid"], found["group_mean"]["solid"]) == (False, True)
    assert "proven to have no bias" in figure.caption
