"""Claims get the verdict that the numbers support: supported, refuted or undecided."""

import math

import pytest
import yaml
from pydantic import TypeAdapter

from maxk_lab.reports.claims import judge_claims, shown, side
from maxk_lab.reports.document import compact
from maxk_lab.reports.report import make_report
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.log_ratios import log_ratio
from maxk_lab.statistics.measures import FIXED
from maxk_lab.studies.gradient.claims import judge
from maxk_lab.sweep_file.claims import Claim

CLAIM = TypeAdapter(Claim)
PLACES = "environment.num_loc"


@pytest.fixture(scope="module")
def studies(lab):
    """The rows of three runs, by the name of the run.

    `sampled`: a cell of `affine` failed at n = 8. `proven`: the bias of most rows is known by
    enumeration; the test of `sample_loo` raises an alarm. `varied`: `none` has a variance of 9 at 4
    places and of 1 at 9 places. `trained`: training for K = 8 gains 0.15 at Max@8 and loses 0.15 at
    Max@1.
    """
    how = {
        "centred": {"make": lab.exact},
        "group_mean": {"make": lab.exact, "scale": 0.75},
        "pkpo_sloo": {"make": lab.exact, "off": 0.25},
        "subloo": {},
        "sample_loo": {"bias_off_gradient": 1.0, "noise": 1.0},
    }
    lost = "0-affine[0.5]-8-2-0"
    sampled = lab.cells(ns=(8, 16), ks=(2,))
    proven = lab.cells(baselines=tuple(how), ns=(8,), ks=(2,))
    varied = lab.vary(lab.cells(baselines=("none", "centred"), ns=(8,), ks=(2,)), PLACES, (9, 4))
    noise = {(9, "none"): 1.0, (9, "centred"): 4.0, (4, "none"): 9.0, (4, "centred"): 3.0}
    runs = {
        "sampled": [lab.record(c, "failed" if c["id"] == lost else "done") for c in sampled],
        "proven": [lab.record(cell, **how[cell["baseline"]]) for cell in proven],
        "varied": [
            lab.record(cell, noise=noise[cell["setting"][PLACES], cell["baseline"]])
            for cell in varied
        ],
        "trained": [lab.training_record(cell) for cell in lab.training_cells()],
    }
    return {
        name: make_report([record.cell for record in records], records, name=name).studies
        for name, records in runs.items()
    }


def judged(studies, **claim):
    """Return the verdict on a claim, and its detail."""
    (verdict,) = judge_claims([CLAIM.validate_python({"name": "it", **claim})], studies)
    return verdict.verdict, verdict.detail


UNBIASED = "kind: unbiased, detectable: {}, where: {{baseline: {}}}"
BIASED = "kind: biased, bias: direction, where: {{baseline: {}}}"
EQUALS = "kind: equals, metric: scale, where: {{baseline: group_mean}}, value: {}, tolerance: {}"
RATIO = "kind: ratio, metric: variance, of: {{baseline: {}}}, over: {{baseline: {}}}, {}"
AT = "{{setting: {{environment.num_loc: {}}}}}"
ORDER = "kind: order, metric: variance, along: [{}, {}], where: {{baseline: none}}"
LOST = "1 of 2 rows incomplete, e.g. stage0/maxk/affine[0.5]/n8/k2: 1 of 2 seeds"
ENUMERATED = "unbiased by complete enumeration in 1 rows, to a relative bias of at most 1e-09"
VERDICTS = [
    ("sampled", UNBIASED.format(0.6, "[none, centred]"), "supported", "no bias seen in 4 rows"),
    ("sampled", UNBIASED.format(0.6, "affine"), "undecided", LOST),
    ("sampled", UNBIASED.format(0.6, "'affine[0.9]'"), "undecided", "no row of this run matches"),
    ("sampled", EQUALS.format("1 - k/n", 0.05), "supported", ""),
    ("sampled", EQUALS.format("1 - k/n", "1.0e-6"), "undecided", ""),
    # Right for n = 16 and wrong for n = 8.
    ("sampled", EQUALS.format(0.875, 0.02), "refuted", ""),
    ("sampled", RATIO.format("sample_loo", "none", "at_least: 10"), "supported", ""),
    ("sampled", RATIO.format("sample_loo", "none", "at_least: 20"), "refuted", ""),
    ("sampled", RATIO.format("sample_loo", "none", "at_least: 13.4"), "undecided", ""),
    ("sampled", RATIO.format("centred", "none", "at_most: 0.1"), "supported", "(97.5 % interval,"),
    ("sampled", RATIO.format("centred", "none", "at_most: 0.01"), "refuted", ""),
    ("sampled", RATIO.format("none", "affine", "at_least: 2, where: {n: 8}"), "undecided", ""),
    ("proven", BIASED.format("[pkpo_sloo, sample_loo]"), "undecided", "sample_loo/n8/k2: alarm"),
    ("proven", BIASED.format("[pkpo_sloo, subloo]"), "undecided", "1 of 2 rows"),
    ("proven", BIASED.format("[pkpo_sloo, centred]"), "refuted", "1 of 2 rows, e.g. stage0/maxk/c"),
    ("proven", UNBIASED.format("1.0e-6", "centred"), "supported", ENUMERATED),
    ("proven", UNBIASED.format(0.9, "[centred, subloo]"), "supported", "no bias seen in 2 rows"),
    ("varied", RATIO.format("none", "centred", f"at_most: 0.5, where: {AT.format(9)}"), "supported",
     "stage0/num_loc=9/maxk/none/n8/k2 over stage0/num_loc=9/maxk/centred/n8/k2"),
    ("varied", RATIO.format("none", "centred", "at_most: 0.5"), "refuted", "1 of 2 ratios"),
    ("varied", ORDER.format(AT.format(9), AT.format(4)), "supported", "stage0/num_loc=4/maxk/none"),
    ("varied", "kind: equals, metric: scale, value: num_loc / num_loc, relative_tolerance: 0.2",
     "supported", "claimed 1.00 ± 0.2"),
]  # fmt: skip


@pytest.mark.parametrize(("run", "claim", "verdict", "words"), VERDICTS)
def test_a_claim_about_gradients(studies, run, claim, verdict, words):
    result, detail = judged(studies[run], **yaml.safe_load(f"{{{claim}}}"))
    assert (result, words in detail) == (verdict, True), detail


@pytest.mark.parametrize(
    ("baseline", "direction", "scale", "words"),
    [
        ("pkpo_sloo", "supported", "refuted", "biased, relative bias 0.250 by complete enum"),
        ("group_mean", "refuted", "supported", "scale bias, relative bias 0.250 by complete enum"),
        ("centred", "refuted", "refuted", "unbiased, relative bias 0.00"),
        # Without enumeration an undetected bias refutes nothing.
        ("subloo", "undecided", "undecided", "no bias seen, p ="),
        ("sample_loo", "undecided", "undecided", "alarm (rejected although"),
    ],
)
def test_a_claim_of_bias(studies, baseline, direction, scale, words):
    for bias, verdict in (("direction", direction), ("scale", scale)):
        claim = {"kind": "biased", "bias": bias, "where": {"baseline": baseline}}
        result, detail = judged(studies["proven"], **claim)
        assert (result, words in detail) == (verdict, True), detail


EIGHT = {"of": {"estimator": "maxk", "k": 8}, "over": {"estimator": "reinforce", "k": 1}}
MAX_AT_8 = {"kind": "difference", "metric": "max@8", "at_least": 0, **EIGHT}
MAX_AT_8 |= {"where": {"baseline": "centred"}}


@pytest.mark.parametrize(
    ("metric", "bound", "value", "verdict"),
    [
        ("max@8", "at_least", 0.1, "supported"),
        ("max@8", "at_least", 0.15, "undecided"),
        ("max@8", "at_least", 0.2, "refuted"),
        ("max@8", "at_most", 0, "refuted"),
        ("mean", "at_most", 0, "supported"),
        ("max@1", "at_most", -0.1, "supported"),
        ("max@3", "at_least", 0.14, "refuted"),  # between the K of the evaluations
        ("max@64", "at_least", 0, "undecided"),
    ],
)
def test_a_claim_of_a_difference(studies, metric, bound, value, verdict):
    claim = {**MAX_AT_8, "metric": metric, "at_least": None, bound: value}
    result, detail = judged(studies["trained"], **claim)
    assert result == verdict, detail
    if metric != "max@64":
        assert "training/maxk/centred/n8/k8 minus training/reinforce/centred/n8/k1" in detail
        assert "over 3 seeds" in detail


def test_an_interval_that_differs_from_the_table_says_why(studies):
    """The interval of a claim is corrected for all intervals of the claim."""
    rows = studies["trained"]["training"].rows
    (row,) = (row for row in rows if (row.key.baseline, row.key.k) == ("centred", 8))
    in_table = compact(row.differences[8])
    _, detail = judged(studies["trained"], **MAX_AT_8)
    assert in_table in detail
    assert detail.endswith("over 3 seeds, at 95 %")
    both = MAX_AT_8 | {
        "of": {**EIGHT["of"], "baseline": ["centred", "subloo"]},
        "over": {**EIGHT["over"], "baseline": "centred"},
        "where": {},
    }
    _, detail = judged(studies["trained"], **both)
    assert "training/maxk/centred/n8/k8 minus" in detail
    assert in_table not in detail
    assert detail.endswith("over 3 seeds (97.5 % interval, corrected for 2 differences)")


def test_a_claim_in_words(lab):
    biased = {"kind": "biased", "bias": "scale", "where": {"baseline": "mean"}}
    models = [CLAIM.validate_python({"name": "it", **claim}) for claim in (MAX_AT_8, biased)]
    report = make_report(lab.training_cells(), [], name="it", claims=models)
    assert [claim.text for claim in report.claims] == [
        "final max@8 of estimator = maxk; k = 8, minus that of estimator = reinforce; k = 1, "
        "is at least 0 where baseline = centred",
        "biased in scale only where baseline = mean",
    ]


@pytest.mark.parametrize(("metric", "sign"), [("snr", -1), ("relative_variance", 1)])
def test_unbiased_rows_of_one_objective_are_compared_by_their_variances(studies, metric, sign):
    """Their signals are equal at every n; a biased row has another mean."""
    rows = {(row.key.baseline, row.key.n): row for row in studies["sampled"]["gradient"].rows}
    of = rows["none", 8]
    claim = {"name": "it", "kind": "ratio", "metric": metric, "at_least": 1e-9}
    claim |= {"of": {"baseline": "none"}, "over": {"baseline": "centred"}}
    for over, equal in (
        (("centred", 8), True),
        (("centred", 16), True),
        (("group_mean", 8), False),
    ):
        ratio = log_ratio(of.units, rows[over].units)
        low, high = sorted((sign * ratio.low, sign * ratio.high))
        by_variance = Interval(*map(math.exp, (sign * ratio.value, low, high)), 0.95)
        detail = judge(CLAIM.validate_python(claim), [(of, rows[over])], 0.05).detail
        assert detail.endswith(f": {shown(by_variance)}") == equal, over


def test_an_interval_that_ends_at_the_bound_supports_no_strict_claim():
    ends = {(2.0, 3.0): "supported", (1.0, 2.0): "undecided", (0.0, 0.5): "refuted"}
    for (low, high), verdict in ends.items():
        for sign, bounds in ((1, (1.0, None)), (-1, (None, -1.0))):
            interval = Interval(sign * low, *sorted((sign * low, sign * high)), 0.95)
            assert side(interval, *bounds, strict=True) == verdict
            assert side(interval, *bounds) == (verdict if low != 1.0 else "supported")


def test_the_text_of_a_number_has_enough_digits_and_the_question_of_its_interval():
    texts = {
        (1.0, 0.9, 1.1): "1.00 [0.900, 1.10]",
        # Three digits would hide that the ends differ from 1.
        (1.00004, 1.00002, 1.00006): "1.00004 [1.00002, 1.00006]",
        (154.0, math.nan, math.nan, "too few", FIXED): "— (fixed instances: too few)",
        (2.08, 2.08, 2.08, "", FIXED): "2.08 [2.08, 2.08] (fixed instances)",
    }
    for (value, low, high, *question), text in texts.items():
        reason, about = question or ("", "")
        assert shown(Interval(value, low, high, 0.95, reason, question=about)) == text
