"""The chosen columns of a report as a LaTeX table, which needs booktabs and graphicx."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from maxk_lab.reports.document import Block
from maxk_lab.visible import visible_line

if TYPE_CHECKING:
    from maxk_lab.reports.report import Report

_ESCAPES = {letter: f"\\{letter}" for letter in "&%$#_{}"}
_ESCAPES |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
_ESCAPES |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_ESCAPES |= {"−": "$-$", "∞": r"$\infty$", "★": r"$\star$", "†": r"$\dagger$", "ĝ": r"$\hat g$"}
_ESCAPES |= {"Δ": r"$\Delta$"}
# The minus of a number, not of e-04 or of a range.
_MINUS = re.compile(r"(?<!\w)-(?=\d)")
_LETTERS = re.compile(f"[{re.escape(''.join(_ESCAPES))}]|[^\0-\u017f–—]")
# A table that is too wide shrinks to the width of the text.
_BOX = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"


def latex(report: Report) -> str:
    """Return one table of the chosen columns, or the short table of each kind of study.

    A short table is about the whole run, also in a part of a report; its caption says so.
    """
    if report.columns:
        return _table(report.chosen, report.chosen.caption[0])
    short = (answer.table for answer in report.answers)
    scope = "; all rows of the run" if report.selection else ""
    brackets = f"; {report.origin.level:.0%} confidence intervals in brackets"
    return "\n".join(
        _table(block, f"{block.title.removeprefix('In short: ')}{scope}{brackets * intervals}.")
        for block in short
        if block.columns
        for intervals in [any(" [" in text for row in block.rows for text in row)]
    )


def _table(block: Block, caption: str) -> str:
    import pandas as pd

    # LaTeX reads [ and * after the end of a row as arguments.
    rows = [[re.sub(r"^(?=[\[*])", "{}", escape(text)) for text in row] for row in block.rows]
    table = pd.DataFrame(rows, columns=[escape(column.heading) for column in block.columns])
    text: str = table.style.hide(axis="index").to_latex(
        hrules=True,
        caption=escape(caption),
        position_float="centering",
        column_format="".join("r" if column.numeric else "l" for column in block.columns),
    )
    begin, end = r"\begin{tabular}", r"\end{tabular}"
    return text.replace(begin, f"{_BOX}\n{begin}", 1).replace(end, f"{end}}}", 1)


def escape(text: str) -> str:
    """Return a text on one line, escaped for LaTeX; unknown letters are spelled out."""
    return _LETTERS.sub(
        lambda match: _ESCAPES.get(match[0], f"[U+{ord(match[0]):04X}]"),
        _MINUS.sub("−", visible_line(text)),
    )
