"""The order of a report: the answer, claims, short tables, figures, and the rest folded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from maxk_lab.reports.answer import Answer
from maxk_lab.reports.charts import Figure
from maxk_lab.reports.claims import ClaimVerdict, Verdict, count_verdicts
from maxk_lab.reports.document import Block
from maxk_lab.reports.formats.render import rendered
from maxk_lab.reports.report import Report, make_report

FIGURE = Figure("curves_1", "What grows & what does not", "Up is better.", "", ())


def claim(verdict: Verdict, name: str = "it") -> ClaimVerdict:
    return ClaimVerdict(verdict, "1.00 [0.90, 1.10]", name=name, text="a is at most b")


@pytest.fixture
def report(lab: Any) -> Report:
    """A report with an answer that does not depend on its records."""
    cells = lab.cells(baselines=("none", "centred"), ns=(8,), ks=(2,))
    report = make_report(cells, map(lab.record, cells), name="it", description="Which is best?")
    answer = Answer(("Use: centred.", "But < 3 seeds."), Block("In short", caption=("a note",)))
    claims = (claim("supported"), claim("undecided", "other"))
    return replace(report, answers=(answer,), claims=claims)


def test_folded_blocks_are_left_out_of_a_short_terminal_only(report: Report) -> None:
    short, full = (rendered(report, "terminal", full=full) for full in (False, True))
    assert full.startswith(short.rstrip("\n"))
    assert "All tables" in full
    assert "All tables" not in short
    places = ["Which is best?", "All 4 cells measured", "Answer", "Claims", "In short"]
    assert (found := [full.index(words) for words in places]) == sorted(found)
    assert "UNDECIDED other: 1.00 [0.90, 1.10]." in full
    assert "other: a is at most b." in full


def test_figures_come_after_the_short_tables(report: Report) -> None:
    text = rendered(replace(report, charts=(FIGURE,)), "markdown")
    places = ["**Use** centred.", "SUPPORTED it", "a note", "](figures/curves_1.png)", "All tables"]
    assert (found := [text.index(words) for words in places]) == sorted(found)
    assert "figures/" not in rendered(report, "markdown")


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        (["refuted"], "1 of 1 refuted"),
        (["supported"] * 2, "2 of 2 supported"),
        (
            ["undecided", "supported", "refuted", "supported"],
            "2 of 4 supported, 1 refuted, 1 undecided",
        ),
    ],
)
def test_verdicts_are_counted(report: Report, verdicts: list[Verdict], words: str) -> None:
    claims = tuple(map(claim, verdicts))
    assert count_verdicts(claims) == words
    assert replace(report, claims=claims).answer[-1] == f"Claims: {words}."
    assert not any(line.startswith("Claims") for line in replace(report, claims=()).answer)
