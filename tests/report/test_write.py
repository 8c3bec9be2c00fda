"""The report folder: every file asked for, figures that say what they show, the same bytes."""

import json
import re

import pytest
from stored import damage

from maxk_lab.errors import LabError
from maxk_lab.report.document import number
from maxk_lab.report.figures import figures
from maxk_lab.report.naming import environment_label, environment_words
from maxk_lab.report.summarise import summarise, summarise_records
from maxk_lab.report.write import write_report
from maxk_lab.studies.gradient.figures.heat_map import heat_map_figure, relative_to_best
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.records import Record, RunDirectory
from maxk_lab.sweeps.spec.load import load_spec

pytestmark = pytest.mark.slow

SWEEP = """
name: small
seeds: [0, 1]
environment: {name: tsp, num_loc: 20}
gradient:
  stages: [0, 5]
  pool: 64
  grid: {estimator: maxk, baseline: [none, centred, group_mean], n: [8, 16], k: [1, 2]}
claims:
  - name: shrinks
    kind: equals
    metric: scale
    where: {baseline: group_mean}
    value: 1 - k/n
    tolerance: 0.05
"""


@pytest.fixture(scope="module")
def run(lab, tmp_path_factory):
    """A finished run on disk."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "sweep.yaml").write_text(SWEEP)
    spec = load_spec(folder / "sweep.yaml")
    directory = RunDirectory(folder / "small")
    directory.write_spec(spec)
    for cell in make_plan(spec).cells:
        made = lab.record(cell.as_dict())
        directory.write(Record(made.cell, "done", made.metrics, provenance=made.provenance))
    return directory


@pytest.fixture(scope="module")
def summary(run):
    """Its summary."""
    return summarise(run)


def test_a_run_is_read_from_disk(run, summary):
    assert len(summary.studies["gradient"].rows) == 24
    assert all(row.all_finished for row in summary.studies["gradient"].rows)
    assert [claim.verdict for claim in summary.claims] == ["supported"]
    assert not summary.refuted


def test_damaged_and_stale_records_are_named(run):
    plan = make_plan(run.spec())
    path = run.records_path / run.heads[plan.cells[0].id].segment
    whole = path.read_bytes()
    try:
        damage(run.root, plan.cells[0].id)
        found = summarise(RunDirectory(run.root))
    finally:
        path.write_bytes(whole)
    assert (found.damaged, found.missing) == ((plan.cells[0].id,), ())
    assert len(found.problems) == 1
    assert str(found.counts) == "47 of 48 cells measured; 1 damaged"
    assert not found.sound
    assert run.spec().claims[0].name in found.unjudged or found.claims[0].judged
    assert sum(not row.all_finished for row in found.studies["gradient"].rows) == 1


def test_the_folder(summary, tmp_path):
    paths = write_report(summary, tmp_path, failed=pytest.fail)
    names = [path.relative_to(tmp_path).as_posix() for path in paths]
    assert names[:5] == ["report.md", "report.html", "table.csv", "report.json", "table.tex"]
    pictures = [
        f"figures/{name}.{kind}"
        for name in ("variance", "bias", "heat-map")
        for kind in ("png", "svg")
    ]
    assert names[5:] == pictures
    assert all(path.stat().st_size > 500 for path in paths)
    text = (tmp_path / "report.md").read_text()
    assert all(f"]({name})" in text for name in pictures if name.endswith("png"))
    assert json.loads((tmp_path / "report.json").read_text())["claims"][0]["verdict"] == "supported"
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(paths)


def test_figures_say_what_they_show_and_do_not_change(summary, tmp_path):
    first = {path.name: path.read_bytes() for path in figures(summary, tmp_path / "a")}
    assert first == {path.name: path.read_bytes() for path in figures(summary, tmp_path / "b")}
    variance, bias = first["variance.svg"].decode(), first["bias.svg"].decode()
    for said in (
        "TSP with 20 cities",
        "bars: 95% intervals",
        "K = 2, after 5 steps",
        "group_mean (biased)",
        "centred",
    ):
        assert said in variance, said
    for said in (
        "before training",
        "no bias seen",
        "scale bias",
        "each line from above: n = 8, 16",
    ):
        assert said in bias, said


def test_the_heat_map_has_every_number_and_marks_what_is_biased(lab, tmp_path):
    cells = lab.cells(baselines=("none", "centred", "group_mean", "subloo"), ns=(8, 16), ks=(2, 4))
    lost = [c["id"] for c in cells if c["baseline"] == "subloo" and c["n"] == 16 and c["seed"] == 1]
    records = [
        lab.record(cell, status="failed" if cell["id"] in lost else "done") for cell in cells
    ]
    summary = summarise_records(cells, records, name="it")
    svg = next(
        path for path in figures(summary, tmp_path) if path.name == "heat-map.svg"
    ).read_text()
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    biased = 0
    for row in summary.studies["gradient"].rows:
        found = row.bias.verdict in ("biased", "scale bias")
        biased += found
        if row.units is not None:
            assert number(row.intervals["relative_variance"].value) + "ᵇ" * found in texts, (
                row.key.path
            )
    assert biased == 4
    assert texts.count("—") == 2, "one for each K of the row that lost a seed"
    assert sum(text.endswith("ᵇ") for text in texts) == biased
    for label in ("none", "centred", "group_mean (biased)", "subloo"):
        assert label in texts
    assert [texts.count(tick) for tick in ("K=2", "K=4", "n=8", "n=16")] == [2] * 4


def test_colours_of_the_heat_map_are_relative_to_the_best_unbiased_of_the_column(lab):
    cells = lab.cells(baselines=("none", "centred", "group_mean"), ns=(8,), ks=(2, 4))
    # The biased one has the least, and is passed over.
    noise = {"none": 40.0, "centred": 4.0, "group_mean": 0.4}
    records = [lab.record(cell, noise=noise[cell["baseline"]]) for cell in cells]
    rows = summarise_records(cells, records, name="it").studies["gradient"].rows
    ratios = relative_to_best(rows)
    # The variance of a biased one is that of another gradient, and has no colour.
    assert {key.baseline for key in ratios} == {"none", "centred"}
    for row in rows:
        if row.key not in ratios:
            continue
        assert ratios[row.key] == pytest.approx(
            {"none": 10, "centred": 1}[row.key.baseline], rel=0.3
        )
        assert row.key.baseline != "centred" or ratios[row.key] == 1


def test_a_derived_bias_bars_the_best_of_a_column_and_an_alarm_does_not(lab):
    cells = lab.cells(baselines=("group_mean", "centred", "none"), ns=(64,), ks=(1,))
    # By what is seen `group_mean` could be unbiased; the test of `none` rejects what is proven.
    noise = {"group_mean": 100.0, "centred": 200.0, "none": 1.0}
    records = [
        lab.record(c, noise=noise[c["baseline"]], bias_off_gradient=float(c["baseline"] == "none"))
        for c in cells
    ]
    rows = summarise_records(cells, records, name="it").studies["gradient"].rows
    verdicts = {row.key.baseline: row.bias.verdict for row in rows}
    assert verdicts == {"group_mean": "no bias seen", "centred": "no bias seen", "none": "alarm"}
    ratios = {key.baseline: ratio for key, ratio in relative_to_best(rows).items()}
    assert set(ratios) == {"centred", "none"}
    assert ratios["none"] == 1


def test_twenty_methods_are_told_apart_and_fit(lab, tmp_path):
    """No two lines have the same colour and marker, and the legend does not squeeze the panels."""
    from maxk_lab.report.drawing.style import COLOURS, MARKERS, finish, look, panels

    looks = [tuple(look(index).values()) for index in range(len(COLOURS) * len(MARKERS))]
    assert len(set(looks)) == len(looks)
    heights = []
    for lines in (4, 24):
        figure, axes = panels(1, 1, (5.0, 3.3))
        for index in range(lines):
            axes[0][0].plot(
                [0, 1], [0, index], label=f"optimal[baseline_{index}] (biased)", **look(index)
            )
        finish(figure, axes, "a title\nof two lines")
        figure.draw_without_rendering()
        heights.append(axes[0][0].get_window_extent().height)
        (legend,) = figure.legends
        extent = legend.get_window_extent()
        assert extent.x0 >= 0
        assert extent.x1 <= figure.bbox.width
    assert heights[1] >= 0.85 * heights[0]


@pytest.mark.parametrize("parameters", [1, 6, 40])
def test_titles_take_three_lines_at_most_and_fit(lab, tmp_path, monkeypatch, parameters):
    """A figure is as wide as a long name of its environment needs."""
    environment = {"name": "someone_elses", **{f"parameter_{i}": i for i in range(parameters)}}
    training, gradient = lab.training_cells(seeds=(0,)), lab.cells(ns=(8,), ks=(2,), seeds=(0,))
    for cell in (*training, *gradient):
        cell["environment"] = environment
    records = [lab.training_record(cell) for cell in training] + [
        lab.record(cell) for cell in gradient
    ]
    drawn = {}

    def keep(figure, out, name):
        drawn[name] = figure
        return [out / f"{name}.svg"]

    monkeypatch.setattr("maxk_lab.report.figures.save", keep)
    figures(summarise_records([*training, *gradient], records, name="long"), tmp_path)
    assert set(drawn) == {
        "variance",
        "bias",
        "heat-map",
        "training",
        "max-at-k",
        "max-at-k-difference",
        "training-time",
        "training-log",
    }
    for figure in drawn.values():
        title = figure.get_suptitle()
        told = " ".join(title.split())
        assert any(one(gradient[0]) in told for one in (environment_words, environment_label))
        assert title.count("\n") <= 2
        figure.draw_without_rendering()
        extent = figure._suptitle.get_window_extent()
        assert extent.x0 >= 0
        assert extent.x1 <= figure.bbox.width


@pytest.mark.parametrize(("ns", "ks"), [((16,), (4,)), ((16,), (1, 2, 4)), ((8, 16, 32), (2, 4))])
def test_a_heat_map_of_any_shape_is_compact(lab, ns, ks):
    """Its size is that of its cells and labels: few columns make it narrow, pairs make it tall."""
    cells = lab.cells(ns=ns, ks=ks)
    rows = (
        summarise_records(cells, [lab.record(cell) for cell in cells], name="it")
        .studies["gradient"]
        .rows
    )
    figure = heat_map_figure(rows, "Relative variance, stage 0: tsp(num_loc=20)")
    width, height = figure.get_size_inches()
    pairs, columns = len({row.key.baseline for row in rows}), len(ns) * len(ks)
    assert width <= max(4.5, 3.0 + 0.52 * columns)
    assert height <= 1.4 + 0.2 * pairs
    figure.draw_without_rendering()
    axes, bar = figure.axes
    texts = [text.get_window_extent() for text in axes.texts]
    one = axes.get_window_extent().width / columns
    assert all(text.width < one for text in texts)
    assert bar.get_window_extent().width < 0.3 * figure.dpi


def test_a_panel_of_a_heat_map_has_few_columns_and_those_of_one_k_together(lab):
    cells = lab.cells(baselines=("none", "centred"), ns=(16, 32, 64), ks=(1, 2, 4, 8), seeds=(0,))
    more = lab.cells(baselines=("none", "centred"), ns=range(32, 48, 2), ks=(16,), seeds=(0,))
    cells += more
    rows = (
        summarise_records(cells, [lab.record(cell) for cell in cells], name="wide")
        .studies["gradient"]
        .rows
    )
    *shown, _ = heat_map_figure(rows, "").axes
    told = [[label.get_text() for label in panel.get_xticklabels()] for panel in shown]
    of_k = [[label.partition("\n")[0] for label in labels] for labels in told]
    assert of_k == [
        ["K=1"] * 3 + ["K=2"] * 3,
        ["K=4"] * 3 + ["K=8"] * 3,
        ["K=16"] * 4,
        ["K=16"] * 4,
    ]
    # One cell is as wide as another.
    assert {panel.get_xlim() for panel in shown} == {(-0.5, 5.5)}
    assert sum(len(panel.texts) for panel in shown) == len(rows)


def test_figures_of_nothing(lab, tmp_path):
    assert figures(summarise_records(lab.cells(), [], name="empty"), tmp_path) == []


@pytest.mark.parametrize("format", ["terminal", "pdf"])
def test_a_format_that_is_no_file_writes_nothing(summary, tmp_path, format):
    with pytest.raises(LabError, match=format):
        write_report(summary, tmp_path, ["csv", format])
    assert list(tmp_path.iterdir()) == []


def test_a_line_s_colour_tells_its_k_and_its_marker_the_method():
    from maxk_lab.report.drawing.style import COLOURS, looks

    found = looks([1, 8, 1, 8, 1], ["rloo", "centred", "centred", "subloo", "grpo"])
    assert [style["color"] for style in found] == [
        COLOURS[0],
        COLOURS[1],
        COLOURS[0],
        COLOURS[1],
        COLOURS[0],
    ]
    markers = [style["marker"] for style in found]
    assert markers[1] == markers[2]
    assert len(set(markers)) == 4


@pytest.mark.parametrize(
    ("ks", "methods"),
    [
        ([4] * 5, list("abcde")),
        ([1, 2, 4], ["a"] * 3),
        ([1, 8] * 20, [str(i // 2) for i in range(40)]),
    ],
)
def test_lines_that_colour_and_marker_cannot_both_tell_apart_have_a_look_of_their_own(ks, methods):
    from maxk_lab.report.drawing.style import look, looks

    assert looks(ks, methods) == [look(index) for index in range(len(ks))]
