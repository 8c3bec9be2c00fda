"""A report as LaTeX: booktabs tables that may run over pages, everything else as escaped text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from maxk_lab.reports.document import Block, label_of
from maxk_lab.reports.formats.render import FOLDER
from maxk_lab.visible import visible_line

if TYPE_CHECKING:
    from maxk_lab.reports.charts import Figure
    from maxk_lab.reports.report import Report

ESCAPES = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "—": "---",
    "∞": r"$\infty$",
    "★": r"$\star$",
    "†": r"$\dagger$",
    "−": "$-$",
    "±": r"$\pm$",
    "∇": r"$\nabla$",
    "‖": r"$\Vert$",
    "⟨": r"$\langle$",
    "⟩": r"$\rangle$",
    "ĝ": r"$\hat g$",
    "ρ̂": r"$\hat\rho$",
    "√": r"$\surd$",
    "…": r"\dots{}",
    "–": "--",
    "⁄": "/",
    "≈": r"$\approx$",
    "→": r"$\to$",
    "₁": "$_1$",
    "²": r"$^2$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "≠": r"$\ne$",
    "×": r"$\times$",
}


def _greek(letter: str) -> str:
    """Return the command of a Greek letter, which is its name."""
    name = unicodedata.name(letter).split()[-1].replace("LAMDA", "LAMBDA")
    return f"$\\{name.lower() if letter.islower() else name.capitalize()}$"


ESCAPES |= {letter: _greek(letter) for letter in "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΥΦΨΩ"}
# Longer ones first: a letter with its accent is two. The last is any letter beyond the Latin ones.
_LETTERS = re.compile(
    "|".join([*map(re.escape, sorted(ESCAPES, key=len, reverse=True)), "[^\0-\u017f]"])
)


def latex(report: Report) -> str:
    """The report as a LaTeX fragment to `\\input`; it needs the packages that its head names.

    Figures are looked for in `\\maxklabfigures`, which may be defined before, and left out where
    they are not there. What is folded comes last, on pages of its own.
    """
    parts = [f"% {visible_line(report.title)}", r"% \usepackage{booktabs,longtable,graphicx}"]
    if report.charts:
        parts.append(rf"\providecommand{{\maxklabfigures}}{{{FOLDER}}}")
    return "\n\n".join([*parts, *_parts(report.blocks)]) + "\n"


def _parts(blocks: Sequence[Block]) -> Iterator[str]:
    for block in blocks:
        if block.folded:
            yield rf"\clearpage \section*{{Appendix: {escape(block.title)}}}"
            yield from _parts(block.folded)
        elif block.pictures:
            yield from map(_picture, block.pictures)
        elif block.columns:
            yield _longtable(block)
        elif block.items:
            items = "\n".join(rf"  \item {{}}{escape(item)}" for item in block.items)
            lists = f"\\begin{{itemize}}\n{items}\n\\end{{itemize}}"
            yield f"\\paragraph{{{escape(block.title)}}}\n{lists}"
        else:
            titled = rf"\textbf{{{escape(block.title)}.}} " if block.title else ""
            written = _line_of if block.labelled else escape
            lines = "\\\\\n".join(f"{{}}{written(line)}" for line in block.lines)
            yield rf"\noindent {titled}{lines}"


def _picture(drawn: Figure) -> str:
    path = rf"\maxklabfigures/{drawn.name}.png"
    words = ". ".join(filter(None, (escape(drawn.title), escape(drawn.caption))))
    return (
        rf"\IfFileExists{{{path}}}{{\begin{{figure}}[htbp]\centering" + "\n"
        rf"\includegraphics[width=\linewidth]{{{path}}}" + "\n"
        rf"\caption{{{words}}}\end{{figure}}}}{{}}"
    )


def escape(text: str) -> str:
    """Return `text` on one line, in letters that are safe in LaTeX's text mode."""
    line = visible_line(text)
    return _LETTERS.sub(lambda found: ESCAPES.get(found[0]) or _spelled(found[0]), line)


def _spelled(letter: str) -> str:
    """Return the letters that `letter` is made of (½ is 1/2), or its code point where it is one.

    A letter that LaTeX does not know would stop it, or be missing without a word.
    """
    parts = unicodedata.normalize("NFKD", letter)
    if parts == letter:
        return f"[U+{ord(letter):04X}]"
    shift = unicodedata.decomposition(letter).partition(" ")[0]
    mark = {"<super>": "^", "<sub>": "_"}.get(shift)
    return escape(parts) if mark is None else f"${mark}{{{escape(parts)}}}$"


def _line_of(line: str) -> str:
    label, rest = label_of(line)
    return rf"\textbf{{{escape(label)}}} {escape(rest)}" if label else escape(rest)


def _longtable(sheet: Block) -> str:
    shape = "".join("r" if column.numeric else "l" for column in sheet.columns)
    caption = escape(" ".join((f"{sheet.title}.", *sheet.caption)))
    lines = [rf"\begin{{longtable}}{{{shape}}}", rf"\caption{{{caption}}} \\", r"\toprule"]
    lines += [_line([column.heading for column in sheet.columns]), r"\midrule", r"\endhead"]
    for number, row in enumerate(sheet.rows):
        if number in sheet.breaks:
            lines.append(r"\addlinespace")
        lines.append(_line(row))
    return "\n".join([*lines, r"\bottomrule", r"\end{longtable}"])


def _line(cells: Sequence[str]) -> str:
    # The empty group keeps a cell that opens with [ from being an argument of the \\ before it; so
    # it does for the lines of a paragraph and for items.
    return "{}" + " & ".join(escape(cell) for cell in cells) + r" \\"
