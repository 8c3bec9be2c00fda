"""The tables of a training study that say who is best at each K, and what beats what."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from maxk_lab.studies.training.section.corrected import beaten
from scipy import stats

from maxk_lab.report.formats.render import render
from maxk_lab.statistics.seeds.over_seeds import over_seeds
from maxk_lab.studies.training.row.model import Trained, TrainingRow


@pytest.fixture(scope="module")
def text(study):
    """The report as Markdown without its escapes."""
    return render(study, "markdown").replace("\\", "")


@pytest.mark.slow
def test_the_first_block_says_which_row_is_best_at_which_k(text, study, tsp):
    titles = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert titles.index("Answer") < titles.index("In short: TSP with 20 cities")
    assert titles[titles.index("Of all tables below") + 1] == (
        "Best after training, n = 16: tsp(num_loc=20)"
    )
    best = dict(re.findall(r"^- ((?:mean |Max@)[^:]*): ([^.]*), -", text, flags=re.MULTILINE))
    assert list(best) == ["mean (Max@1)", "Max@4", "Max@8", "Max@64"]
    for k, heading in ((1, "mean (Max@1)"), (64, "Max@64")):
        value = max(row.final(k).value for row in study.studies["training"].rows)
        (row,) = [row for row in study.studies["training"].rows if row.final(k).value == value]
        assert best[heading].startswith(
            {"reinforce": ("POMO", "reinforce"), "maxk": "maxk"}[row.key.estimator]
        )
    assert best["Max@64"].endswith("K = 8")


def test_a_row_is_better_and_worse_where_the_whole_table_allows_it(text, tsp, study):
    """Holm's correction by hand: the p-values in order, times how many are left."""
    rows = study.studies["training"].rows
    ordered = sorted(
        (stats.ttest_1samp(_differences(row, other, k), 0).pvalue, row.key.path, k)
        for row in rows
        for other in rows
        if row.compared_with == other.key.path
        for k in (1, 4, 8, 64)
    )
    assert f"Holm over the study's {len(ordered)} differences at these K" in text
    told = set()
    for left, (p_value, path, k) in zip(range(len(ordered), 0, -1), ordered, strict=True):
        if p_value * left >= 0.05:
            break
        told.add((path, k))
    assert 0 < len(told) < len(ordered)
    row = tsp.row_of(study, "maxk", "subloo", 8)
    apart = {k: found for k, found in row.differences.items() if (row.key.path, k) in told}
    uncorrected = [k for k in (1, 4, 8, 64) if row.differences[k].low > 0]
    better, worse = ([k for k, of in apart.items() if sign * of.value > 0] for sign in (1, -1))
    assert (better[-1], worse[0]) == (64, 1)
    assert len(better) <= len(uncorrected)
    short = text.split("## In short")[1].split("## ")[0].splitlines()
    (line,) = [line for line in short if line.startswith("| maxk subloo for K = 8 |")]
    both = " | ".join(", ".join(map(str, ks)) for ks in (better, worse))
    assert f" | {both} | " in line
    lines = text.split("where it is told")[1].split("## ")[0].splitlines()
    (line,) = [line for line in lines if line.startswith("| maxk subloo, K = 8 |")]
    columns = [", ".join(map(str, ks)) for ks in (better, worse)]
    assert "| 5/5 |" in line
    assert line.endswith(f" | {columns[0]} | {columns[1]} |")


def _differences(row, other, k):
    seeds = sorted(row.by_seed)
    return [row.by_seed[s].curve[k - 1] - other.by_seed[s].curve[k - 1] for s in seeds]


def test_few_seeds_say_what_a_sign_test_would_need(text, tsp):
    assert "The sign test of 5 out of 5 has p = 0.062; it decides at 5% from 6 seeds on" in text


def test_a_row_far_below_is_ruled_out():
    draws = np.random.default_rng(0)
    curves = draws.normal(size=(5, 1, 1)) + 0.01 * draws.normal(size=(5, 3, 2))
    curves[:, 2, 1] -= 1
    rows = [_row(number, curves[:, number]) for number in range(3)]
    assert beaten(rows, 2, 0.05, ks=2) == [rows[2]]
    assert beaten(rows, 1, 0.05, ks=2) == []


def _row(number, curves):
    """A row of curves [S, K]."""
    return TrainingRow(
        key=SimpleNamespace(path=str(number)),
        cells=dict.fromkeys(range(len(curves)), ""),
        finished=tuple(range(len(curves))),
        catalogued_unbiased=True,
        settings=None,
        curve=tuple(over_seeds(values, 0.95) for values in curves.T),
        by_seed={seed: Trained(tuple(curve), {}) for seed, curve in enumerate(curves)},
    )


def test_one_row_alone_is_not_called_the_best(tsp):
    text = render(tsp.report(tsp.cells(points=[("maxk", "centred", 16, 8, "iid")])), "markdown")
    assert "Best after training" not in text
    assert "where it is told" not in text
    assert "there is nothing to compare it with." in text


@pytest.mark.slow
def test_unfinished_rows_are_named_without_a_value(tsp):
    from maxk_lab.report.summarise import summarise_records

    cells = tsp.cells(seeds=(0, 1))
    records = [tsp.record(cell, "failed" if i == 3 else "done") for i, cell in enumerate(cells)][
        :-1
    ]
    text = render(summarise_records(cells, records, name="it"), "markdown").replace("\\", "")
    line = next(
        line
        for line in text.split("where it is told")[1].splitlines()
        if "start=multistart |" in line
    )
    assert line == (
        "| POMO (reinforce group_mean), K = 1, start=multistart | other objective | 1/2 | — | — | "
        "— |"
    )
    assert "Without a value: POMO as shipped (start=multistart) and " in text
