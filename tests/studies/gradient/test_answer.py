"""The answer of a gradient study: each sentence is there, and no stronger than its records."""

import re

import pytest

from maxk_lab.report.document import Sheet
from maxk_lab.report.summarise import summarise_records
from maxk_lab.studies.gradient.row.best import rivals_of
from maxk_lab.studies.gradient.section import chapter, harm

BASELINES = ("none", "centred", "subloo")
# Noise that tells them apart.
APART = {"none": 30.0, "centred": 2.0, "subloo": 1.0}


def told(cells, records):
    """The chapter of these records, and its answer as one text."""
    summary = summarise_records(cells, records, name="it")
    found = chapter(summary.studies["gradient"], summary)
    return found, " ".join(found.answer)


def answer(lab, *, noise=None, how=None, **axes):
    """The answer about cells with these axes, with the noise of each baseline where given."""
    cells = lab.cells(**{"baselines": BASELINES, "ns": (8, 16), "ks": (2,), **axes})
    return told(cells, [made(lab, cell, noise, **(how or {})) for cell in cells])[1]


def made(lab, cell, noise=None, **how):
    """A record, with the noise of its baseline where given."""
    return lab.record(cell, **({"noise": noise[cell["baseline"]]} if noise else {}), **how)


def table(found):
    """The lines of the short table, by their first column."""
    (sheet,) = found.short
    assert isinstance(sheet, Sheet)
    return {
        sheet.columns[0].text(row): [column.text(row) for column in sheet.columns[1:]]
        for row in sheet.rows
    }


def test_the_headline_counts_who_is_told_apart(lab):
    text = answer(lab, noise=APART, stages=(0, 200))
    assert text.startswith(
        "subloo has the least gradient variance of the unbiased baselines in 2 of 2 values of n "
        "before training and in 2 of 2 after 200 steps, told apart from all others."
    )
    assert "not told apart" not in text
    assert re.search(
        r"before training: centred has [12]\.\d+ \[.*\] times the variance of subl", text
    )


def test_no_winner_is_named_where_two_are_not_told_apart(lab):
    """The noise of records is drawn anew, so that one of two equal baselines has less by chance."""
    text = answer(lab, noise={"none": 30.0, "centred": 1.0, "subloo": 1.0})
    assert text.startswith(
        "Which unbiased baseline has the least gradient variance is open: centred and subloo each "
        "have it, or are not told apart from the least, in all 2 values of n. In all 2 no single "
        "one is told apart from all others."
    )
    assert "Never the least is none (no baseline)." in text
    assert "(not told apart)" in text


def test_what_is_the_same_on_every_instance_is_no_tie_of_chance(lab):
    cells = lab.cells(baselines=("centred", "subloo"), ns=(8, 16), ks=(2,))
    records = {(c["seed"], c["n"]): lab.record(c) for c in cells if c["baseline"] == "centred"}
    same = [
        lab.done(cell, records[cell["seed"], cell["n"]].metrics)
        for cell in cells
        if cell["baseline"] == "subloo"
    ]
    found, text = told(cells, [*records.values(), *same])
    assert text.startswith("All unbiased baselines are the same on every instance in 2 of 2")
    assert [line[0].split()[-1] for line in table(found).values()] != ["★", "≈"]


def test_a_shrunk_baseline_is_not_compared(lab):
    found, text = told_of(lab, baselines=("group_mean", "centred", "pkpo_sloo"), ns=(8,), ks=(4,))
    assert text.startswith("Of 2 unbiased baselines, centred has the least gradient variance")
    assert "Bias: found, as derived, in group_mean (1 row), in scale alone" in text
    assert table(found)["group_mean"][1:3] == ["biased", "as derived, in scale"]
    assert list(table(found)) == ["centred", "pkpo_sloo", "group_mean"]


def told_of(lab, **axes):
    cells = lab.cells(**axes)
    return told(cells, [lab.record(cell) for cell in cells])


def test_a_bias_against_the_derivation_comes_as_an_alarm(lab):
    cells = lab.cells(baselines=("centred", "affine[0.5]", "none"), ns=(16,), ks=(2,))
    records = [
        lab.record(c, bias_off_gradient=float(c["baseline"] == "affine[0.5]")) for c in cells
    ]
    found, text = told(cells, records)
    assert "Alarm: the test of bias rejects affine[0.5] (1 row) although proven unbiased." in text
    assert "Of 2 other rows derived unbiased, none is found biased: in 2 no bias was seen" in text
    assert text.startswith("Of 3 unbiased baselines, affine[0.5] has the least")
    assert table(found)["affine[0.5]"][2] == "ALARM, unbiased by proof"


def test_nothing_is_said_of_a_size_with_a_missing_row(lab):
    """`subloo` at n = 16 lacks a seed, and could be the least there."""
    cells = lab.cells(baselines=BASELINES, ns=(8, 16), ks=(2,))
    missing = [c for c in cells if (c["baseline"], c["n"], c["seed"]) == ("subloo", 16, 1)]
    found, text = told(cells, [made(lab, cell, APART) for cell in cells if cell not in missing])
    assert text.startswith(
        "Not finished (11 of 12 cells measured; 1 missing): 1 of 6 rows lack results "
        "(stage0/maxk/subloo/n16/k2); nothing is said of them, nor of who is least at the 1 point "
        "of the grid where they could be; 1 of them have results of some seeds"
    )
    assert found.answer[1].startswith("Of 3 unbiased baselines, subloo has the least gradient")
    assert "at n = 8 and K = 2" in found.answer[1]


def test_without_any_result_only_what_is_missing_is_said(lab):
    cells = lab.cells(baselines=BASELINES, ns=(8,), ks=(2,))
    found, text = told(cells, [lab.record(cell, status="failed") for cell in cells])
    assert text.startswith("Not finished (0 of 6 cells measured; 6 failed): 3 of 3 rows lack")
    assert "nor of who is least at the 1 point" in text
    assert text.endswith("why cells failed stands below, with what is without a result.")
    assert not found.short, "a table of dashes says nothing"


def test_one_method_is_told_along_n(lab):
    found, text = told_of(lab, baselines=("centred",), ns=(8, 16, 32), ks=(2,))
    assert text.startswith("One method (maxk with centred), and so no choice: what varies is n.")
    assert "Along n, from 8 to 32, the relative variance falls at every step; as from" in text
    assert "least" not in text
    assert list(table(found)) == ["8", "16", "32"]


def test_steps_that_cannot_be_told_are_no_fall(lab):
    """The same noise at every n after scaling, so that nothing changes but by chance."""
    cells = lab.cells(baselines=("centred",), ns=(8, 16, 32), ks=(2,))
    _, text = told(cells, [lab.record(cell, noise=cell["n"] / 8) for cell in cells])
    assert re.search(r"is not told to rise or to fall; as from [\d.]+ \[.*\] to [\d.]+ \[", text)


def test_a_rise_of_the_typical_instance_is_no_want_of_one(lab):
    """A few instances leave the mean open, and all of the others rise."""
    cells = lab.cells(baselines=("centred",), ns=(8,), ks=(2,))
    cells = [cell | {"estimator": "off_policy_maxk"} for cell in cells]
    cells = lab.vary(cells, "behaviour.distance", [0.0, 1.0, 2.0])
    records = [lab.record(cell, noise=1.0) for cell in cells]
    for record in records:
        far = record.cell["setting"]["behaviour.distance"]
        units = record.metrics["units"]
        for i, (m2, square) in enumerate(zip(units["m2"], units["mean_square"], strict=True)):
            units["m2"][i] = square + (m2 - square) * (2 - 0.45 * far if i < 3 else 1 + far / 10)
    _, text = told(cells, records)
    assert (
        "from 0 to 2, the relative variance rises from the first to the last value on the " in text
    )
    assert "on the typical instance (the median); as from" in text


def test_too_few_instances_are_said_to_leave_a_trend_open(lab):
    cells = lab.vary(lab.cells(baselines=("centred",), ns=(8,), ks=(2,)), "policy.it", [4, 8, 16])
    records = [lab.record(cell, noise=1e8) for cell in cells]
    _, text = told(cells, records)
    assert "too few instances to tell at a level that is corrected for all" in text


def test_enumeration_proves(lab):
    text = answer(lab, how={"make": lab.measured})
    assert "Of 6 rows derived unbiased, none is found biased: 6 are proven so" in text
    assert "with probability" not in text


def test_of_few_instances_only_these_are_spoken_of(lab):
    text = answer(lab, instances=4, seeds=(0,), noise=APART)
    assert text.startswith("On the instances that were measured, the least gradient variance")
    assert "too few carry the mean to speak of others" in text
    assert "(on these instances)" in text
    assert text.endswith("one draw of the instances, and of the policy's parameters.")


def test_means_and_medians_that_disagree_leave_it_open(lab):
    cells = lab.cells(baselines=("centred", "subloo"), ns=(8, 16), ks=(2,))
    records = [lab.record(cell) for cell in cells]
    for record in records:
        if record.cell["baseline"] == "subloo":
            units = record.metrics["units"]
            for i, (m2, square) in enumerate(zip(units["m2"], units["mean_square"], strict=True)):
                units["m2"][i] = square + (m2 - square) * (0.02 if i < 7 else 1.4)
    _, text = told(cells, records)
    assert text.startswith("Which unbiased baseline has the least gradient variance is open: ")
    assert "What leaves 2 open: mean and median over instances do not agree (2)." in text


def test_stages_that_are_counted_together_are_named(lab):
    many = (0, 10, 20, 30, 40)
    sizes = answer(lab, noise=APART, ns=(8, 16), ks=(2, 4), stages=many)
    assert "in 20 of 20 combinations of n, K and stage, told apart" in sizes
    assert "in 5 of 5 stages, told apart" in answer(lab, noise=APART, ns=(8,), stages=many)


def test_harm_is_told_with_its_count(lab):
    text = answer(
        lab, baselines=("none", "centred", "sample_loo"), ns=(16, 32), ks=(2,), stages=(0, 200)
    )
    assert (
        "More variance than no baseline at all: sample_loo in 4 of 4 combinations of n and stage;"
        in text
    )
    (low, high) = re.search(r"sample_loo has 13\.\d \[([\d.]+), ([\d.]+)\] times it", text).groups()
    assert float(low) < 400 / 30 < float(high)


def test_of_too_many_pairs_those_at_one_size_are_compared_and_only_where_means_say_more(
    lab, monkeypatch
):
    asked = []

    def watched(none, others, level):
        asked.extend((row.key.n, row.key.baseline) for row in others)
        return rivals_of(none, others, level)

    monkeypatch.setattr(harm, "rivals_of", watched)
    monkeypatch.setattr(harm, "_MOST", 4)
    text = answer(
        lab, baselines=("none", "centred", "sample_loo"), ns=(16, 32), ks=(2,), stages=(0, 200)
    )
    assert "sample_loo in 2 of 2 stages, at n = 32 and K = 2 alone; sample_loo has" in text
    assert asked == [(32, "sample_loo")] * 2


def test_no_harm_is_told_where_it_may_be_chance(lab):
    text = answer(lab, noise={"none": 1.0, "centred": 1.0, "subloo": 1.0})
    assert "More variance than no baseline" not in text


def test_a_weak_test_says_how_little_it_could_see(lab):
    strong = answer(lab, ns=(16,))
    assert "would have been, with probability 0.8: " in strong
    weak = answer(lab, ns=(16,), noise={"none": 1e6, "centred": 1.0, "subloo": 1.0})
    assert "at most a tenth of its length in 2, larger in 1)" in weak


def test_without_a_gradient_no_bias_is_denied(lab):
    cells = lab.cells(baselines=BASELINES, ns=(16,), ks=(2,))
    records = [lab.record(cell) for cell in cells]
    for record in records:
        units = record.metrics["units"]
        units["truth"] = units["inner"] = [None] * len(units["truth"])
    found, text = told(cells, records)
    assert "Of 3 rows derived unbiased: 3 are not judged: no gradient to judge against." in text
    assert "none is found biased" not in text
    assert {line[-1] for line in table(found).values()} == {"not judged"}


@pytest.mark.parametrize("numbers", [True, False])
def test_settings_are_told_apart_by_their_own_words(lab, numbers):
    values = [4, 8, 16] if numbers else ["a/one.pt", "a/two.pt", "a/six.pt"]
    cells = lab.vary(lab.cells(baselines=BASELINES, ns=(16,), ks=(2,)), "policy.it", values)
    found, text = told(cells, [made(lab, cell, APART) for cell in cells])
    assert "in 3 of 3 values of it" in text
    assert ("Along it, from 4 to 16" in text) == numbers
    last = "it = 16" if numbers else "it = six.pt"
    assert f"{last}: centred has" in text
    (sheet,) = found.short
    assert sheet.columns[3].heading == f"{last}"


def test_many_settings_are_counted(lab):
    base = lab.cells(baselines=("centred", "none"), ns=(16,), ks=(2,))
    cells = lab.vary(lab.vary(base, "environment.arms", [1, 2, 3, 4]), "policy.it", [1, 2, 3])
    found, text = told(cells, [lab.record(cell) for cell in cells])
    assert "centred has the least gradient variance of the unbiased baselines in 12 of 12" in text
    assert table(found) == {str(one): ["centred 1"] * 4 for one in (1, 2, 3)}


def test_a_table_is_short_and_leads_to_its_cells(lab):
    many = tuple(f"affine[{share / 20}]" for share in range(1, 16))
    cells = lab.cells(baselines=many, ns=(16,), ks=(2,))
    found, _ = told(cells, [lab.record(cell, noise=1.0) for cell in cells])
    (sheet,) = found.short
    assert len(sheet.rows) == 12
    assert "3 more lines stand in the tables further down." in sheet.caption
    assert set(sheet.rows[0].cells.values()) <= {cell["id"] for cell in cells}
    cells = lab.cells(baselines=many[:13], ns=(16,), ks=(2,))
    found, _ = told(cells, [lab.record(cell, noise=1.0) for cell in cells])
    assert "1 more line stands in the tables further down." in found.short[0].caption


def test_what_no_test_could_tell_has_no_column(lab, monkeypatch):
    for groups, has in ((16, True), (8, False)):
        monkeypatch.setattr("synthetic_records.BLOCKS", groups)
        cells = lab.cells(baselines=BASELINES, ns=(16,), ks=(2,))
        (sheet,) = told(cells, [made(lab, cell) for cell in cells])[0].short
        assert ("could see" in [column.heading for column in sheet.columns]) == has
        assert any(line.startswith("could see:") for line in sheet.caption) == has


def test_all_biased_means_no_least(lab):
    cells = lab.cells(baselines=("group_mean",), ns=(8, 16), ks=(2,))
    _, text = told(cells, [lab.record(cell) for cell in cells])
    assert text.startswith("Every method here is derived biased")
    assert "least gradient variance" not in text


def with_another(lab, name, **axes):
    """Cells of maxk with centred and none, and of another unbiased estimator beside them."""
    cells = lab.cells(baselines=("none", "centred"), ks=(2,), **axes)
    others = [
        cell | {"estimator": name, "id": f"{name}-{cell['id']}"}
        for cell in cells
        if cell["baseline"] == "none"
    ]
    return cells, others


@pytest.mark.parametrize("noise", [90.0, 1.0])
def test_estimators_of_one_gradient_are_compared_where_they_can_be_told_apart(lab, noise):
    cells, others = with_another(lab, "partitioned[loo]", ns=(8, 16))
    records = [lab.record(cell) for cell in cells]
    found, text = told([*cells, *others], [*records, *(lab.record(c, noise=noise) for c in others)])
    mark = table(found)["partitioned[loo]"][1].split()[-1]
    won = "maxk has it in 2 of 2 values of n" in text
    assert won == (noise > 1)
    assert ("no single one is told apart in 2 of 2" in text) == (noise == 1)
    assert (mark == "≈") == (noise == 1)


def test_one_estimator_written_twice_is_the_same(lab):
    cells, others = with_another(lab, "partitioned[none]", ns=(16,))
    records = [lab.record(cell) for cell in cells]
    best = {r.cell["seed"]: r.metrics for r in records if r.cell["baseline"] == "centred"}
    same = [lab.done(cell, best[cell["seed"]]) for cell in others]
    found, text = told([*cells, *others], [*records, *same])
    assert "the best of two is the same on every instance in 1 of 1" in text
    assert "has it in" not in text
    marks = {name: line[1].split()[-1] for name, line in table(found).items()}
    assert (marks["maxk centred"], marks["partitioned[none]"]) in {("★", "="), ("=", "★")}


def test_the_best_possible_is_a_measure_and_no_candidate(lab):
    found, text = told_of(lab, baselines=("centred", "none", "joint_optimum"), ns=(8,), ks=(2,))
    assert text.startswith("Of 2 unbiased baselines, centred has the least gradient variance")
    found_ratio = re.search(
        r"best possible baseline \(joint_optimum\) .*: centred ([\d.]+) \[", text
    )
    assert float(found_ratio.group(1)) == pytest.approx(2, rel=0.1)
    assert "joint_optimum" not in text.split("Times the variance")[0]
    assert list(table(found))[-1] == "joint_optimum"
    (sheet,) = found.short
    assert sheet.breaks == (2,)
    caption = " ".join(sheet.caption)
    assert "of least variance for the same gradient, but for joint_optimum;" in caption
    assert "joint_optimum: fitted to every possible group of samples, which no training" in caption


def test_a_curve_of_few_instances_is_of_these_alone(lab):
    for count, said in ((4, True), (16, False)):
        cells = lab.cells(baselines=("centred",), ns=(8, 16, 32), ks=(2,), instances=count)
        _, text = told(cells, [lab.record(cell) for cell in cells])
        assert "the relative variance falls at every step" in text
        assert ("step, on the measured instances alone;" in text) == said


def test_environments_are_called_by_their_plain_names(lab):
    base = lab.cells(baselines=BASELINES, ns=(16,), ks=(2,))
    cells = [
        cell | {"environment": cell["environment"] | {"name": cell["setting"]["environment.name"]}}
        for cell in lab.vary(base, "environment.name", ["tsp", "cvrp"])
    ]
    found, text = told(cells, [made(lab, cell, APART) for cell in cells])
    assert re.search(r"in 1 of 1 cases on capacitated .* and in 1 of 1 on TSP with 20 cit", text)
    (sheet,) = found.short
    headings = [column.heading for column in sheet.columns[1:3]]
    assert headings[0].startswith("on capacitated")
    assert headings[1] == "on TSP with 20 cities"


def test_of_weights_that_stand_in_those_are_told_that_a_baseline_needs(lab):
    cells = lab.cells(baselines=("none", "optimal[length]"), ns=(16,), ks=(2,), stages=(0, 200))
    records = [lab.record(cell, noise=1.0) for cell in cells]
    for record in records:
        at = 0.5 if record.cell["stage"] else 0.1
        spread = [at + i / 1000 for i in range(16)]
        record.metrics["proxies"] = {"length": spread, "logit_proxy": spread}
    _, text = told(cells, records)
    pattern = r"stand in for: length 0\.10\d \[0.*\] before training and 0\.50\d \[0.*\] after 200"
    assert re.search(pattern, text)
    assert "logit_proxy" not in text


def test_a_table_names_the_method_that_takes_no_baseline(lab):
    """One size has one of them, and the other stands at K = 1."""
    cells = lab.cells(baselines=("none",), ns=(8,), ks=(2,))
    others = [
        cell | {"estimator": name, "k": k, "id": f"{name}-{cell['id']}"}
        for cell in cells
        for name, k in (("leader_reward[0.5]", 2), ("grpo[0.0001]", 1))
    ]
    found, _ = told(others, [lab.record(cell) for cell in others])
    assert list(table(found)) == ["leader_reward[0.5]"]
    caption = " ".join(found.short[0].caption)
    assert "At other sizes alone: grpo[0.0001]." in caption
    assert "unbiased methods can be compared" not in caption


def test_a_tie_beside_an_interval_that_denies_it_has_its_reason(lab):
    cells = lab.cells(baselines=("centred", "subloo"), ns=(16,), ks=(2,))
    records = [lab.record(cell) for cell in cells]
    for record in records:
        if record.cell["baseline"] == "subloo":
            units = record.metrics["units"]
            for i, (m2, square) in enumerate(zip(units["m2"], units["mean_square"], strict=True)):
                units["m2"][i] = square + (m2 - square) * (0.3 if i < 7 else 1.1)
    found, _ = told(cells, records)
    assert re.fullmatch(r"1\.\d+ \[1\.\d+, .*\] ≈", table(found)["centred"][1])
    caption = " ".join(found.short[0].caption)
    assert "≈ beside an interval that leaves 1 out" in caption
    assert "apart: centred (mean and median over instances do not agree)." in caption


def test_what_is_biased_by_its_formula_alone_is_not_called_biased_where_it_is_not(lab):
    cells = lab.cells(baselines=("group_mean", "centred", "pkpo_sloo"), ns=(8,), ks=(4,))
    records = [lab.record(cell) for cell in cells]
    for record in records:
        if record.cell["baseline"] == "group_mean":
            same = next(r for r in records if r.cell["baseline"] == "centred")
            record.metrics.update(same.metrics)
    found, _ = told(cells, records)
    assert table(found)["group_mean"][1:3] == ["not compared", "derived, not seen"]


def test_a_ratio_that_can_be_anything_is_not_printed(lab):
    text = answer(lab, instances=1, seeds=(0,), noise={"none": 1.0, "centred": 1.0, "subloo": 1.0})
    assert "∞]" not in text
