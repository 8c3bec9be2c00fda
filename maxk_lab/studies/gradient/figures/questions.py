"""The question that the intervals of a figure answer, in words for its title."""

from __future__ import annotations

from collections.abc import Sequence

from maxk_lab.studies.gradient.row.model import GradientRow


def about(rows: Sequence[GradientRow], measure: str) -> str:
    """`about instances like these`, or these where too few carry the mean; of mixed rows both."""
    told = (row.intervals[measure] for row in rows if measure in row.intervals)
    questions = dict.fromkeys(found.question for found in told if found.known and found.question)
    if len(questions) == 1:
        return f"about {next(iter(questions))}"
    return "about instances like these, or where too few of these carry the mean about these alone"
