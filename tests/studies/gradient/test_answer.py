"""The facts of a gradient study: each count is that of its records, and no stronger."""

import pytest

from maxk_lab.reports.document import compact
from maxk_lab.reports.report import make_report
from maxk_lab.studies.gradient.answer import facts

BASELINES = ("none", "centred", "subloo")
# Noise that makes them differ.
APART = {"none": 30.0, "centred": 2.0, "subloo": 1.0}
ALIKE = {"none": 1.0, "centred": 1.0, "subloo": 1.0}


def of(lab, cells=None, noise=None, make=lambda cell: {}, **axes):
    """The facts about cells with these axes, with the noise of each baseline where given.

    And the lines of the answer.
    """
    cells = cells or lab.cells(**{"baselines": BASELINES, "ns": (8, 16), "ks": (2,), **axes})
    how = (lambda cell: {"noise": noise[cell["baseline"]]}) if noise else make
    made = {cell["id"]: how(cell) for cell in cells}
    records = [lab.record(c, **made[c["id"]]) for c in cells if made[c["id"]] is not None]
    return told(make_report(cells, records, name="it"))


def told(report):
    pooled = report.studies["gradient"]
    return facts(pooled, report.origin), [
        line for answer in report.answers for line in answer.sentences
    ]


def found(*arguments, **how):
    return of(*arguments, **how)[0]


def lines(one):
    return {line.method: line for line in one.table}


def test_the_lowest_is_used_where_it_is_significant(lab):
    one = found(lab, noise=APART, stages=(0, 200))
    (use,) = one.uses
    assert (use.name, use.lowest, use.significant, use.of, use.close) == ("subloo", 4, 4, 4, [])
    assert [line.method for line in one.table] == ["subloo", "centred", "none (no baseline)"]
    assert (lines(one)["subloo"].lowest, lines(one)["centred"].worse) == (4, 4)
    assert one.table[0].ratio.value == one.table[0].largest == 1.0
    assert one.next_best.method == "centred"
    assert [line.method for line in one.avoid] == ["none (no baseline)", "centred"]
    assert one.avoid[0].worse == 4
    assert (one.next, one.open, one.settled) == (None, 0, 4)


def test_one_setting_has_its_ratio_with_the_interval(lab):
    one, answer = of(lab, noise=APART, ns=(16,), seeds=(0,))
    ratio = compact(lines(one)["centred"].ratio)
    assert "[" in ratio
    assert f"Evidence: the next best, centred, has {ratio} times the lowest variance." in answer
    assert not any("median of" in line or "settings" in line for line in answer)
    assert answer[0].startswith("Use: subloo. It has significantly the lowest variance of 3")


def test_a_ratio_above_no_baseline_is_said_with_its_significance(lab):
    axes = {"baselines": ("none", "centred", "sample_loo"), "ns": (16, 32)}
    _, answer = of(lab, **axes)
    (line,) = (line for line in answer if line.startswith("Avoid: sample_loo"))
    assert line.endswith(
        "Its variance is significantly higher than without a baseline in 2 of 2 settings."
    )


def test_of_those_that_tie_the_simplest_is_used(lab):
    """The noise of records is drawn anew, so that one of two equal baselines has less by chance."""
    one = found(lab, noise=ALIKE | {"none": 30.0})
    (use,) = one.uses
    assert (use.name, use.significant, use.lowest) == ("centred", 0, 2)
    assert [(tie.name, tie.count) for tie in use.close] == [("subloo", 2)]
    assert {line.tied for line in one.table[:2]} == {2}


def test_what_is_equal_on_every_instance_leaves_nothing_to_choose(lab):
    cells = lab.cells(baselines=("centred", "subloo"), ns=(8, 16), ks=(2,))
    made = {(c["seed"], c["n"]): lab.record(c) for c in cells if c["baseline"] == "centred"}
    same = [lab.done(cell, made[cell["seed"], cell["n"]].metrics) for cell in cells]
    one, answer = told(make_report(cells, same, name="it"))
    assert (one.contests, one.uses) == (2, [])
    assert answer[0] == "Use: any unbiased baseline; their estimates are equal on every instance."


def test_a_biased_baseline_is_not_compared_and_its_length_is_told(lab):
    one = found(lab, baselines=("group_mean", "centred", "pkpo_sloo"), ns=(8,), ks=(4,))
    assert one.uses[0].name == "centred"
    (biased,) = one.bias.biased
    assert (biased.name, biased.kind) == ("group_mean", "too short")
    assert (biased.rows, biased.of, biased.formula) == (1, 1, "biased")
    assert lines(one)["group_mean"].ratio is None
    one, answer = of(lab, baselines=("group_mean",))
    assert (one.contests, one.unbiased_methods) == (0, 0)
    assert answer[0].startswith("Use: no recommendation. No method is proved unbiased")


def test_a_bias_against_the_proof_is_an_alarm(lab):
    def make(cell):
        return {"bias_off_gradient": float(cell["baseline"] == "affine[0.5]")}

    one, answer = of(lab, baselines=("centred", "affine[0.5]", "none"), ns=(16,), make=make)
    alarms = [(alarm.name, alarm.count) for alarm in one.bias.alarms]
    assert (alarms, one.bias.not_rejected) == ([("affine[0.5]", 1)], 2)
    assert any(line.startswith("Alarm: ") for line in answer)
    assert lines(one)["affine[0.5]"].bias == "ALARM in 1 of 1"
    # Beside an alarm the tested rows are all counted.
    assert any("does not reject 2 of 3 tested rows" in line for line in answer)


def test_nothing_is_said_of_a_setting_with_a_missing_row(lab):
    """`subloo` at n = 16 lacks a seed, and could be the lowest there."""

    def make(cell):
        missing = (cell["baseline"], cell["n"], cell["seed"]) == ("subloo", 16, 1)
        return None if missing else {"noise": APART[cell["baseline"]]}

    one, answer = of(lab, make=make)
    assert answer[0].startswith("Missing: 1 of 6 rows lack results (stage0/maxk/subloo/n16/k2).")
    assert not any("significantly lowest baseline" in line for line in answer)
    assert one.contests == 1
    assert (one.uses[0].name, one.uses[0].of) == ("subloo", 1)
    one = found(lab, make=lambda cell: {"status": "failed"})
    assert (one.table, one.uses) == ([], [])


def test_without_a_gradient_no_bias_is_denied(lab):
    cells = lab.cells(baselines=BASELINES, ns=(16,), ks=(2,))
    records = [lab.record(cell) for cell in cells]
    for record in records:
        units = record.metrics["units"]
        units["truth"] = units["inner"] = [None] * len(units["truth"])
    one, answer = told(make_report(cells, records, name="it"))
    assert (one.bias.not_tested, one.bias.reason) == (3, "no gradient to judge against")
    assert "Next: test the bias of 3 rows with a larger pool." in answer
    assert one.bias.not_rejected == 0


def test_far_above_without_significance_is_said_and_what_would_settle_it(lab):
    """Too few instances: the interval alone excludes 1 by far, the corrected test is short."""
    one, answer = of(lab, instances=4, seeds=(0,), noise=APART)
    (use,) = one.uses
    assert (use.significant, use.fixed) == (0, 2)
    assert one.avoid[0].worse == 0
    assert one.next is not None
    assert (one.next.instances > 4, one.next.open, one.open) == (True, 2, 2)
    assert not any(line == "Next: nothing open." for line in answer)
    assert any(
        line.startswith("Avoid: none (no baseline) has ") and "after correction" in line
        for line in answer
    )


def test_harm_is_counted(lab):
    one = found(
        lab, baselines=("none", "centred", "sample_loo"), ns=(16, 32), ks=(2,), stages=(0, 200)
    )
    harm = {avoid.method: avoid.worse_than_none for avoid in one.avoid}
    assert (harm["sample_loo"], harm["none (no baseline)"]) == (4, 0)
    assert all(avoid.worse_than_none == 0 for avoid in found(lab, noise=ALIKE).avoid)


@pytest.mark.parametrize("noise", [90.0, 1.0])
def test_estimators_of_one_gradient_are_compared(lab, noise):
    cells = lab.cells(baselines=("none", "centred"), ns=(8, 16), ks=(2,))
    others = [
        cell | {"estimator": "hybrid[1]", "id": f"other-{cell['id']}"}
        for cell in cells
        if cell["baseline"] == "none"
    ]
    make = {"make": lambda cell: {"noise": noise} if cell in others else {}}
    one = found(lab, [*cells, *others], **make)
    assert [(x.name, x.count, x.of) for x in one.estimators] == [("maxk", 2, 2)] * (noise > 1)


def test_one_method_is_no_choice(lab):
    _, answer = of(lab, baselines=("centred",), ns=(8, 16, 32))
    assert answer[0] == "Use: centred, the only method."


def test_a_baseline_of_the_user_s_own_has_its_ratio_in_table_and_answer(lab, tmp_path, monkeypatch):
    """Nothing is derived of it, so it is not proved, and competes with nothing."""
    (tmp_path / "mine.py").write_text("def median(rewards, k): return rewards.median(-1).values\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    cells = lab.cells(baselines=("none", "centred", "subloo", "pkpo_sloo"), ns=(16,), ks=(2,))
    records = [lab.record(cell, noise=APART.get(cell["baseline"], 10.0)) for cell in cells]
    for cell in cells:
        if cell["baseline"] == "pkpo_sloo":
            cell["baseline"] = "mine:median"
    one, answer = told(make_report(cells, records, name="it"))
    own = lines(one)["mine:median"]
    assert (own.bias, own.of) == ("not proved", 0)
    assert own.ratio.value > own.ratio.low > 1
    expected = f"Not proved: mine:median has {compact(own.ratio)} times the lowest variance."
    assert any(line.startswith(expected) and "maxk-lab check" in line for line in answer)
    assert one.uses[0].competing == 3


def test_another_baseline_is_used_in_settings_that_the_first_does_not_win(lab):
    def make(cell):
        return {
            "noise": APART[cell["baseline"]]
            * (20 if (cell["baseline"], cell["n"]) == ("subloo", 16) else 1)
        }

    one, answer = of(lab, ns=(8, 16, 32), make=make)
    (use,) = one.uses
    assert (use.name, use.lowest, use.of) == ("subloo", 2, 3)
    assert [(each.name, each.count) for each in use.alternatives] == [("centred", 1)]
    assert "Use: centred in the other setting." in answer
