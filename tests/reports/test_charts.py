"""What all charts share: only drawable numbers, axes, legends, and files without requests."""

import json
import math
import re

import altair as alt
import pandas as pd
import pytest
import vl_convert
from compiled_charts import marks, rows
from hypothesis import given
from hypothesis import strategies as st

from maxk_lab.reports import charts
from maxk_lab.reports.charts import Figure, Panel, legend_of, series

NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=32)
FINITE = st.floats(allow_nan=False, allow_infinity=False, width=32)
INTERVALS = st.just((math.nan, math.nan)) | st.builds(
    lambda end, start, is_open: (min(end, start), math.inf if is_open else max(end, start)),
    FINITE, FINITE, st.booleans(),
)  # fmt: skip
LINES = st.lists(st.builds(lambda v, ends: (v, *ends), NUMBERS, INTERVALS), min_size=1, max_size=8)


def table(values):
    return pd.DataFrame(values, columns=["value", "low", "high"])


@given(LINES, st.booleans())
def test_every_drawn_number_is_finite_and_on_its_axis(values, log):
    data = charts.drawable(table(values), log=log)
    assert len(data) == sum(math.isfinite(value) and (value > 0 or not log) for value, *_ in values)
    low, high = charts.axis_domain(data, log=log, include=[1.0])
    assert low < high
    assert low > 0 or not log
    clipped = charts.on_axis(data, [low, high])
    json.dumps(clipped.to_dict("records"), allow_nan=False)
    for row in clipped.itertuples():
        assert low <= row.value <= high
        assert all(end is None or low <= end <= high for end in (row.lo, row.hi))
        has_interval = row.lo is not None and row.hi is not None
        assert has_interval or row.lo is row.hi is None
        assert row.open == 0 or has_interval


def test_an_interval_beyond_the_axis_ends_in_a_triangle():
    values = [(1.0, 0.9, 1.1), (2.0, 1.0, math.inf), (3.0, math.nan, math.nan), (2.0, -9.0, 99.0)]
    values = table(values)
    domain = charts.axis_domain(values)
    assert domain == pytest.approx((0.5, 3.5), abs=0.5)
    data = charts.on_axis(values, domain)
    assert list(data.open) == [0, 1, 0, 2]
    assert list(data.lo) == [0.9, 1.0, None, domain[0]]
    assert data.hi.iloc[1] == domain[1]
    data = data.assign(series="a", name="a", style="solid")
    x = alt.X("value:Q").scale(domain=domain)
    layers = charts.interval_marks(x, domain, *series(legend_of(["a"])))
    figure = Figure("one", "", "", "", (Panel("", alt.layer(*layers, data=data)),))
    assert marks(figure) == {"symbol": 4 + 1 + 2, "rule": 3}


@given(st.floats(1e-12, 1e12), st.floats(1.01, 1e9))
def test_a_logarithmic_axis_has_few_ticks(low, times):
    ticks = charts.log_ticks([low, low * times])
    assert len(ticks) <= 6
    assert all(low <= tick <= low * times for tick in ticks)
    assert times < 10 or ticks


def test_no_two_series_have_the_same_colour_and_shape():
    names = [f"method {index}" for index in range(len(charts.COLOURS) * len(charts.SHAPES))]
    assert len(set(legend_of(names).values())) == len(names)
    assert len(set(legend_of(names[:35], charts.ordered(5)).values())) == 35
    color, shape = (channel.to_dict()["scale"] for channel in series(legend_of(names)))
    assert color["domain"] == shape["domain"] == names


def figure(panels, data=None):
    """Return a figure of equal panels."""
    color, shape = series(legend_of(["a"]))
    values = alt.Data(values=[{"x": 1, "y": 2, "series": "a"}]) if data is None else data
    point = alt.Chart(values).mark_point().encode(x="x:Q", y="y:Q", color=color, shape=shape)
    every = tuple(Panel(f"panel {i}", alt.layer(point)) for i in range(panels))
    return Figure("one", "A title", "y of x.", "Bars: intervals.", every, legend_of(["a"]))


@pytest.mark.parametrize("panels", [1, 3, 4])
def test_files_are_reproducible_and_a_pdf_is_as_wide_as_a_column(tmp_path, panels):
    png, svg, pdf = figure(panels).write(tmp_path)
    assert [path.name for path in (png, svg, pdf)] == ["one.png", "one.svg", "one.pdf"]
    picture = png.read_bytes()
    assert picture[:4] == b"\x89PNG"
    assert b"A title" in svg.read_bytes()
    (box,) = re.findall(rb"/MediaBox ?\[0 0 ([\d.]+) ", pdf.read_bytes())
    assert float(box) / 72 == pytest.approx(3.25, rel=0.03)
    if panels == 1:
        assert figure(panels).write(tmp_path)[0].read_bytes() == picture


def test_a_notebook_gets_all_panels_as_one_chart_with_any_number_of_rows():
    data = pd.DataFrame({"x": range(5001), "y": 0, "series": "a"})
    assert len(rows(figure(1, data))) == 5001
    assert len(figure(2).chart.to_dict(validate=False)["concat"]) == 2


def test_nothing_is_fetched(tmp_path):
    with pytest.raises(ValueError, match=r"example\.invalid"):
        figure(1, "http://example.invalid/data.json").write(tmp_path)


def test_the_theme_is_valid_vega_lite_without_small_type():
    config = charts.theme(ink="currentColor", background="transparent")
    spec = figure(2).spec(200, 2) | {"config": config}
    alt.Chart.from_dict(spec)
    assert "currentColor" in vl_convert.vegalite_to_svg(spec)
    sizes = re.findall(r'[fF]ontSize": (\d+)', json.dumps(config))
    assert min(map(int, sizes)) >= 12
