"""A report as Markdown, with its figures when they are given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

from maxk_lab.report.document import Block, Bullets, Paragraph, Printable, Sheet, with_captions
from maxk_lab.visible import visible_line

# Marks that act wherever they stand. Brackets do so only together: those of an interval stay.
_MARKS = re.compile(r"[\\|*_<`~$&]|(?<=\])[(\[:]")
# Marks that make a heading, a list, a quotation or a rule of the line that they open.
_AT_THE_START = re.compile(r"^(\d*)([.)](?=\s|$)|(?<!\d)(?:[#>]|[+=-](?=[\s=-]|$)))")
_ADDRESS = re.compile(r"(\S*(?:://|[wW][wW][wW]\.|[\w.+-]+@[\w-]+\.\w)\S*)")


def markdown(report: Printable) -> str:
    """The report as Markdown, its images before the first sheet."""
    parts = [f"# {escape(report.title)}"]
    pictures = [f"![{escape(caption)}]({quote(path)})" for caption, path in report.images]
    for block, caption in with_captions(report.blocks):
        if isinstance(block, Sheet):
            parts += pictures
            pictures = []
        parts.append(_block(block, caption))
    return "\n\n".join([*parts, *pictures]) + "\n"


def _block(block: Block, caption: Sequence[str]) -> str:
    if isinstance(block, Paragraph):
        return "  \n".join(escape(line) for line in block.lines)
    if isinstance(block, Bullets):
        items = "\n".join(f"- {escape(item)}" for item in block.items)
        return f"## {escape(block.title)}\n\n{items}"
    rules = " | ".join("---:" if column.numeric else "---" for column in block.columns)
    lines = [
        f"| {' | '.join(escape(column.heading) for column in block.columns)} |",
        f"| {rules} |",
        *(
            f"| {' | '.join(escape(column.text(row)) for column in block.columns)} |"
            for row in block.rows
        ),
    ]
    below = "  \n".join(escape(line) for line in caption)
    return f"## {escape(block.title)}\n\n" + "\n".join(lines) + (f"\n\n{below}" if below else "")


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
