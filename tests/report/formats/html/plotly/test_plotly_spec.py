"""Figures of matplotlib in Plotly: every number and word is there, or the figure is refused."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from typing import Any

import golden
import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from maxk_lab.report.drawing.picture import Picture
from maxk_lab.report.drawing.style import own_style
from maxk_lab.report.formats.html.figures import drawn as drawn_in_a_page
from maxk_lab.report.formats.html.plotly import UnconvertibleError, plotly_spec
from maxk_lab.report.formats.html.plotly.words import words
from maxk_lab.report.summarise import summarise
from maxk_lab.sweeps.run.find import find_run
from maxk_lab.sweeps.studies import in_reading_order

NAN = float("nan")


def panel(**settings: Any) -> Any:
    """One panel, whose figure needs no layout."""
    return Figure(layout="none").subplots(**settings)


def spec_of(axes: Any) -> Any:
    spec = plotly_spec(axes.figure)
    json.dumps(spec, allow_nan=False)
    return spec


def only(spec: Any, label: str) -> Any:
    (found,) = [trace for trace in spec["data"] if trace.get("name") == label]
    return found


def drawn(figure: Figure) -> Any:
    """Every number of a figure, but those of its scales of colours."""
    found: list[Any] = []
    for axes in (axes for axes in figure.axes if not hasattr(axes, "_colorbar")):
        found += [line.get_xydata() for line in axes.lines]
        for part in axes.collections:
            paths = [] if isinstance(part, PathCollection) else part.get_paths()
            found += [path.vertices for path in paths]
            found += [part.get_offsets()] if isinstance(part, PathCollection) else []
            found += [] if part.get_array() is None else [part.get_array()]
        for patch in axes.patches:
            found += [patch.get_corners()] if isinstance(patch, Rectangle) else []
        found += [image.get_array() for image in axes.images]
        found += [text.get_position() for text in axes.texts]
        found += [axes.get_xlim(), axes.get_ylim()]
    flat = np.concatenate([np.ma.filled(np.ma.asarray(n, float), NAN).ravel() for n in found])
    return flat[np.isfinite(flat)]


def told(spec: Any) -> Any:
    """Every number of a spec, and the ends that its bars and intervals reach."""
    found: list[Any] = [0.0, 1.0]
    for trace in spec["data"]:
        found += [trace.get("x", []), trace.get("y", []), trace.get("z", [])]
        found += [trace.get("meta", {}).get("values", [])]
        for which in "xy":
            at = known(trace.get(which, []))
            if "base" in trace and (which == "x") == (trace["orientation"] == "h"):
                found += [known(trace["base"]), known(trace["base"]) + at]
            elif "base" in trace:
                half = known(trace["width"]) / 2
                found += [at - half, at + half]
            if error := trace.get(f"error_{which}"):
                found += [at - known(error["arrayminus"]), at + known(error["array"])]
    for note in spec["layout"]["annotations"]:
        found += [note["x"], note["y"]]
    for name, axis in spec["layout"].items():
        if name[1:5] == "axis":
            ends = known(axis["range"])
            found += [ends, 10.0**ends if axis["type"] == "log" else ends]
    return np.concatenate([known(values).ravel() for values in found])


def known(values: Any) -> Any:
    return np.array(values, dtype=float)


def missing(figure: Figure, spec: Any) -> list[float]:
    """The numbers of a figure that are not in its spec."""
    there = np.sort(told(spec))
    there = there[np.isfinite(there)]
    wanted = drawn(figure)
    at = np.searchsorted(there, wanted)
    near = [there[np.clip(at + step, 0, len(there) - 1)] for step in (-1, 0)]
    gap = np.min([np.abs(value - wanted) for value in near], axis=0)
    return [float(v) for v in wanted[gap > 1e-5 * np.abs(wanted) + 1e-9]]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tsp_sweep", "llm_passk"])
def test_every_figure_of_golden_results_has_all_of_its_numbers_and_words(name: str) -> None:
    summary, count = summarise(find_run(golden.bundle_of(name))), 0
    with own_style():
        for kind in in_reading_order():
            for picture in kind.part("figures").figures(summary.studies[kind.name], summary):
                # The places of panels do not matter here, and take longer than all the rest.
                picture.figure.set_layout_engine("none")
                spec = plotly_spec(picture.figure)
                assert missing(picture.figure, spec) == []
                assert labels(picture.figure) <= names(spec)
                assert titles(picture.figure) <= {note["text"] for note in notes(spec)}
                count += 1
    assert count


def labels(figure: Figure) -> set[str]:
    """The names in the legends of a figure."""
    own = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    return {text.get_text() for legend in own if legend for text in legend.get_texts()}


def titles(figure: Figure) -> set[str]:
    return {words(axes.get_title()) for axes in figure.axes if axes.get_title()}


def names(spec: Any) -> set[str]:
    """The names in the legend of a spec, each of which must be there once."""
    shown = [trace["name"] for trace in spec["data"] if trace.get("showlegend")]
    assert len(shown) == len(set(shown))
    return set(shown)


def notes(spec: Any) -> Any:
    return spec["layout"]["annotations"]


def test_intervals_stand_by_their_points_whichever_side_is_longer() -> None:
    axes = panel()
    axes.errorbar(
        [1, 2, 3, 4],
        [10.0, 20.0, NAN, 40.0],
        yerr=[[1.0, 2.0, 1.0, NAN], [3.0, 0.0, 1.0, NAN]],
        label="method",
        capsize=2,
    )
    axes.legend()
    axes.set_xlabel("K")
    trace = only(spec_of(axes), "method")
    assert trace["y"] == [10.0, 20.0, None, 40.0]
    assert trace["error_y"]["arrayminus"][:2] == [1.0, 2.0]
    assert trace["error_y"]["array"][:2] == [3.0, 0.0]
    assert trace["customdata"][0] == "10.0 [9.00, 13.0] at K = 1"
    assert trace["customdata"][1] == "20.0 [18.0, 20.0] at K = 2"
    assert trace["customdata"][3] == "40.0 at K = 4"
    assert trace["hovertemplate"].startswith("<b>%{fullData.name}</b>: %{customdata}")


def test_intervals_along_x_are_told_with_the_name_of_their_line() -> None:
    axes = panel()
    bars = [[0.5, 0.1], [1.5, 0.2]]
    axes.errorbar([1.0, 2.0], [0, 1], xerr=bars, fmt="o", label="scale")
    axes.set_yticks([0, 1], ["none, n = 8", "subloo, n = 8"])
    trace = only(spec_of(axes), "scale")
    assert trace["error_x"]["arrayminus"] == [0.5, 0.1]
    assert trace["error_x"]["array"] == [1.5, 0.2]
    assert trace["customdata"] == [
        "1.00 [0.500, 2.50] at none, n = 8",
        "2.00 [1.90, 2.20] at subloo, n = 8",
    ]


def test_points_that_were_moved_aside_are_said_to_be_at_their_tick() -> None:
    def said(xs: list[float], ticks: list[float]) -> list[str]:
        axes = panel()
        axes.plot(xs, [1.0] * len(xs), "o", label="moved")
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        return [told.partition(" at ")[2] for told in only(spec_of(axes), "moved")["customdata"]]

    assert said([7.9, 16.4, 32.0], [8, 16, 32]) == ["8", "16", "32"]
    assert said([0.246, 0.51, 1.0], [0.25, 0.5, 1]) == ["0.25", "0.5", "1"]
    # Between the ticks are points of their own: nothing was moved.
    assert said([1, 2, 3, 4, 8, 9], [1, 2, 4, 8]) == ["1", "2", "3", "4", "8", "9"]


def test_a_band_is_the_interval_of_the_line_of_its_colour() -> None:
    axes = panel()
    for colour, up in (("#0072B2", 0.0), ("#D55E00", 5.0)):
        axes.plot([1, 2, 4], [up, up + 1, NAN], "o-", color=colour, label=f"up {up:g}")
        ends = [up - 1, up, NAN], [up + 1, up + 3, NAN]
        axes.fill_between([1, 2, 4], *ends, color=colour, alpha=0.2, linewidth=0)
    spec = spec_of(axes)
    lines = {t["name"]: t for t in spec["data"] if t["mode"] != "lines" or "fill" not in t}
    assert lines["up 5"]["customdata"][:2] == ["5.00 [4.00, 6.00] at 1", "6.00 [5.00, 8.00] at 2"]
    assert lines["up 0"]["customdata"][1] == "1.00 [0.00, 3.00] at 2"
    bands = [trace for trace in spec["data"] if "fill" in trace]
    assert [band["legendgroup"] for band in bands] == ["up 0", "up 5"]
    assert missing(axes.figure, spec) == []


def test_logarithmic_axes_keep_their_numbers_and_have_their_ends_as_exponents() -> None:
    axes = panel()
    axes.plot([1, 10, 100], [1e-3, 1.0, NAN])
    axes.set(xscale="log", yscale="log", xlim=(1, 100), ylim=(1e-4, 10))
    axes.text(10, 0.01, "here")
    axes.annotate("there", (10, 0.1), xytext=(3, 6), textcoords="offset points")
    spec = spec_of(axes)
    layout = spec["layout"]
    assert (layout["xaxis"]["type"], layout["xaxis"]["range"]) == ("log", [0.0, 2.0])
    assert layout["yaxis"]["range"] == [-4.0, 1.0]
    assert spec["data"][0]["y"] == [0.001, 1.0, None]
    assert [t["y"] for t in spec["data"] if t.get("text") == ["here"]] == [[0.01]]
    (there,) = notes(spec)
    assert (there["x"], there["y"], there["xshift"], there["yshift"]) == (1.0, -1.0, 4.0, 8.0)


def test_a_scale_that_plotly_has_not_is_drawn_in_its_places_with_its_own_ticks() -> None:
    axes = panel()
    axes.plot([0, 1, 2], [-100.0, 0.0, 100.0], label="bent")
    axes.set_yscale("symlog")
    spec = spec_of(axes)
    low, middle, high = only(spec, "bent")["y"]
    assert low == -high
    assert middle == 0
    assert high < 10
    assert only(spec, "bent")["customdata"][2] == "100 at 2"
    ticks = spec["layout"]["yaxis"]
    assert ticks["tickvals"][ticks["ticktext"].index("100")] == high


def test_bars_begin_where_others_end_and_tell_their_own_length() -> None:
    axes = panel()
    axes.bar([0, 1], [1.0, 2.0], 0.8, label="first", yerr=[[0.5, 0.5], [1.0, 1.0]])
    axes.bar([0, 1], [3.0, -1.0], 0.8, bottom=[1.0, 0.0], label="second")
    axes.set_xticks([0, 1], ["none", "sub<b>loo"])
    spec = spec_of(axes)
    second = only(spec, "second")
    assert (second["base"], second["y"]) == ([1.0, 0.0], [3.0, -1.0])
    assert second["customdata"] == ["3.00 at none", "-1.00 at sub&lt;b&gt;loo"]
    assert only(spec, "first")["customdata"][1] == "2.00 [1.50, 3.00] at sub&lt;b&gt;loo"
    assert missing(axes.figure, spec) == []


def test_cells_and_heat_maps_tell_their_numbers_and_names() -> None:
    axes = panel()
    shown = axes.imshow([[1.0, NAN], [3.0, 4.0]], cmap="viridis")
    axes.set_xticks([0, 1], ["K = 1", "K = 2"])
    axes.set_yticks([0, 1], ["none", "subloo"])
    axes.figure.colorbar(shown, ticks=[1, 4]).set_label("variance")
    spec = spec_of(axes)
    heat, bar = (t for t in spec["data"] if t["type"] == "heatmap" or "marker" in t)
    # From below, as its axis is: the first line of the image is the highest.
    assert heat["meta"]["values"] == [[1.0, None], [3.0, 4.0]]
    assert heat["y"] == [-0.5, 0.5, 1.5]
    assert spec["layout"]["yaxis"]["range"] == [1.5, -0.5]
    assert heat["customdata"][1] == ["subloo, K = 1: 3.00", "subloo, K = 2: 4.00"]
    assert bar["marker"]["colorbar"]["tickvals"] == [0.0, 1.0]
    assert bar["marker"]["colorbar"]["title"]["text"] == "variance"

    axes = panel()
    axes.add_patch(Rectangle((-0.5, -0.5), 1, 1, facecolor="#440154"))
    axes.text(0, 0, "12.0ᵇ", color="white")
    axes.set(xlim=(-0.5, 0.5), ylim=(0.5, -0.5), xticks=[0], yticks=[0])
    axes.set_xticklabels(["K = 2"]), axes.set_yticklabels(["none"])
    spec = spec_of(axes)
    assert spec["data"][0]["customdata"] == ["none, K = 2: 12.0ᵇ"]
    (white,) = spec["data"][1]["textfont"]["color"]
    assert white not in spec["dark"]


def test_points_of_a_scatter_plot_keep_their_sizes_and_colours() -> None:
    axes = panel()
    axes.scatter([1, 2], [3, NAN], s=[9, 36], c=["#0072B2", "#D55E00"], marker="s", label="dots")
    trace = only(spec_of(axes), "dots")
    assert trace["marker"]["size"] == [4.0, 8.0]
    assert trace["marker"]["symbol"] == "square"
    assert trace["y"] == [3.0, None]
    axes = panel()
    axes.scatter([1, 2], [3, 4], c=[0.5, 7.0])
    assert spec_of(axes)["data"][0]["meta"]["values"] == [0.5, 7.0]


def test_lines_across_a_panel_and_lines_apart_are_there() -> None:
    axes = panel()
    axes.set(xlim=(0, 10), ylim=(0, 1))
    axes.axhline(0.25, color="k", label="true value")
    axes.vlines([2, 4], 0.1, 0.9)
    axes.axvspan(6, 7, alpha=0.1)
    axes.add_collection(LineCollection([[(0, 0), (1, 1)], [(3, 0), (4, 1)]], colors=["r", "b"]))
    spec = spec_of(axes)
    across = only(spec, "true value")
    assert across["y"] == [0.25, 0.25]
    assert across["x"][0] < 0
    assert across["x"][1] > 10
    assert missing(axes.figure, spec) == []


def test_one_entry_of_the_legend_switches_a_name_off_in_every_panel() -> None:
    figure = Figure(layout="none")
    left, right = figure.subplots(1, 2, sharex=True)
    right.plot([], [], "o-", color="#0072B2", label="subloo")
    left.plot([1, 2], [1, 2], "s-", color="#0072B2", label="subloo", markevery=[1])
    # Without labels of their own: the legend alone tells what their colours mean.
    for axes in (left, right):
        axes.plot([1, 2], [2, 3], color="#D55E00")
        axes.plot([1, 2], [2, 3], color="#aaaaaa")
    shown = [*left.get_legend_handles_labels()[0], Line2D([], [], color="#D55E00")]
    figure.legend(shown, ["subloo", "none <i>"])
    spec = plotly_spec(figure)
    assert names(spec) == {"subloo", "none &lt;i&gt;"}
    others = [t for t in spec["data"] if t.get("legendgroup") == "none <i>"]
    assert {t["xaxis"] for t in others} == {"x", "x2"}
    assert [t["hoverinfo"] for t in spec["data"] if "name" not in t] == ["skip", "skip"]
    assert spec["layout"]["xaxis2"]["matches"] == "x"
    marked = [t for t in spec["data"] if t.get("name") == "subloo" and "marker" in t]
    assert [t["x"] for t in marked] == [[2.0, None]]


def test_lines_behind_that_share_a_name_do_not_answer_the_pointer() -> None:
    axes = panel()
    for height in (1, 2):
        axes.plot([1, 2], [height, height], color="#bdbdbd", label="others")
    axes.plot([1, 2], [3, 3], color="#bdbdbd", label="one")
    axes.plot([1, 2], [4, 4], "o-", color="#0072B2", label="subloo")
    axes.legend()
    traces = spec_of(axes)["data"]
    silent = {t["name"] for t in traces if t.get("hoverinfo") == "skip"}
    assert silent == {"others"} == {t["name"] for t in traces if "hovertemplate" not in t}


def test_the_legend_looks_like_the_line_that_has_the_name() -> None:
    axes = panel()
    axes.plot([1, 2], [1, 2], color="#0072B2", label="K = 2")
    axes.plot([2], [2], "o", color="#0072B2")
    axes.legend()
    modes = {trace["mode"]: trace["showlegend"] for trace in spec_of(axes)["data"]}
    assert modes == {"lines": True, "markers": False}


def test_the_titles_of_all_axes_stand_at_the_edges() -> None:
    figure = Figure(layout="none")
    for axes in figure.subplots(2, 2).flat:
        axes.plot([1, 2], [1, 2])
    figure.supxlabel("steps")
    figure.supylabel("reward")
    layout = plotly_spec(figure)["layout"]
    assert [layout[f"xaxis{n}"]["title"]["text"] for n in ("", 2, 3, 4)] == [
        "",
        "",
        "steps",
        "steps",
    ]
    assert [layout[f"yaxis{n}"]["title"]["text"] for n in ("", 2, 3, 4)] == ["reward", ""] * 2


def test_an_axis_of_its_own_lies_over_the_panel() -> None:
    axes = panel()
    axes.plot([1, 2], [1, 2], label="left")
    other = axes.twinx()
    other.plot([1, 2], [100, 200], label="right")
    layout = spec_of(axes)["layout"]
    assert layout["yaxis2"]["overlaying"] == "y"
    assert layout["yaxis2"]["side"] == "right"
    assert layout["xaxis2"]["matches"] == "x"
    assert layout["xaxis2"]["visible"] is False


def test_colours_that_dark_paper_would_hide_have_another() -> None:
    axes = panel()
    for colour in ("black", "#440154", "#56B4E9"):
        axes.plot([1, 2], [1, 2], color=colour)
    dark = spec_of(axes)["dark"]
    assert dark["#000000"] == "#e6e6e6"
    assert dark["#440154"] != "#440154"
    assert "#56b4e9" not in dark


def test_small_panels_stand_below_each_other_on_a_narrow_page() -> None:
    figure = Figure(layout="none")
    for number, axes in enumerate(figure.subplots(2, 2, sharex=True, sharey=True).flat):
        axes.plot([1, 2], [1, 2])
        if number % 2 == 0:
            axes.set_ylabel(f"line {number}")
        if number < 2:
            axes.set_title(f"K = {number}")
        else:
            axes.set_xlabel("steps")
    spec = plotly_spec(figure)
    narrow = spec["narrow"]
    tops = [narrow[f"yaxis{n}"]["domain"] for n in ("", "2", "3", "4")]
    assert tops == sorted(tops, reverse=True)
    assert all(upper[0] > lower[1] for upper, lower in pairwise(tops))
    assert narrow["yaxis2"]["showticklabels"] is True
    assert narrow["xaxis"]["title"]["text"] == "steps"
    assert narrow["yaxis4"]["title"]["text"] == "line 2"
    assert [note["text"] for note in narrow["annotations"]] == ["K = 0", "K = 1"] * 2
    assert narrow["height"] > spec["layout"]["height"]


def test_the_title_is_there_unless_it_stands_elsewhere() -> None:
    axes = panel()
    axes.plot([1, 2], [1, 2])
    axes.figure.suptitle("One\n<two>")
    axes.figure.text(0.5, 0.0, "below", rotation=90)
    spec = plotly_spec(axes.figure)
    assert spec["layout"]["title"]["text"] == "One<br>&lt;two&gt;"
    assert [(note["text"], note["textangle"]) for note in notes(spec)] == [("below", -90.0)]
    assert "title" not in plotly_spec(axes.figure, titled=False)["layout"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda axes: axes.contourf([[1.0, 2.0], [3.0, 5.0]]),
        lambda axes: axes.imshow(np.zeros((2, 2, 3))),
        lambda axes: axes.quiver([1.0], [1.0], [1.0], [1.0]),
        lambda axes: axes.plot([1, 2], [1, 2], marker="$x$"),
        lambda axes: axes.inset_axes([0.1, 0.1, 0.2, 0.2]),
        lambda axes: axes.table([["1"]]),
        lambda axes: axes.figure.add_subplot(projection="polar"),
        lambda axes: axes.figure.add_artist(Line2D([0, 1], [0, 1])),
    ],
)
def test_a_figure_of_which_anything_would_be_lost_is_refused(draw: Any) -> None:
    axes = panel()
    draw(axes)
    with pytest.raises(UnconvertibleError):
        plotly_spec(axes.figure)


def test_a_refused_figure_is_in_the_page_as_it_was_drawn() -> None:
    axes = panel()
    axes.quiver([1.0], [1.0], [1.0], [1.0])
    axes.set_title("arrows")
    (shown,) = drawn_in_a_page([("run", [Picture("arrows", axes.figure, "Arrows")])])
    kind, _, image = shown["image"].partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert "arrows" in base64.b64decode(image).decode()
    assert "spec" not in shown
