"""Claims get the verdict that the numbers carry: supported, refuted or undecided."""

import math

import pytest
import yaml
from pydantic import TypeAdapter

from maxk_lab.reports.claims import ClaimVerdict, combined, shown
from maxk_lab.reports.document import compact
from maxk_lab.reports.report import make_report
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.log_ratios import log_ratio
from maxk_lab.statistics.measures import FIXED
from maxk_lab.studies.gradient.claims import judge
from maxk_lab.sweep_file.claims import Claim


@pytest.fixture(scope="module")
def of(lab):
    """(verdict, detail) of one claim, written in YAML, on records of one sort.

    `sampled`: a cell of `affine` failed at n = 8. `proven`: the bias of most rows is known by
    enumeration; `subloo` and `sample_loo`, whose test raises an alarm, were sampled.
    """
    cells = lab.cells(ns=(8, 16), ks=(2,))
    lost = next(c["id"] for c in cells if c["baseline"] == "affine[0.5]" and c["n"] == 8)
    sampled = [
        lab.record(cell, status="failed" if cell["id"] == lost else "done") for cell in cells
    ]
    known = {
        "centred": {"make": lab.exact},
        "group_mean": {"make": lab.exact, "scale": 0.75},
        "pkpo_sloo": {"make": lab.exact, "off": 0.25},
        "subloo": {},
        "sample_loo": {"bias_off_gradient": 1.0, "noise": 1.0},
    }
    others = lab.cells(baselines=tuple(known), ns=(8,), ks=(2,))
    proven = [lab.record(cell, **known[cell["baseline"]]) for cell in others]
    records = {"sampled": (cells, sampled), "proven": (others, proven)}
    return lambda sort, claim: lab.judged(*records[sort], **yaml.safe_load(f"{{{claim}}}"))


UNBIASED = "kind: unbiased, detectable: {}, where: {{baseline: {}}}"
BIASED = "kind: biased, bias: {}, where: {{baseline: {}}}"
EQUALS = "kind: equals, metric: scale, where: {{baseline: group_mean}}, value: {}, tolerance: {}"
RATIO = "kind: ratio, metric: variance, of: {{baseline: {}}}, over: {{baseline: {}}}, {}"
LOST = "1 of 2 rows incomplete, e.g. stage0/maxk/affine[0.5]/n8/k2: 1 of 2 seeds"
ENUMERATED = "unbiased by complete enumeration in 1 rows, to a relative bias of at most 1e-09"
VERDICTS = [
    ("sampled", UNBIASED.format(0.6, "[none, centred]"), "supported", "no bias seen in 4 rows"),
    ("sampled", UNBIASED.format(0.001, "[none, centred]"), "undecided", "than the 0.001 asked for"),
    ("sampled", UNBIASED.format(0.6, "[centred, group_mean]"), "refuted", "2 of 4 rows biased"),
    ("sampled", UNBIASED.format(0.6, "affine"), "undecided", LOST),
    ("sampled", UNBIASED.format(0.6, "'affine[0.9]'"), "undecided", "no row of this run matches"),
    ("sampled", EQUALS.format("1 - k/n", 0.05), "supported", ""),
    ("sampled", EQUALS.format("1 - k/n", "1.0e-6"), "undecided", ""),
    ("sampled", EQUALS.format(1.0, 0.05), "refuted", ""),
    # Right for n = 16 and wrong for n = 8.
    ("sampled", EQUALS.format(0.875, 0.02), "refuted", ""),
    ("sampled", RATIO.format("sample_loo", "none", "at_least: 10"), "supported", ""),
    ("sampled", RATIO.format("sample_loo", "none", "at_least: 20"), "refuted", ""),
    ("sampled", RATIO.format("sample_loo", "none", "at_least: 13.4"), "undecided", ""),
    ("sampled", RATIO.format("centred", "none", "at_most: 0.1"), "supported", "(97.5 % interval,"),
    ("sampled", RATIO.format("centred", "none", "at_most: 0.01"), "refuted", ""),
    ("sampled", RATIO.format("affine", "none", "at_most: 0.1"), "undecided", ""),
    ("sampled", RATIO.format("none", "affine", "at_least: 2, where: {n: 8}"), "undecided", ""),
    ("sampled", RATIO.format("none", "affine", "at_least: 2, where: {n: 16}"), "supported", ""),
    ("proven", BIASED.format("direction", "pkpo_sloo"), "supported",
     "biased, relative bias 0.250 by complete enumeration"),
    ("proven", BIASED.format("scale", "pkpo_sloo"), "refuted", "biased, relative bias 0.250"),
    ("proven", BIASED.format("scale", "group_mean"), "supported",
     "scale bias, relative bias 0.250 by complete enumeration"),
    ("proven", BIASED.format("direction", "group_mean"), "refuted", "scale bias"),
    ("proven", BIASED.format("direction", "centred"), "refuted", "unbiased, relative bias 0.00"),
    ("proven", BIASED.format("scale", "centred"), "refuted", "unbiased"),
    # Where nothing was enumerated, not to see a bias refutes nothing.
    ("proven", BIASED.format("direction", "subloo"), "undecided", "no bias seen, p ="),
    ("proven", BIASED.format("scale", "subloo"), "undecided", "no bias seen"),
    ("proven", BIASED.format("direction", "sample_loo"), "undecided", "alarm (rejected although"),
    ("proven", BIASED.format("scale", "sample_loo"), "undecided", "alarm (rejected although"),
    ("proven", BIASED.format("direction", "[pkpo_sloo, sample_loo]"), "undecided",
     "sample_loo/n8/k2: alarm"),
    ("proven", BIASED.format("direction", "[pkpo_sloo, subloo]"), "undecided", "1 of 2 rows"),
    ("proven", BIASED.format("direction", "[pkpo_sloo, centred]"), "refuted",
     "1 of 2 rows, e.g. stage0/maxk/centred/n8/k2"),
    ("proven", UNBIASED.format("1.0e-6", "centred"), "supported", ENUMERATED),
    ("proven", UNBIASED.format("1.0e-12", "centred"), "undecided", "more than the 1e-12 asked for"),
    ("proven", UNBIASED.format("1.0e-6", "[centred, pkpo_sloo]"), "refuted",
     "1 of 2 rows biased, most clearly stage0/maxk/pkpo_sloo"),
    ("proven", UNBIASED.format(0.9, "[pkpo_sloo, sample_loo]"), "undecided",
     "sample_loo/n8/k2: alarm"),
    ("proven", UNBIASED.format(0.9, "[centred, subloo]"), "supported", "no bias seen in 2 rows"),
]  # fmt: skip


@pytest.mark.parametrize(("sort", "claim", "expected", "said"), VERDICTS)
def test_gradients(of, sort, claim, expected, said):
    found, detail = of(sort, claim)
    assert (found, said in detail) == (expected, True), detail


@pytest.fixture(scope="module")
def trained(lab):
    """(verdict, detail) of a claim on trained rows.

    Training for K = 8 gains 0.15 at Max@8 and loses 0.15 at Max@1.
    """

    def judge(seeds=(0, 1, 2), lost=(), **claim):
        cells = lab.training_cells(seeds=seeds)
        records = [
            lab.training_record(c, status="failed" if c["id"] in lost else "done") for c in cells
        ]
        gradient = lab.cells(baselines=("none",), ns=(8,), ks=(2,))
        both = cells + gradient, records + [lab.record(cell) for cell in gradient]
        return lab.judged(*both, kind="difference", **claim)

    return judge


EIGHT = {"of": {"estimator": "maxk", "k": 8}, "over": {"estimator": "reinforce", "k": 1}}
CENTRED = EIGHT | {"where": {"baseline": "centred"}}
POINT = ("centred", 8)


@pytest.mark.parametrize(
    ("metric", "side", "expected"),
    [
        ("max@8", {"at_least": 0}, "supported"),
        ("max@8", {"at_least": 0.1}, "supported"),
        ("max@8", {"at_least": 0.15}, "undecided"),
        ("max@8", {"at_least": 0.2}, "refuted"),
        ("max@8", {"at_most": 0.2}, "supported"),
        ("max@8", {"at_most": 0}, "refuted"),
        ("mean", {"at_most": 0}, "supported"),
        ("mean", {"at_least": 0}, "refuted"),
        ("max@1", {"at_most": -0.1}, "supported"),
        ("max@3", {"at_least": 0.14}, "refuted"),  # between the K at which evaluations are kept
        ("max@64", {"at_least": 0}, "undecided"),
    ],
)
def test_difference(trained, metric, side, expected):
    found, detail = trained(metric=metric, **CENTRED, **side)
    assert found == expected, detail
    if metric != "max@64":
        assert "training/maxk/centred/n8/k8 minus training/reinforce/centred/n8/k1" in detail
        assert "over 3 seeds" in detail


def test_a_difference_at_its_bound_is_not_beyond_it(lab):
    """The whole interval is the bound itself: no claim of a difference rests on that."""
    cells = lab.training_cells()
    records = [lab.training_record(cell, noise=0.0, shared=0.0) for cell in cells]
    for record in records:
        record.metrics["final"]["value"] = [0.5] * 16
    claim = {"kind": "difference", "metric": "max@8", "at_least": 0, **CENTRED}
    assert lab.judged(cells, records, **claim)[0] == "undecided"


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"lost": ["training-reinforce-centred-8-1-1"]},
         "training/reinforce/centred/n8/k1: 2 of 3 seeds finished"),
        ({"seeds": (0,)}, "one seed"),
    ],
)  # fmt: skip
def test_a_difference_needs_all_seeds_of_both_rows_and_more_than_one(trained, how, said):
    found, detail = trained(metric="max@8", at_least=0, **CENTRED, **how)
    assert (found, said in detail) == ("undecided", True), detail


def test_an_interval_that_is_not_the_one_of_the_table_says_why(trained, lab):
    """One number has two intervals: that of a claim is corrected for all that the claim says."""
    records = [lab.training_record(cell) for cell in lab.training_cells()]
    rows = make_report(lab.training_cells(), records, name="it").studies["training"].rows
    (of_table,) = [compact(r.differences[8]) for r in rows if (r.key.baseline, r.key.k) == POINT]
    alone = trained(metric="max@8", at_least=0, **CENTRED)[1]
    assert of_table in alone
    assert alone.endswith("over 3 seeds, at 95 %")
    over, both = {"baseline": "centred"}, {"baseline": ["centred", "subloo"]}
    wide = {"of": EIGHT["of"] | both, "over": EIGHT["over"] | over}
    wider = trained(metric="max@8", at_least=0, **wide)[1]
    assert "training/maxk/centred/n8/k8 minus" in wider
    assert of_table not in wider
    assert wider.endswith("over 3 seeds (97.5 % interval, corrected for 2 differences)")


def test_a_claim_in_words(lab):
    """The words name the axes: 8 minus 1 would say little."""
    cells = lab.training_cells()
    claims = [
        {"kind": "difference", "metric": "max@8", "at_least": 0, **CENTRED},
        {"kind": "biased", "bias": "scale", "where": {"baseline": "mean"}},
    ]
    models = [TypeAdapter(Claim).validate_python({"name": "it", **claim}) for claim in claims]
    words = [claim.text for claim in make_report(cells, [], name="it", claims=models).claims]
    assert words == [
        "final max@8 of estimator = maxk; k = 8, minus that of estimator = reinforce; k = 1, "
        "is at least 0 where baseline = centred",
        "biased in scale only where baseline = mean",
    ]


@pytest.mark.parametrize(("metric", "sign"), [("snr", -1), ("relative_variance", 1)])
def test_unbiased_rows_of_one_objective_are_compared_by_their_variances(lab, metric, sign):
    """Whatever n: their signal is the same, and what was measured of it differs by chance."""
    cells = lab.cells(baselines=("none", "centred", "group_mean"), ns=(8, 16), ks=(2,))
    summary = make_report(cells, [lab.record(cell) for cell in cells], name="it")
    rows = {(row.key.baseline, row.key.n): row for row in summary.studies["gradient"].rows}

    def said(of, over):
        claim = {"kind": "ratio", "name": "it", "metric": metric, "at_least": 1e-9}
        claim["of"], claim["over"] = ({"baseline": b, "n": n} for b, n in (of, over))
        model = TypeAdapter(Claim).validate_python(claim)
        return judge(model, [(rows[of], rows[over])], 0.05).detail

    def by_variance(of, over):
        found = log_ratio(rows[of].units, rows[over].units)
        ends = sorted((sign * found.low, sign * found.high))
        return shown(Interval(*map(math.exp, (sign * found.value, *ends)), 0.95))

    for over in (("centred", 8), ("centred", 16)):
        assert said(("none", 8), over).endswith(f": {by_variance(('none', 8), over)}")
    # A biased row has another mean.
    biased = said(("none", 8), ("group_mean", 8))
    assert not biased.endswith(f": {by_variance(('none', 8), ('group_mean', 8))}")


def test_a_verdict_says_of_how_many_it_is_and_about_what() -> None:
    two = Interval(2.0, 1.0, 3.0, 0.95)
    parts = [ClaimVerdict("supported", "a: 1"), ClaimVerdict("undecided", "b: 2", two)]
    assert combined([*parts, ClaimVerdict("supported", "c: 3")], "ratios") == ClaimVerdict(
        "undecided", "1 of 3 ratios, e.g. b: 2", two, 1, 3, "ratios"
    )
    assert shown(Interval(1.0, 0.9, 1.1, 0.95)) == "1.00 [0.900, 1.10]"
    without = Interval(154.0, math.nan, math.nan, 0.95, "too few", question=FIXED)
    assert shown(without) == "— (fixed instances: too few)"
    here = Interval(2.08, 2.08, 2.08, 0.95, question=FIXED)
    assert shown(here) == "2.08 [2.08, 2.08] (fixed instances)"
    # Three digits would say that it is what it was found not to be.
    assert shown(Interval(1.00004, 1.00002, 1.00006, 0.95)) == "1.00004 [1.00002, 1.00006]"
