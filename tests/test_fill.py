"""The pages that are filled in from the golden records: what they ask for is there, once."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fill
import pytest
from comparisons import crossing, decoded, doubts, known, ratio, ratios, settings
from records import Claim, Golden, Row, Run
from words import WrongReferenceError, between, duration, number, span, word

from maxk_lab.report.model import ClaimVerdict

ROWS = [
    {"estimator": "maxk", "baseline": "none", "n": 4, "variance": 12.34, "cells": {"0": "a"}},
    {"estimator": "maxk", "baseline": "centred", "n": 4, "variance": 1.0, "cells": {"0": "b"}},
    {"estimator": "maxk", "baseline": "centred", "n": 8, "variance": None, "cells": {"0": "c"}},
]
ENDS = {"variance_low": 11.0, "variance_high": 13.96}
CLAIM = ClaimVerdict(
    "less", "a", "undecided", "b", True, 0.353, -3.5e-4, 1.2e5, 0.975, 2, 3, "ratios"
)


@pytest.fixture
def run() -> Run:
    rows = [SimpleNamespace(cells=row["cells"]) for row in ROWS]
    made = Run("tiny", Path("tiny.zip"))
    vars(made)["report"] = SimpleNamespace(
        summary=SimpleNamespace(studies={"gradient": SimpleNamespace(rows=rows)}),
        verdicts={"less": CLAIM},
    )
    vars(made)["values"] = {"gradient": [row | ENDS for row in ROWS], "header": {"seeds": [0, 1]}}
    return made


def test_a_row_is_found_by_its_axes(run: Run) -> None:
    row = run.row(baseline="none", n=4)
    assert row.told("variance") == "12.3 [11.0, 14.0]"
    assert row.measured.cells == {"0": "a"}
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


def test_a_claim_is_told_with_its_verdict_and_its_number(run: Run) -> None:
    claim = run.claim("less")
    assert claim.verdict == "undecided"
    assert claim.measured == "0.353 [−0.00035, 120,000]"
    assert claim.counted == "2 of 3 ratios"
    assert claim.level == "97.5 %"
    with pytest.raises(WrongReferenceError, match="tiny, claim bare"):
        _ = Claim("tiny", ClaimVerdict("bare", "a", "supported", "by proof")).measured


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
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    return tmp_path


def filled(pages: Path, text: str, *words: str, monkeypatch: pytest.MonkeyPatch) -> int:
    (pages / "docs/templates/page.md").write_text(text)
    monkeypatch.setattr(sys, "argv", ["fill.py", *words])
    return fill.main()


def test_a_page_is_written_and_its_check_sees_when_it_is_stale(
    pages: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = '{{ run("tiny").row(baseline="none").told("variance") }} {{ link("a.png") }}\n'
    assert filled(pages, text, monkeypatch=monkeypatch) == 0
    page = pages / "docs/page.md"
    assert page.read_text() == "12.3 [11.0, 14.0] a.png\n"
    assert filled(pages, text, "--check", monkeypatch=monkeypatch) == 0
    page.write_text("12.9 by hand\n")
    capsys.readouterr()
    assert filled(pages, text, "--check", monkeypatch=monkeypatch) == 1
    assert page.read_text() == "12.9 by hand\n"
    assert "-12.9 by hand\n+12.3 [11.0, 14.0] a.png" in capsys.readouterr().out


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


def test_links_lead_to_the_repository_as_soon_as_there_is_one() -> None:
    bare = fill.links({})
    there = fill.links({"urls": {"Repository": "https://forge.org/lab/"}})
    assert bare("docs/a.md") == "docs/a.md"
    assert there("docs/a.md") == "https://forge.org/lab/blob/main/docs/a.md"
    assert there("results/a.png") == "https://forge.org/lab/raw/main/results/a.png"


def test_a_ratio_is_that_of_the_claim_and_its_kin() -> None:
    """On a golden result that loads in a moment; `make lint` fills every page."""
    quick = Golden()("quick")
    at = {"stage": 0, "n": 8, "k": 4}
    found = ratio(
        quick.row(baseline="subloo", **at), quick.row(baseline="none", **at), "variance", 4
    )
    claim = quick.claim("subloo_has_at_most_two_thirds_of_the_variance_of_none")
    assert found.told("ratio") == claim.measured
    some = ratios(quick.rows(baseline="subloo", k=4, stage=0), "none", "variance")
    assert [one["ratio"] for one in some][1] == found["ratio"]
    assert len(some) == 3


def test_curves_cross_where_their_difference_is_told_to_change_its_sign(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not where their means do: a difference that may be 0 says nothing."""
    from maxk_lab.studies.training import compare as comparison

    def row(*ends: tuple[float, float]) -> Row:
        found = {2**at: SimpleNamespace(low=low, high=high) for at, (low, high) in enumerate(ends)}
        return Row(Run("tiny", Path()), {}, SimpleNamespace(differences=found))

    monkeypatch.setattr(comparison, "with_differences_to", lambda row, other, level: row)
    below, open_, above = (-2, -1), (-1, 1), (1, 2)
    assert crossing(row(below, below, open_, open_, above), row()) == "2 and 16"
    assert crossing(row(above, below), row()) == "1 and 2"
    for never in ((below, open_), (open_, above), (below, above, below), (open_,)):
        with pytest.raises(WrongReferenceError, match="cross once"):
            crossing(row(*never), row())


def test_trainings_are_compared_in_a_way_of_decoding() -> None:
    run = Golden()("tsp_training")
    rows = run.rows(estimator="maxk", baseline="subloo", k=8)
    (mine,), pomo = rows, run.row(estimator="reinforce", baseline="group_mean", start="iid")
    found = decoded(mine, pomo, "greedy")
    assert found.told("difference") == mine.told("difference_greedy")
    with pytest.raises(WrongReferenceError, match="decoded by no_way"):
        decoded(mine, pomo, "no_way")
    assert run.asked == [1, 4, 8, 64]


def test_the_points_without_a_star_say_why() -> None:
    whys = [(), ("both signs", "few instances", "both signs"), ("median",)]
    rows = [
        Row(Run("tiny", Path()), {}, SimpleNamespace(rivals=[SimpleNamespace(why=w) for w in why]))
        for why in whys
    ]
    assert doubts(rows) == [{"both signs", "few instances"}, {"median"}]


def test_the_front_page_fails_when_its_records_say_otherwise() -> None:
    golden = Golden()
    page = fill.environment(golden, fill.ROOT / "docs/templates").get_template("README.md")
    for values in golden("quick").values["gradient"]:
        values["best"] = values["baseline"] == "none"
    with pytest.raises(WrongReferenceError, match="none has no star in quick"):
        page.render()


def test_a_figure_is_found_by_the_beginning_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    for name in ("gap-log", "gap", "variance-k2", "variance-k4"):
        (tmp_path / f"figures/{name}.png").touch()
    run = Run("tiny", tmp_path / "tiny.zip")
    assert run.figure("gap") == "results/golden/tiny/figures/gap.png"
    assert run.figure("variance") == "results/golden/tiny/figures/variance-k2.png"
    with pytest.raises(WrongReferenceError, match="tiny has a figure bias"):
        run.figure("bias")


def test_what_seeds_have_is_told_once_each() -> None:
    rows = [Row(Run("tiny", Path()), {"at": {"0": "T=1.5", "1": "T=1"}}) for _ in range(2)]
    assert settings(rows, "at") == "1 or 1.5"
    assert [one for one in known(rows, "at") if known([one], "no")] == []
