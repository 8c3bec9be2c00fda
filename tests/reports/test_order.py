"""The order of a report: the answer, claims, what they rest on, figures, and the rest folded."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from maxk_lab.reports.charts import Figure
from maxk_lab.reports.claims import verdict_lines
from maxk_lab.reports.document import Block
from maxk_lab.reports.formats.render import render
from maxk_lab.reports.model import ClaimVerdict, Summary
from maxk_lab.reports.summarise import summarise_records

PICTURES = [Figure("curves_1", "What grows & what does not", "Up is better.", SimpleNamespace())]


def claim(verdict: Any, name: str = "it") -> ClaimVerdict:
    return ClaimVerdict(name, "a is at most b", verdict, "1.00 [0.90, 1.10]")


@pytest.fixture
def summary(lab: Any, monkeypatch: pytest.MonkeyPatch) -> Summary:
    """The summary of a study whose answer is known."""
    cells = lab.cells(baselines=("none", "centred"), ns=(8,), ks=(2,))
    found = summarise_records(cells, map(lab.record, cells), name="it", description="Which one?")
    module = import_module("maxk_lab.reports.report")
    whole = module.chapter

    def chapter(kind: Any, *given: Any) -> Any:
        found = whole(kind, *given)
        if kind.name != "gradient":
            return found
        short = Block("In short", caption=("a note",))
        return replace(found, answer=("centred it is.", "But < 3 seeds."), short=(short,))

    monkeypatch.setattr(module, "chapter", chapter)
    return replace(found, claims=(claim("supported"), claim("undecided", "other")))


def test_what_is_folded_is_left_out_of_a_short_terminal_alone(summary: Summary) -> None:
    short, full = (render(summary, "terminal", full=full) for full in (False, True))
    assert full.startswith(short.rstrip("\n"))
    assert "All tables" in full
    assert "All tables" not in short
    assert full.index("Answer") < full.index("Claims") < full.index("In short")


def test_latex_has_figures_where_they_are_there_and_an_appendix(summary: Summary) -> None:
    text = render(summary, "latex", pictures=PICTURES)
    places = [
        r"\providecommand{\maxklabfigures}{figures}",
        r"\textbf{Answer.} {}centred it is.",
        r"\IfFileExists{\maxklabfigures/curves_1.png}",
        r"\caption{What grows \& what does not. Up is better.}",
        r"\section*{Appendix: All tables}",
        r"\section*{Appendix: Where these numbers come from}",
    ]
    found = [text.index(place) for place in places]
    assert found == sorted(found)
    assert "maxklabfigures" not in render(summary, "latex")


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ([], []),
        (["refuted"], ["The claim of the sweep is refuted."]),
        (["supported"] * 2, ["Both claims of the sweep are supported."]),
        (["undecided"] * 3, ["All 3 claims of the sweep are undecided."]),
        (
            ["undecided", "supported", "refuted", "supported"],
            ["Of the 4 claims of the sweep 2 are supported, 1 is refuted and 1 is undecided."],
        ),
    ],
)
def test_verdicts_are_counted_in_a_sentence(verdicts: list[str], said: list[str]) -> None:
    assert verdict_lines([claim(verdict) for verdict in verdicts]) == said
