"""Numbers beside the axes of figures are plain text, and not the formulas that nothing parses."""

import re
from pathlib import Path

import pytest
from matplotlib.figure import Figure

import maxk_lab
from maxk_lab.report.drawing.axes import logarithmic
from maxk_lab.report.drawing.style import own_style
from maxk_lab.report.figures import figures
from maxk_lab.report.summarise import summarise_records
from maxk_lab.sweeps.spec.figures import Figure as Declared


def texts(paths):
    """The texts of figures, by the name of the file."""
    svgs = [path for path in paths if path.suffix == ".svg"]
    return {path.stem: re.findall(r"<text[^>]*>([^<]*)<", path.read_text()) for path in svgs}


def numbers(found):
    told = (re.fullmatch(r"([\d.]+(?:e[-+]\d+)?)([kMG]?)", text) for text in found)
    units = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
    return [float(one[1]) * units[one[2]] for one in told if one]


def scaled(lab, cells, by):
    """Records whose gradients are `by` times as large."""
    records = [lab.record(cell) for cell in cells]
    for record in records:
        units = record.metrics["units"]
        for name in ("m2", "mean_square"):
            units[name] = [value * by for value in units[name]]
    return records


@pytest.mark.slow
@pytest.mark.parametrize("by", [1e-7, 1.0, 1e8])
def test_no_number_of_a_gradient_study_is_a_formula(lab, tmp_path, by):
    cells = lab.cells(baselines=("none", "centred"), ns=(8, 16), ks=(2,), seeds=(0, 1))
    declared = [
        Declared(name=f"declared-{scale}", metric="variance", against="n", scale=scale)
        for scale in ("log", "linear")
    ]
    summary = summarise_records(cells, scaled(lab, cells, by), name="it", figures=declared)
    found = texts(figures(summary, tmp_path))
    assert {"variance", "bias", *(one.name for one in declared)} <= found.keys()
    for name, told in found.items():
        assert not [text for text in told if "$" in text or "mathdefault" in text], name
    # The numbers beside the axis are those of the data: somewhere near the scale of a variance.
    assert any(by / 1e3 < value < by * 1e3 for value in numbers(found["declared-log"]))


@pytest.mark.slow
def test_no_number_of_a_training_is_a_formula(lab, tmp_path):
    cells = lab.training_cells()
    records = [lab.training_record(cell) for cell in cells]
    for record in records:
        log = record.metrics["log"]
        log["entropy"] = [value * 1e-7 for value in log["entropy"]]
        log["grad_norm"] = [value * 1e3**i for i, value in enumerate(log["grad_norm"])]
    found = texts(figures(summarise_records(cells, records, name="it"), tmp_path))
    assert "(log scale)" in found["training-log"]
    for name, told in found.items():
        assert not [text for text in told if "$" in text or "mathdefault" in text], name


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [
        (0.05, 200.0, ["0.1", "1", "10", "100"]),
        (2e-6, 3e-4, ["1e-05", "0.0001"]),
        (0.5, 0.9, ["0.5", "0.6", "0.7", "0.8", "0.9"]),
        (2.0, 30.0, ["2", "3", "4", "6", "10", "20", "30"]),
        (8e3, 3e6, ["10000", "100k", "1M"]),
    ],
)
@pytest.mark.parametrize("which", ["x", "y"])
def test_numbers_of_a_logarithmic_axis_are_as_people_write_them(which, low, high, told):
    with own_style():
        axes = Figure().subplots()
        logarithmic(axes, which)
        getattr(axes, f"set_{which}lim")(low, high)
        axes.figure.draw_without_rendering()
        axis = axes.xaxis if which == "x" else axes.yaxis
        ticks = [
            (tick.get_loc(), tick.label1.get_text())
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            if low <= tick.get_loc() <= high and tick.label1.get_text()
        ]
    assert [text for _, text in sorted(ticks)] == told


def test_logarithmic_axes_are_made_in_one_place():
    package = Path(maxk_lab.__file__).parent
    scales = re.compile(r"set_[xy]scale|\b[xy]scale=|loglog\(|semilog[xy]\(")
    found = [path.name for path in package.rglob("*.py") if scales.search(path.read_text())]
    assert found == ["axes.py"]
