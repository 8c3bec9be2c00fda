"""A report as Markdown, with its figures when they are given."""

from __future__ import annotations

from collections.abc import Sequence

from maxk_lab.report.document import Block, Bullets, Paragraph, Sheet, with_captions
from maxk_lab.report.report import Report


def markdown(report: Report) -> str:
    """The report as Markdown, its images before the first sheet."""
    parts = [f"# {_escape(report.title)}"]
    pictures = [f"![{_escape(caption)}]({path})" for caption, path in report.images]
    for block, caption in with_captions(report.blocks):
        if isinstance(block, Sheet):
            parts += pictures
            pictures = []
        parts.append(_block(block, caption))
    return "\n\n".join([*parts, *pictures]) + "\n"


def _block(block: Block, caption: Sequence[str]) -> str:
    if isinstance(block, Paragraph):
        return "  \n".join(_escape(line) for line in block.lines)
    if isinstance(block, Bullets):
        items = "\n".join(f"- {_escape(item)}" for item in block.items)
        return f"## {_escape(block.title)}\n\n{items}"
    rules = " | ".join("---:" if column.numeric else "---" for column in block.columns)
    lines = [
        f"| {' | '.join(_escape(column.heading) for column in block.columns)} |",
        f"| {rules} |",
        *(
            f"| {' | '.join(_escape(column.text(row)) for column in block.columns)} |"
            for row in block.rows
        ),
    ]
    below = "  \n".join(_escape(line) for line in caption)
    return f"## {_escape(block.title)}\n\n" + "\n".join(lines) + (f"\n\n{below}" if below else "")


def _escape(text: str) -> str:
    for mark in ("\\", "|", "*", "_", "<", "`"):
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", " ")
