"""The pages that are filled in from the golden records: what they ask for is there, once."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import figures
import fill
import pytest
from records import Golden, Row, Run
from words import WrongReferenceError, between, duration, number, span, word

from maxk_lab.reports.claims import ClaimVerdict
from maxk_lab.statistics.intervals import Interval

ROWS = [
    {"estimator": "maxk", "baseline": "none", "n": 4, "variance": 12.34},
    {"estimator": "maxk", "baseline": "centred", "n": 4, "variance": 1.0},
    {"estimator": "maxk", "baseline": "centred", "n": 8, "variance": None},
]
ENDS = {"variance_low": 11.0, "variance_high": 13.96}
CLAIM = ClaimVerdict(
    "undecided", "b", Interval(0.353, -3.5e-4, 1.2e5, 0.975), 2, 3, "ratios", "less", "a"
)


@pytest.fixture
def run() -> Run:
    made = Run("tiny", Path("tiny.zip"))
    origin = SimpleNamespace(seeds=(0, 1))
    vars(made)["report"] = SimpleNamespace(verdicts={"less": CLAIM}, origin=origin)
    vars(made)["_rows"] = [Row(made, row | ENDS) for row in ROWS]
    return made


def test_a_row_is_found_by_its_axes(run: Run) -> None:
    row = run.row(baseline="none", n=4)
    assert row.told("variance") == "12.3 [11.0, 14.0]"
    assert len(run.rows(baseline="centred")) == 2
    assert len(run.rows({"n": [4, 8]}, estimator="maxk")) == 3
    assert run.seeds == 2


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda run: run.row(baseline="rloo"), "tiny: no row where {'baseline': 'rloo'}"),
        (lambda run: run.row(baseline="centred"), "2 instead of one"),
        (lambda run: run.row(n=8)["variance"], r"tiny \(estimator=maxk.*n=8\): no variance"),
        (lambda run: run.row(n=8)["varance"], "no varance"),
        (lambda run: run.claim("more"), "tiny: no claim more"),
    ],
)
def test_a_reference_to_none_or_to_several_is_an_error(run: Run, ask: Any, said: str) -> None:
    with pytest.raises(WrongReferenceError, match=said):
        ask(run)


def test_numbers_are_told_to_three_digits() -> None:
    told = [150_819.0, 1530.4, 999.4, 0.5, 0.0194, -3.5e-4, 0.0, float("inf")]
    assert list(map(number, told)) == [
        *("151,000", "1,530", "999", "0.500", "0.0194", "−0.00035", "0", "∞")
    ]
    with pytest.raises(WrongReferenceError):
        number(float("nan"))
    assert list(map(duration, (40.2, 318, 8500))) == ["40 seconds", "5.3 minutes", "2.4 hours"]
    assert (word(10), word(13)) == ("ten", "13")
    assert (span([2.0, 1.0]), span([1.0, 1.0001])) == ("1.00 to 2.00", "1.00")


def test_a_part_of_a_text_is_between_two_of_its_lines() -> None:
    text = "Both hold\nAnswer: yes\nIt is so. \n\nClaims\n- it is\nClaims"
    assert between(text, "Answer", "Claims") == ["Answer: yes", "It is so."]
    for first, last in (("Tables", "Claims"), ("Claims", "Tables"), ("Answer", "Both")):
        with pytest.raises(WrongReferenceError, match="begins with"):
            between(text, first, last)


@pytest.fixture
def pages(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one template, which is about the run of two rows."""
    golden = Golden(tmp_path)
    golden._runs["tiny"] = run
    monkeypatch.setattr(fill, "ROOT", tmp_path)
    monkeypatch.setattr(fill, "Golden", lambda: golden)
    (tmp_path / "docs/templates").mkdir(parents=True)
    return tmp_path


def filled(pages: Path, text: str, *words: str, monkeypatch: pytest.MonkeyPatch) -> int:
    (pages / "docs/templates/page.md").write_text(text)
    monkeypatch.setattr(sys, "argv", ["fill.py", *words])
    return fill.main()


def test_a_page_is_written_and_its_check_sees_when_it_is_stale(
    pages: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = '{{ run("tiny").row(baseline="none").told("variance") }}\n'
    assert filled(pages, text, monkeypatch=monkeypatch) == 0
    page = pages / "docs/page.md"
    assert page.read_text() == "12.3 [11.0, 14.0]\n"
    assert filled(pages, text, "--check", monkeypatch=monkeypatch) == 0
    page.write_text("12.9 by hand\n")
    capsys.readouterr()
    assert filled(pages, text, "--check", monkeypatch=monkeypatch) == 1
    assert page.read_text() == "12.9 by hand\n"
    assert "-12.9 by hand\n+12.3 [11.0, 14.0]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('\n{{ run("tiny").row(n=5) }}', "templates/page.md:2: tiny: no row"),
        ('{{ run("none") }}', "no golden result none"),
        ('\n\n{% do given(1 > 2, "one is more") %}', "page.md:3: .* no longer show that one is"),
        ("{{ runs }}", "'runs' is undefined"),
        ("\n{% for %}", "page.md:2"),
    ],
)
def test_a_template_that_asks_for_too_much_fails_with_its_line(
    pages: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    with pytest.raises(SystemExit, match=said):
        filled(pages, text, monkeypatch=monkeypatch)


@pytest.mark.slow
def test_a_figure_has_a_point_for_every_row_of_its_run() -> None:
    (data,) = figures.draw("pkpo_corollary3").to_dict()["datasets"].values()
    assert {row["color"] for row in data} == {0.05, 0.1, 0.2, 0.4}
    assert len(data) == 60
    assert all(row["value"] > 0 for row in data)
