"""The part that all charts share: nothing that cannot be drawn, nothing outside, the same files."""

import json
import math

import altair as alt
import pandas as pd
import pytest
import vl_convert
from compiled_charts import marks, rows
from hypothesis import given, settings
from hypothesis import strategies as st

from maxk_lab.reports.charts import (
    COLOURS,
    SHAPES,
    Figure,
    bounded,
    decades,
    finished,
    intervals,
    looks,
    off_axis,
    theme,
)

NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=32)
FINITE = st.floats(allow_nan=False, allow_infinity=False, width=32)
INTERVALS = st.just((math.nan, math.nan)) | st.builds(
    lambda one, other, open_end: (min(one, other), math.inf if open_end else max(one, other)),
    FINITE, FINITE, st.booleans(),
)  # fmt: skip
LINES = st.lists(st.builds(lambda v, ends: (v, *ends), NUMBERS, INTERVALS), min_size=1, max_size=8)


def table(values):
    return pd.DataFrame([{"value": v, "low": low, "high": high} for v, low, high in values])


@settings(max_examples=200)
@given(LINES, st.booleans())
def test_what_is_drawn_is_finite_and_within_its_axis(values, log):
    data, (low, high) = bounded(table(values), log=log, least=1.0)
    assert low < high
    assert len(data) == sum(math.isfinite(value) and (value > 0 or not log) for value, *_ in values)
    json.dumps(data.to_dict("records"), allow_nan=False)
    assert low > 0 or not log
    for row in data.itertuples():
        assert low <= row.value <= high
        assert all(end is None or low <= end <= high for end in (row.lo, row.hi))
        known = row.lo is not None and row.hi is not None
        assert known or row.lo is row.hi is None
        assert row.open == 0 or known


def test_an_interval_that_goes_on_ends_in_a_triangle_and_squeezes_nothing():
    found = table([(1.0, 0.9, 1.1), (2.0, 1.0, math.inf), (3.0, math.nan, math.nan)])
    data, (low, high) = bounded(found)
    assert (low, high) == pytest.approx((0.5, 3.5), abs=0.5)
    assert list(data.open) == [0, 1, 0]
    assert list(data.lo) == [0.9, 1.0, None]
    assert data.hi.iloc[1] == high
    data = data.assign(look="a", told="a", solid=data.low.notna())
    color, shape = looks(["a"])
    x = alt.X("value:Q").scale(domain=[low, high])
    chart = alt.layer(*intervals(x, [low, high], color, shape), data=data)
    assert marks(chart.to_dict()) == {"symbol": 3 + 1, "rule": 2}


@given(st.floats(1e-12, 1e12), st.floats(1.01, 1e9))
def test_ticks_of_decades_are_few_and_within(low, times):
    found = decades([low, low * times])
    assert len(found) <= 6
    assert all(low <= tick <= low * times for tick in found)
    assert times < 10 or found


@pytest.mark.parametrize(
    ("lines", "gone"),
    [
        ({"a": [1, 2], "b": [1, 2.2], "c": [0.9, 2.1]}, {}),
        ({"a": [1, 2], "b": [1, 2.2], "c": [0.9, 2.1], "d": [50, 60]}, {"d": (50, 60, True)}),
        ({"a": [-1, -2], "b": [0, 0.2], "c": [1, 2], "d": [-90, 0]}, {"d": (-90, 0, False)}),
        # Nobody knows which half is the rest.
        ({"a": [0, 0], "b": [0, 0.1], "c": [90, 90], "d": [80, 80]}, {}),
        ({"a": [1, 2], "b": [1, 2]}, {}),
    ],
)
def test_a_line_that_would_flatten_the_others_is_a_note(lines, gone):
    data = pd.DataFrame(
        [
            {"line": name, "look": name, "panel": "", "x": x, "value": value}
            for name, values in lines.items()
            for x, value in enumerate(values)
        ]
    )
    kept, notes = off_axis(data, "x", zero=False)
    assert set(kept.line) == set(lines) - set(gone)
    assert {note.line: (note.min, note.max, note.above) for note in notes.itertuples()} == gone


def test_no_line_leaves_on_the_side_that_is_better():
    values = {"a": [60, 60], "b": [60, 59], "c": [61, 60], "d": [61, 60], "e": [82, 1]}
    data = pd.DataFrame(
        [
            {"line": name, "look": name, "panel": "", "x": x, "value": value}
            for name, several in values.items()
            for x, value in enumerate(several)
        ]
    )
    left = {
        better: list(off_axis(data, "x", zero=False, better=better)[1].line)
        for better in (-1, 0, 1)
    }
    assert left == {-1: [], 0: ["e"], 1: ["e"]}


def test_no_two_lines_look_the_same():
    names = [f"method {index}" for index in range(len(COLOURS) * len(SHAPES))]
    color, shape = (one.to_dict()["scale"] for one in looks(names, reference=""))
    assert color["domain"] == shape["domain"] == names
    assert len({*zip(color["range"], shape["range"], strict=True)}) == len(names)


def figure(title="A title"):
    data = alt.Data(values=[{"x": 1, "y": 2}])
    chart = alt.Chart(data).mark_point().encode(x="x:Q", y="y:Q")
    return Figure("one", title, "How to read it", finished(chart, title))


def test_the_files_do_not_change_and_the_page_has_the_same_spec(tmp_path):
    first = {path.name: path.read_bytes() for path in figure().write(tmp_path / "a")}
    assert list(first) == ["one.png", "one.svg", "one.pdf"]
    assert first["one.png"][:4] == b"\x89PNG"
    assert first["one.pdf"][:4] == b"%PDF"
    again = {path.name: path.read_bytes() for path in figure().write(tmp_path / "b")}
    assert first["one.png"] == again["one.png"]
    assert figure().spec == {
        name: part for name, part in figure().whole.items() if name not in ("title", "config")
    }


def test_a_chart_may_have_any_number_of_rows():
    chart = alt.Chart(pd.DataFrame({"x": range(5001)})).mark_point().encode(x="x:Q")
    (data,) = Figure("one", "t", "", finished(chart, "t")).whole["datasets"].values()
    assert len(data) == 5001


def test_nothing_is_fetched(tmp_path):
    chart = alt.Chart("http://example.invalid/data.json").mark_point().encode(x="x:Q")
    with pytest.raises(ValueError, match=r"example\.invalid"):
        Figure("one", "t", "", finished(chart, "t")).write(tmp_path)


def test_both_themes_are_of_the_language_and_differ():
    light, dark = theme(), theme(dark=True)
    assert {*light} == {*dark}
    assert light != dark
    for config in (light, dark):
        spec = figure().spec | {"config": config}
        vl_convert.vegalite_to_svg(spec)
        alt.Chart.from_dict(spec)
    assert rows(figure().whole | {"datasets": {"a": [{"x": 1}]}}) == [{"x": 1}]
