"""The facts of a gradient study and the sentences of its answer."""

from types import SimpleNamespace

import pytest

from maxk_lab.reports.document import compact
from maxk_lab.reports.naming import BIASED, NOT_PROVED, UNBIASED
from maxk_lab.reports.report import make_report
from maxk_lab.studies.gradient.answer import _bias_words, _biased, facts

BASELINES = ("none", "centred", "subloo")
# Noise that makes the baselines differ.
APART = {"none": 30.0, "centred": 2.0, "subloo": 1.0}
ALIKE = {"none": 1.0, "centred": 1.0, "subloo": 1.0}


def answered(cells, records):
    """The facts of a report, and the sentences of its answer."""
    report = make_report(cells, records, name="it")
    sentences = [line for answer in report.answers for line in answer.sentences]
    return facts(report.studies["gradient"], report.origin), sentences


@pytest.fixture
def answer_of(lab):
    """Answers of cells with these axes; `noise` by baseline, or `make` by cell (None: missing)."""

    def answer(cells=None, noise=None, make=lambda cell: {}, **axes):
        cells = cells or lab.cells(**{"baselines": BASELINES, "ns": (8, 16), "ks": (2,), **axes})
        how = (lambda cell: {"noise": noise[cell["baseline"]]}) if noise else make
        records = [lab.record(cell, **how(cell)) for cell in cells if how(cell) is not None]
        return answered(cells, records)

    return answer


def lines(answer):
    return {line.method: line for line in answer.table}


def test_the_lowest_is_used_if_it_is_significant(answer_of):
    one, _ = answer_of(noise=APART, stages=(0, 200))
    (use,) = one.uses
    assert (use.name, use.lowest, use.significant, use.of, use.close) == ("subloo", 4, 4, 4, [])
    assert [line.method for line in one.table] == ["subloo", "centred", "none (no baseline)"]
    assert (lines(one)["subloo"].lowest, lines(one)["centred"].worse) == (4, 4)
    assert one.table[0].ratio.value == one.table[0].largest == 1.0
    assert one.next_best.method == "centred"
    assert [(line.method, line.worse) for line in one.avoid] == [
        ("none (no baseline)", 4),
        ("centred", 4),
    ]
    assert (one.next, one.open, one.settled) == (None, 0, 4)


def test_one_setting_has_its_ratio_with_the_interval(answer_of):
    one, answer = answer_of(noise=APART, ns=(16,), seeds=(0,))
    ratio = compact(lines(one)["centred"].ratio)
    assert "[" in ratio
    assert f"Evidence: the next best, centred, has {ratio} times the lowest variance." in answer
    assert not any("median of" in line or "settings" in line for line in answer)
    assert answer[0].startswith("Use: subloo. It has significantly the lowest variance of 3")


def test_more_variance_than_without_a_baseline_is_reported_with_its_significance(answer_of):
    one, answer = answer_of(baselines=("none", "centred", "sample_loo"), ns=(16, 32))
    assert {line.method: line.worse_than_none for line in one.avoid} == {
        "sample_loo": 2,
        "none (no baseline)": 0,
    }
    (line,) = (line for line in answer if line.startswith("Avoid: sample_loo"))
    assert line.endswith("significantly higher than without a baseline in 2 of 2 settings.")


def test_of_baselines_that_tie_the_simplest_is_used(answer_of):
    """Records draw their noise anew, so one of two equal baselines has less by chance."""
    one, _ = answer_of(noise=ALIKE | {"none": 30.0})
    (use,) = one.uses
    assert (use.name, use.significant, use.lowest) == ("centred", 0, 2)
    assert [(tie.name, tie.count) for tie in use.close] == [("subloo", 2)]
    assert {line.tied for line in one.table[:2]} == {2}
    assert all(line.worse_than_none == 0 for line in answer_of(noise=ALIKE)[0].avoid)


def test_baselines_that_are_equal_on_every_instance_leave_nothing_to_choose(lab, answer_of):
    cells = lab.cells(baselines=("centred", "subloo"), ns=(8, 16), ks=(2,))
    made = {(c["seed"], c["n"]): lab.record(c) for c in cells if c["baseline"] == "centred"}
    same = [lab.done(cell, made[cell["seed"], cell["n"]].metrics) for cell in cells]
    one, answer = answered(cells, same)
    assert (one.contests, one.uses) == (2, [])
    assert answer[0] == "Use: any unbiased baseline; their estimates are equal on every instance."
    _, answer = answer_of(baselines=("centred",))
    assert answer[0] == "Use: centred, the only method."


def test_a_biased_baseline_is_not_compared_and_its_length_is_named(answer_of):
    one, _ = answer_of(baselines=("group_mean", "centred", "pkpo_sloo"), ns=(8,), ks=(4,))
    assert one.uses[0].name == "centred"
    (biased,) = one.bias.biased
    assert (biased.name, biased.kind, biased.formula) == ("group_mean", "too short", "biased")
    assert (biased.rows, biased.of) == (1, 1)
    assert lines(one)["group_mean"].ratio is None
    one, answer = answer_of(baselines=("group_mean",))
    assert (one.contests, one.unbiased_methods) == (0, 0)
    assert answer[0].startswith("Use: no recommendation. No method is proved unbiased")


def test_kinds_of_bias_are_counted_apart():
    for verdicts, words in (
        (["scale bias"], "scale"),
        (["biased", "scale bias", "scale bias"], "direction in 1 of 3, scale in 2 of 3"),
        (["no bias seen"], "by formula"),
    ):
        rows = [SimpleNamespace(bias=SimpleNamespace(verdict=each)) for each in verdicts]
        assert _bias_words(rows, BIASED) == f"biased ({words})"


@pytest.mark.parametrize(
    ("state", "proved", "formula"),
    [
        (BIASED, False, BIASED),
        (NOT_PROVED, False, NOT_PROVED),
        (UNBIASED, True, UNBIASED),
        # Trajectories of another policy bias it, not the formula.
        (UNBIASED, False, ""),
    ],
)
def test_a_bias_is_that_of_the_formula_only_if_the_formula_says_so(state, proved, formula):
    row = SimpleNamespace(
        bias=SimpleNamespace(verdict="biased"),
        intervals={"scale": SimpleNamespace(defined=False)},
        catalogued_unbiased=proved,
        key=SimpleNamespace(bias_state=state),
    )
    assert _biased("it", [row]).formula == formula


def test_a_bias_against_the_proof_is_an_alarm(answer_of):
    def make(cell):
        return {"bias_off_gradient": float(cell["baseline"] == "affine[0.5]")}

    one, answer = answer_of(baselines=("centred", "affine[0.5]", "none"), ns=(16,), make=make)
    alarms = [(alarm.name, alarm.count) for alarm in one.bias.alarms]
    assert (alarms, one.bias.not_rejected) == ([("affine[0.5]", 1)], 2)
    assert one.uses[0].name == "affine[0.5]", "an alarm bars no baseline"
    assert any(line.startswith("Alarm: ") for line in answer)
    assert lines(one)["affine[0.5]"].bias == "ALARM in 1 of 1"
    assert any("2 of 3 tested rows that are proved unbiased pass" in line for line in answer)


def test_a_setting_with_a_missing_row_is_no_contest(answer_of):
    """`subloo` at n = 16 lacks a seed, and could be the lowest there."""

    def make(cell):
        missing = (cell["baseline"], cell["n"], cell["seed"]) == ("subloo", 16, 1)
        return None if missing else {"noise": APART[cell["baseline"]]}

    one, answer = answer_of(make=make)
    assert answer[0].startswith("Missing: 1 of 6 rows lack results (stage0/maxk/subloo/n16/k2).")
    assert not any("significantly lowest baseline" in line for line in answer)
    assert (one.contests, one.uses[0].name, one.uses[0].of) == (1, "subloo", 1)
    one, _ = answer_of(make=lambda cell: {"status": "failed"})
    assert (one.table, one.uses) == ([], [])


def test_without_a_gradient_no_bias_is_denied(lab):
    cells = lab.cells(baselines=BASELINES, ns=(16,), ks=(2,))
    records = [lab.record(cell) for cell in cells]
    for record in records:
        units = record.metrics["units"]
        units["truth"] = units["inner"] = [None] * len(units["truth"])
    one, answer = answered(cells, records)
    assert (one.bias.not_tested, one.bias.reason) == (3, "no gradient to judge against")
    assert "Next: test the bias of 3 rows with a larger pool." in answer
    assert one.bias.not_rejected == 0


def test_a_ratio_that_is_not_significant_proposes_more_instances(answer_of):
    """The interval alone excludes 1; the corrected test does not."""
    one, answer = answer_of(instances=4, seeds=(0,), noise=APART)
    (use,) = one.uses
    assert (use.significant, use.fixed, one.avoid[0].worse) == (0, 2, 0)
    assert (one.next.instances > 4, one.next.open, one.open) == (True, 2, 2)
    assert "Next: nothing open." not in answer
    (line,) = (line for line in answer if line.startswith("Avoid: none (no baseline) has "))
    assert "after correction" in line


@pytest.mark.parametrize("noise", [90.0, 1.0])
def test_estimators_of_one_gradient_are_compared(lab, answer_of, noise):
    cells = lab.cells(baselines=("none", "centred"), ns=(8, 16), ks=(2,))
    hybrid = [
        cell | {"estimator": "hybrid[1]", "id": f"hybrid-{cell['id']}"}
        for cell in cells
        if cell["baseline"] == "none"
    ]
    one, _ = answer_of([*cells, *hybrid], make=lambda c: {"noise": noise} if c in hybrid else {})
    assert [(x.name, x.count, x.of) for x in one.estimators] == [("maxk", 2, 2)] * (noise > 1)


def test_a_baseline_of_the_user_is_not_proved_and_competes_with_nothing(lab, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("def median(rewards, k): return rewards.median(-1).values\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    cells = lab.cells(baselines=("none", "centred", "subloo", "pkpo_sloo"), ns=(16,), ks=(2,))
    records = [lab.record(cell, noise=APART.get(cell["baseline"], 10.0)) for cell in cells]
    for cell in cells:
        if cell["baseline"] == "pkpo_sloo":
            cell["baseline"] = "mine:median"
    one, answer = answered(cells, records)
    own = lines(one)["mine:median"]
    assert (own.bias, own.of, one.uses[0].competing) == ("not proved", 0, 3)
    assert own.ratio.value > own.ratio.low > 1
    expected = f"Not proved: mine:median has {compact(own.ratio)} times the lowest variance."
    assert any(line.startswith(expected) and "maxk-lab check" in line for line in answer)


def test_a_setting_that_the_first_does_not_win_has_an_alternative(answer_of):
    def make(cell):
        worse = (cell["baseline"], cell["n"]) == ("subloo", 16)
        return {"noise": APART[cell["baseline"]] * (20 if worse else 1)}

    one, answer = answer_of(ns=(8, 16, 32), make=make)
    (use,) = one.uses
    assert (use.name, use.lowest, use.of) == ("subloo", 2, 3)
    assert [(each.name, each.count) for each in use.alternatives] == [("centred", 1)]
    assert "Use: centred in the other setting." in answer
