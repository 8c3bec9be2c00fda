"""What all charts share: only drawable numbers, axes, legends, and files without requests."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

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
    Panel,
    axis_domain,
    drawable,
    fills,
    interval_marks,
    legend_of,
    log_ticks,
    on_axis,
    ordered,
    series,
    theme,
)

NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=32)
FINITE = st.floats(allow_nan=False, allow_infinity=False, width=32)
INTERVALS = st.just((math.nan, math.nan)) | st.builds(
    lambda end, start, is_open: (min(end, start), math.inf if is_open else max(end, start)),
    FINITE, FINITE, st.booleans(),
)  # fmt: skip
LINES = st.lists(st.builds(lambda v, ends: (v, *ends), NUMBERS, INTERVALS), min_size=1, max_size=8)


def table(values: Any) -> Any:
    return pd.DataFrame([{"value": v, "low": low, "high": high} for v, low, high in values])


@settings(max_examples=200)
@given(LINES, st.booleans())
def test_what_is_drawn_is_finite_and_on_its_axis(values: Any, log: bool) -> None:
    data = drawable(table(values), log=log)
    assert len(data) == sum(math.isfinite(value) and (value > 0 or not log) for value, *_ in values)
    low, high = axis_domain(data, log=log, include=[1.0])
    assert low < high
    assert low > 0 or not log
    shown = on_axis(data, [low, high])
    json.dumps(shown.to_dict("records"), allow_nan=False)
    for row in shown.itertuples():
        assert low <= row.value <= high
        assert all(end is None or low <= end <= high for end in (row.lo, row.hi))
        has_interval = row.lo is not None and row.hi is not None
        assert has_interval or row.lo is row.hi is None
        assert row.open == 0 or has_interval


def test_an_interval_beyond_the_axis_ends_in_a_triangle() -> None:
    values = table([(1.0, 0.9, 1.1), (2.0, 1.0, math.inf), (3.0, math.nan, math.nan)])
    domain = axis_domain(values)
    assert domain == pytest.approx((0.5, 3.5), abs=0.5)
    data = on_axis(values, domain)
    assert list(data.open) == [0, 1, 0]
    assert list(data.lo) == [0.9, 1.0, None]
    assert data.hi.iloc[1] == domain[1]
    data = data.assign(series="a", name="a", style="solid")
    x = alt.X("value:Q").scale(domain=domain)
    layers = interval_marks(x, domain, *series(legend_of(["a"])))
    figure = Figure("one", "", "", "", (Panel("", alt.layer(*layers, data=data)),))
    assert marks(figure) == {"symbol": 3 + 1, "rule": 2}


@given(st.floats(1e-12, 1e12), st.floats(1.01, 1e9))
def test_ticks_of_a_logarithmic_axis_are_few_and_on_it(low: float, times: float) -> None:
    ticks = log_ticks([low, low * times])
    assert len(ticks) <= 6
    assert all(low <= tick <= low * times for tick in ticks)
    assert times < 10 or ticks


def test_no_two_series_have_the_same_colour_and_shape() -> None:
    names = [f"method {index}" for index in range(len(COLOURS) * len(SHAPES))]
    assert len(set(legend_of(names).values())) == len(names)
    assert len(set(legend_of(names[:5], ordered(5)).values())) == 5
    color, shape = (channel.to_dict()["scale"] for channel in series(legend_of(names)))
    assert color["domain"] == shape["domain"] == names


def test_the_meaning_of_fills_has_three_states() -> None:
    states = "Filled: unbiased (proved); pale: not proved; hollow: biased."
    assert fills(["hollow", "pale", "solid", "solid"]) == states
    assert fills(["hollow"]) == "Hollow: biased."


def figure(chart: Any = None, panels: int = 1, columns: int = 3) -> Figure:
    data = alt.Data(values=[{"x": 1, "y": 2, "series": "a"}])
    color, shape = series(legend_of(["a"]))
    point = alt.Chart(data).mark_point().encode(x="x:Q", y="y:Q", color=color, shape=shape)
    every = tuple(Panel(f"panel {i}", chart or alt.layer(point)) for i in range(panels))
    return Figure("one", "A title", "y of x.", "Bars: intervals.", every, legend_of(["a"]), columns)


def test_the_files_are_reproducible(tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in figure().write(tmp_path / "a")}
    assert list(first) == ["one.png", "one.svg", "one.pdf"]
    assert first["one.png"][:4] == b"\x89PNG"
    assert first["one.pdf"][:4] == b"%PDF"
    assert b"A title" in first["one.svg"]
    again = {path.name: path.read_bytes() for path in figure().write(tmp_path / "b")}
    assert first["one.png"] == again["one.png"]


@pytest.mark.parametrize("panels", [1, 3, 4, 7])
def test_a_pdf_is_as_wide_as_a_column(tmp_path: Path, panels: int) -> None:
    *_, pdf = figure(panels=panels).write(tmp_path)
    (box,) = re.findall(rb"/MediaBox ?\[0 0 ([\d.]+) ", pdf.read_bytes())
    assert float(box) / 72 == pytest.approx(3.25, rel=0.03)


def test_a_notebook_gets_all_panels_as_one_chart() -> None:
    chart = figure(panels=2).chart
    assert len(chart.to_dict(validate=False)["concat"]) == 2
    vl_convert.vegalite_to_svg(figure(panels=2).spec(200, 2))


def test_a_chart_may_have_any_number_of_rows() -> None:
    chart = alt.Chart(pd.DataFrame({"x": range(5001)})).mark_point().encode(x="x:Q")
    assert len(rows(figure(chart))) == 5001


def test_nothing_is_fetched(tmp_path: Path) -> None:
    chart = alt.Chart("http://example.invalid/data.json").mark_point().encode(x="x:Q")
    with pytest.raises(ValueError, match=r"example\.invalid"):
        figure(alt.layer(chart)).write(tmp_path)


def test_the_theme_is_of_the_language_of_vega_and_has_no_small_type() -> None:
    spec = figure().spec(200, 1) | {"config": theme()}
    alt.Chart.from_dict(spec)
    config = theme(ink="currentColor", background="transparent")
    assert "currentColor" in vl_convert.vegalite_to_svg(spec | {"config": config})
    sizes = re.findall(r'[fF]ontSize": (\d+)', json.dumps(config))
    assert min(map(int, sizes)) >= 12
