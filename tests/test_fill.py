"""The pages that are filled in from the golden records: each number they ask for is in one row."""

import sys
from pathlib import Path
from types import SimpleNamespace

import fill
import findings
import pandas as pd
import pytest
import records
from records import WrongReferenceError, interval, lowest, number
from studies import read_gallery

from maxk_lab.reports.tables import Tables

ROWS = [
    ("a", "none", 4, "variance", 12.34, 11.0, 13.96),
    ("b", "centred", 4, "variance", 1.0, 0.9, 1.1),
    ("c", "centred", 8, "variance", None, None, None),
]
COLUMNS = ["row", "baseline", "n", "measure", "value", "low", "high"]
MARKED = pd.DataFrame([("best", "b", "lowest"), ("best", "a", "worse")])
MARKED.columns = ["family", "row", "verdict"]


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    tables = Tables(pd.DataFrame(ROWS, columns=COLUMNS), MARKED, pd.DataFrame())
    monkeypatch.setattr(records, "report", lambda name: SimpleNamespace(tables=tables))


def test_a_number_is_selected_by_its_axes_and_has_three_digits():
    assert interval("tiny", "variance", baseline="none", n=4) == "12.3 [11.0, 14.0]"
    assert lowest("tiny", baseline="centred") == "1 of 2"
    values = [150_819.0, 1530.4, 999.4, 0.5, 0.0194, -3.5e-4, 0.0, -123.4, float("inf")]
    assert list(map(number, values)) == [
        *("151,000", "1,530", "999", "0.500", "0.0194", "−0.00035", "0", "−123", "∞")
    ]
    with pytest.raises(WrongReferenceError):
        number(float("nan"))
    # No row, several rows, no number, no measure.
    for axes in ({"baseline": "rloo"}, {"baseline": "centred"}, {"n": 8}, {"measure": "varance"}):
        with pytest.raises(WrongReferenceError):
            interval("tiny", **({"measure": "variance"} | axes))


@pytest.fixture
def filled(tmp_path, monkeypatch):
    """Fills a README, in a folder with the templates of all pages, with options of `fill.py`."""
    monkeypatch.setattr(fill, "ROOT", tmp_path)
    monkeypatch.setattr(fill, "read_gallery", dict)
    monkeypatch.chdir(tmp_path)
    for folder in ("templates", "gallery", "explanation"):
        Path("docs", folder).mkdir(parents=True)
    for name in ("files.md", "gallery_index.md", "selection.md", "more_samples_or_prompts.md"):
        Path("docs/templates", name).touch()

    def filled(text, *words):
        Path("docs/templates/README.md").write_text(text)
        monkeypatch.setattr(sys, "argv", ["fill.py", *words])
        return fill.main()

    return filled


def test_a_page_is_written_and_its_check_sees_when_it_is_stale(filled, capsys):
    text, page = '{{ interval("tiny", "variance", baseline="none") }}\n', Path("README.md")
    assert filled(text) == 0
    assert page.read_text() == "12.3 [11.0, 14.0]\n"
    assert filled(text, "--check") == 0
    page.write_text("12.9 by hand\n")
    capsys.readouterr()
    assert filled(text, "--check") == 1
    assert page.read_text() == "12.9 by hand\n"
    assert "-12.9 by hand\n+12.3 [11.0, 14.0]" in capsys.readouterr().out
    for text, message in {
        '\n{{ interval("tiny", "variance", n=5) }}': "templates/README.md:2: tiny: 0 rows",
        '\n\n{% do require(1 > 2, "one is 2") %}': "README.md:3: .* no longer show that one is 2",
        "{{ runs }}": "'runs' is undefined",
        "\n{% for %}": "README.md:2",
    }.items():
        with pytest.raises(SystemExit, match=message):
            filled(text)


def test_the_gallery_has_every_golden_study_and_quotes_its_report():
    studies = [study for group in read_gallery().values() for study in group]
    golden = {path.parent.name for path in records.GOLDEN.glob("*/report.md")}
    assert {study.name for study in studies} == golden
    for study in studies:
        report = (records.GOLDEN / study.name / "report.md").read_text().replace("\\", "")
        assert 3 <= len(study.table) <= 10
        assert all(line in report for line in [study.question, *study.table, *study.answer])
        assert (Path(fill.__file__).parent / "gallery" / study.chart).is_file()


def test_a_change_has_a_band_over_seeds_for_all_k(monkeypatch):
    """By hand: the mean ± t(4 − 1; 0.025 / 2) s / √4 for K = 1, and no change at K = 2."""
    cell = {"estimator": "maxk", "baseline": "subloo", "k": 8}
    ends = [1.0, 2.0, 3.0, 4.0]
    runs = [(cell, {"evaluations": {"value": [[0.0, 0.5], [end, 0.5]]}}) for end in ends]
    monkeypatch.setattr(findings, "metrics", lambda name: runs)
    band = findings.change("tiny", "maxk subloo 8")
    half = 4.176535 * (5 / 3) ** 0.5 / 2
    assert band.mean.tolist() == [2.5, 0.0]
    assert band.high.tolist() == pytest.approx([2.5 + half, 0.0], rel=1e-6)
    with pytest.raises(WrongReferenceError, match="trains maxk subloo 4"):
        findings.change("tiny", "maxk subloo 4")
