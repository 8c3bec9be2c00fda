"""A report as Markdown, with its figures when they are given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from maxk_lab.report.document import (
    FOLDER,
    Bullets,
    Folded,
    Paragraph,
    Part,
    Pictures,
    Sheet,
    label_of,
    with_captions,
)
from maxk_lab.visible import visible_line

if TYPE_CHECKING:
    from maxk_lab.report.charts import Figure
    from maxk_lab.report.report import Report

# Marks that act wherever they stand. Brackets do so only together: those of an interval stay.
_MARKS = re.compile(r"[\\|*_<`~$&]|(?<=\])[(\[:]")
# Marks that make a heading, a list, a quotation or a rule of the line that they open.
_AT_THE_START = re.compile(r"^(\d*)([.)](?=\s|$)|(?<!\d)(?:[#>]|[+=-](?=[\s=-]|$)))")
_ADDRESS = re.compile(r"(\S*(?:://|[wW][wW][wW]\.|[\w.+-]+@[\w-]+\.\w)\S*)")


def markdown(report: Report) -> str:
    """The report as Markdown; what is folded opens by a click where HTML is shown."""
    return "\n\n".join([f"# {escape(report.title)}", *_parts(report.blocks)]) + "\n"


def _parts(blocks: Sequence[Part]) -> Iterator[str]:
    for block, caption in with_captions(blocks):
        if isinstance(block, Folded):
            yield f"<details>\n<summary>{escape(block.title)}</summary>"
            yield from _parts(block.blocks)
            yield "</details>"
        elif isinstance(block, Pictures):
            yield "## Figures"
            yield from map(_picture, block.pictures)
        elif isinstance(block, Paragraph):
            yield from [f"## {escape(block.title)}"] if block.title else []
            yield "  \n".join(
                _line(line) if block.labelled else escape(line) for line in block.lines
            )
        elif isinstance(block, Bullets):
            items = "\n".join(f"- {escape(item)}" for item in block.items)
            yield f"## {escape(block.title)}\n\n{items}"
        else:
            yield _sheet(block, caption)


def _line(line: str) -> str:
    label, rest = label_of(line)
    return f"**{escape(label)}** {escape(rest)}" if label else escape(rest)


def _picture(drawn: Figure) -> str:
    words = ". ".join(filter(None, (f"**{escape(drawn.title)}**", escape(drawn.caption))))
    return f"![{escape(drawn.title)}]({quote(f'{FOLDER}/{drawn.name}.png')})\n\n{words}"


def _sheet(sheet: Sheet, caption: Sequence[str]) -> str:
    lines = [
        [column.heading for column in sheet.columns],
        ["---:" if column.numeric else "---" for column in sheet.columns],
        *sheet.rows,
    ]
    rows = [f"| {' | '.join(map(escape, line))} |" for line in lines]
    rows[1] = f"| {' | '.join(lines[1])} |"
    below = "  \n".join(map(escape, caption))
    return f"## {escape(sheet.title)}\n\n" + "\n".join(rows) + (f"\n\n{below}" if below else "")


def escape(text: str) -> str:
    """The text on one line as Markdown that shows it: no link, image, formula, HTML or heading.

    Addresses, which would become links by themselves, stand as code.
    """
    parts = _ADDRESS.split(visible_line(text).strip())
    # Every second part is an address.
    parts[::2] = [_MARKS.sub(r"\\\g<0>", part) for part in parts[::2]]
    parts[1::2] = [_as_code(part) for part in parts[1::2]]
    return _AT_THE_START.sub(r"\1\\\2", "".join(parts))


def _as_code(address: str) -> str:
    return f"`{address.replace('`', chr(39)).replace('|', '%7C')}`"
