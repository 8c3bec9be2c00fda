"""Every figure of a report, drawn where it has something to show."""

from __future__ import annotations

from pathlib import Path

from maxk_lab.report.drawing.style import STYLE, save, unused
from maxk_lab.report.model import Summary
from maxk_lab.report.parts import FiguresPart
from maxk_lab.sweeps.studies import in_reading_order


def figures(summary: Summary, out: Path) -> list[Path]:
    """Draw every figure that has something to show into `out`, each as PNG and SVG.

    Returns the files. They look as they do everywhere: a `matplotlibrc`, which may lie in the
    current folder and name code to run, changes nothing.
    """
    import matplotlib as mpl

    drawn: list[Path] = []
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        for kind in in_reading_order():
            part: FiguresPart = kind.part("figures")
            for name, figure in part.figures(summary.studies[kind.name], summary):
                drawn += save(figure, out, unused(name, drawn))
    return drawn
