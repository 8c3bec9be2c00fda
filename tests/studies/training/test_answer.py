"""The head of the report of a training study: the best row at each K, and what it beats."""

import re

import pytest

from maxk_lab.report.formats.render import render


@pytest.fixture(scope="module")
def text(study):
    """The report as Markdown without its escapes."""
    return render(study, "markdown").replace("\\", "")


@pytest.mark.slow
def test_the_first_block_says_which_row_is_best_at_which_k(text, study, tsp):
    titles = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert titles[:2] == [
        "Best after training, n = 16: tsp(num_loc=20)",
        "Difference to POMO (reinforce group_mean), K = 1, in short: tsp(num_loc=20)",
    ]
    best = dict(re.findall(r"^- ((?:mean |Max@)[^:]*): ([^.]*), -", text, flags=re.MULTILINE))
    assert list(best) == ["mean (Max@1)", "Max@4", "Max@8", "Max@64"]
    for k, heading in ((1, "mean (Max@1)"), (64, "Max@64")):
        value = max(row.final(k).value for row in study.studies["training"].rows)
        (row,) = [row for row in study.studies["training"].rows if row.final(k).value == value]
        assert best[heading].startswith(
            {"reinforce": ("POMO", "reinforce"), "maxk": "maxk"}[row.key.estimator]
        )
    assert best["Max@64"].endswith("K = 8")


def test_a_row_is_better_and_worse_where_its_interval_excludes_zero(text, tsp, study):
    row = tsp.row_of(study, "maxk", "subloo", 8)
    better = ", ".join(str(k) for k, found in row.differences.items() if found.low > 0)
    worse = ", ".join(str(k) for k, found in row.differences.items() if found.high < 0)
    assert better.endswith("64")
    assert worse.startswith("1")
    lines = text.split("in short")[1].split("## ")[0].splitlines()
    (line,) = [line for line in lines if line.startswith("| maxk subloo, K = 8 |")]
    assert line.endswith(f"| {better} | {worse} |")


def test_one_row_alone_is_not_called_the_best(tsp):
    text = render(tsp.report(tsp.cells(points=[("maxk", "centred", 16, 8, "iid")])), "markdown")
    assert "Best after training" not in text
    assert "in short" not in text


@pytest.mark.slow
def test_unfinished_rows_are_named_without_a_value(tsp):
    from maxk_lab.report.summarise import summarise_records

    cells = tsp.cells(seeds=(0, 1))
    records = [tsp.record(cell, "failed" if i == 3 else "done") for i, cell in enumerate(cells)][
        :-1
    ]
    text = render(summarise_records(cells, records, name="it"), "markdown").replace("\\", "")
    line = next(
        line for line in text.split("in short")[1].splitlines() if "start=multistart |" in line
    )
    assert (
        line
        == "| POMO (reinforce group_mean), K = 1, start=multistart | other objective | 1/2 | — | "
        "— | — | — |"
    )
