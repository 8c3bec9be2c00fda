"""A report as Markdown, with its figures if they were drawn."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from maxk_lab.reports.document import Block, label_of, with_captions
from maxk_lab.reports.formats.render import FOLDER
from maxk_lab.visible import visible_line

if TYPE_CHECKING:
    from maxk_lab.reports.report import Report

# Characters with a meaning anywhere. Brackets have a meaning in pairs only, so intervals stay.
_MARKS = re.compile(r"[\\|*_<`~$&]|(?<=\])[(\[:]")
# Characters that begin a heading, a list, a quotation or a rule.
_AT_THE_START = re.compile(r"^(\d*)([.)](?=\s|$)|(?<!\d)(?:[#>]|[+=-](?=[\s=-]|$)))")
_ADDRESS = re.compile(r"(\S*(?:://|[wW][wW][wW]\.|[\w.+-]+@[\w-]+\.\w)\S*)")


def markdown(report: Report) -> str:
    """Return the report as Markdown; folded blocks open by a click if HTML is rendered."""
    return written(report.title, report.blocks)


def written(title: str, blocks: Iterable[Block]) -> str:
    """Return the blocks below their title, as `markdown` writes them."""
    return "\n\n".join([f"# {escape(title)}", *_parts(blocks)]) + "\n"


def _parts(blocks: Iterable[Block]) -> Iterator[str]:
    for block in with_captions(blocks):
        if block.folded:
            yield f"<details>\n<summary>{escape(block.title)}</summary>"
            yield from _parts(block.folded)
            yield "</details>"
            continue
        if block.title:
            yield f"## {escape(block.title)}"
        if block.lines:
            yield "  \n".join(map(_line if block.labelled else escape, block.lines))
        if block.items:
            yield "\n".join(f"- {escape(item)}" for item in block.items)
        for figure in block.pictures:
            yield f"![{escape(figure.title)}]({quote(f'{FOLDER}/{figure.name}.png')})"
            yield ". ".join(filter(None, (f"**{escape(figure.title)}**", escape(figure.caption))))
        if block.columns:
            rule = " | ".join("---:" if c.numeric else "---" for c in block.columns)
            head, *rows = map(_row, ([c.heading for c in block.columns], *block.rows))
            yield "\n".join([head, f"| {rule} |", *rows])
        if block.caption:
            yield "  \n".join(map(escape, block.caption))


def _line(line: str) -> str:
    label, rest = label_of(line)
    return f"**{escape(label)}** {escape(rest)}" if label else escape(rest)


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(map(escape, texts))} |"


def escape(text: str) -> str:
    """Return the text on one line as Markdown without links, images, formulas, HTML and headings.

    Addresses are written as code, so that they do not become links.
    """
    parts = _ADDRESS.split(visible_line(text).strip())
    # Every second text is an address.
    parts[::2] = [_MARKS.sub(r"\\\g<0>", text) for text in parts[::2]]
    parts[1::2] = [_as_code(text) for text in parts[1::2]]
    return _AT_THE_START.sub(r"\1\\\2", "".join(parts))


def _as_code(address: str) -> str:
    return f"`{address.replace('`', chr(39)).replace('|', '%7C')}`"
