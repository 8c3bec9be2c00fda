"""Claims get the verdict that the numbers carry: supported, refuted or undecided."""

import math
from functools import partial

import pytest
from pydantic import TypeAdapter

from maxk_lab.report.claims import Judged, shown, together
from maxk_lab.report.document import compact
from maxk_lab.report.summarise import summarise_records
from maxk_lab.statistics.intervals import Interval
from maxk_lab.statistics.log_ratios import log_ratio
from maxk_lab.statistics.measures import THESE
from maxk_lab.studies.gradient.compare import judge
from maxk_lab.sweeps.spec.claims import Claim


@pytest.fixture(scope="module")
def verdict(lab):
    """(verdict, detail) of one claim on a study with a failed cell of `affine` (n = 8)."""
    cells = lab.cells(ns=(8, 16), ks=(2,))
    lost = next(c["id"] for c in cells if c["baseline"] == "affine[0.5]" and c["n"] == 8)
    records = [
        lab.record(cell, status="failed" if cell["id"] == lost else "done") for cell in cells
    ]

    return partial(lab.judged, cells, records)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("baseline", "detectable", "expected", "said"),
    [
        (["none", "centred"], 0.6, "supported", "no bias seen in 4 rows"),
        (["none", "centred"], 0.001, "undecided", "more than the 0.001 asked for"),
        (["centred", "group_mean"], 0.6, "refuted", "2 of 4 rows biased"),
        (
            "affine",
            0.6,
            "undecided",
            "1 of 2 rows incomplete, e.g. stage0/maxk/affine[0.5]/n8/k2: 1 of 2 seeds",
        ),
        ("affine[0.9]", 0.6, "undecided", "no row of this run matches"),
    ],
)
def test_unbiased(verdict, baseline, detectable, expected, said):
    found, detail = verdict(kind="unbiased", where={"baseline": baseline}, detectable=detectable)
    assert (found, said in detail) == (expected, True), detail


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "tolerance", "expected"),
    [
        ("1 - k/n", 0.05, "supported"),
        ("1 - k/n", 1e-6, "undecided"),
        (1.0, 0.05, "refuted"),
        (0.875, 0.02, "refuted"),  # right for n = 16 and wrong for n = 8
    ],
)
def test_equals(verdict, value, tolerance, expected):
    found, detail = verdict(
        kind="equals",
        metric="scale",
        where={"baseline": "group_mean"},
        value=value,
        tolerance=tolerance,
    )
    assert found == expected, detail


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of", "over", "side", "expected"),
    [
        ("sample_loo", "none", {"at_least": 10}, "supported"),
        ("sample_loo", "none", {"at_least": 20}, "refuted"),
        ("sample_loo", "none", {"at_least": 13.4}, "undecided"),
        ("centred", "none", {"at_most": 0.1}, "supported"),
        ("centred", "none", {"at_most": 0.01}, "refuted"),
        ("affine", "none", {"at_most": 0.1}, "undecided"),
    ],
)
def test_ratio(verdict, of, over, side, expected):
    found, detail = verdict(
        kind="ratio", metric="variance", of={"baseline": of}, over={"baseline": over}, **side
    )
    assert found == expected, detail


@pytest.mark.slow
def test_an_incomplete_partner_leaves_a_ratio_undecided(verdict):
    claim = {
        "kind": "ratio",
        "metric": "variance",
        "of": {"baseline": "none"},
        "over": {"baseline": "affine"},
    }
    assert verdict(**claim, at_least=2, where={"n": 8})[0] == "undecided"
    assert verdict(**claim, at_least=2, where={"n": 16})[0] == "supported"


@pytest.fixture(scope="module")
def enumerated(lab):
    """(verdict, detail) of a claim on rows of known bias: enumerated, or `sampled` and tested."""
    cells = lab.cells(
        baselines=("centred", "group_mean", "pkpo_sloo", "none", "sample_loo"), ns=(8,), ks=(2,)
    )
    known = {
        "centred": {"make": lab.exact},
        "group_mean": {"make": lab.exact, "scale": 0.75},
        "pkpo_sloo": {"make": lab.exact, "off": 0.25},
        "none": {},
        "sample_loo": {"bias_off_gradient": 1.0, "noise": 1.0},
    }
    records = [lab.record(cell, **known[cell["baseline"]]) for cell in cells]

    return partial(lab.judged, cells, records)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("baseline", "bias", "expected", "said"),
    [
        (
            "pkpo_sloo",
            "direction",
            "supported",
            "biased, relative bias 0.250 by complete enumeration",
        ),
        ("pkpo_sloo", "scale", "refuted", "biased, relative bias 0.250"),
        (
            "group_mean",
            "scale",
            "supported",
            "scale bias, relative bias 0.250 by complete enumeration",
        ),
        ("group_mean", "direction", "refuted", "scale bias"),
        ("centred", "direction", "refuted", "unbiased, relative bias 0.00 by complete enumeration"),
        ("centred", "scale", "refuted", "unbiased"),
        # Where nothing was enumerated, not to see a bias refutes nothing.
        ("none", "direction", "undecided", "no bias seen, p ="),
        ("none", "scale", "undecided", "no bias seen"),
        ("sample_loo", "direction", "undecided", "alarm (rejected although proven"),
        ("sample_loo", "scale", "undecided", "alarm (rejected although proven"),
        (["pkpo_sloo", "sample_loo"], "direction", "undecided", "sample_loo/n8/k2: alarm"),
        (["pkpo_sloo", "none"], "direction", "undecided", "1 of 2 rows"),
        (
            ["pkpo_sloo", "centred"],
            "direction",
            "refuted",
            "1 of 2 rows, e.g. stage0/maxk/centred/n8/k2",
        ),
        ("subloo", "direction", "undecided", "no row of this run matches"),
    ],
)
def test_biased(enumerated, baseline, bias, expected, said):
    found, detail = enumerated(kind="biased", bias=bias, where={"baseline": baseline})
    assert (found, said in detail) == (expected, True), detail


@pytest.mark.parametrize(
    ("baseline", "detectable", "expected", "said"),
    [
        ("centred", 1e-6, "supported",
         "unbiased by complete enumeration in 1 rows, to a relative bias of at most 1e-09"),
        ("centred", 1e-12, "undecided", "more than the 1e-12 asked for"),
        (["centred", "pkpo_sloo"], 1e-6, "refuted",
         "1 of 2 rows biased, most clearly stage0/maxk/pkpo_sloo"),
        (["pkpo_sloo", "sample_loo"], 0.9, "undecided", "sample_loo/n8/k2: alarm"),
        (["centred", "none"], 0.9, "supported", "no bias seen in 2 rows"),
    ],
)  # fmt: skip
def test_unbiased_by_enumeration(enumerated, baseline, detectable, expected, said):
    found, detail = enumerated(kind="unbiased", where={"baseline": baseline}, detectable=detectable)
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


def test_a_difference_needs_all_seeds_of_both_rows(trained):
    found, detail = trained(
        metric="max@8", at_least=0, **CENTRED, lost=["training-reinforce-centred-8-1-1"]
    )
    assert found == "undecided"
    assert "training/reinforce/centred/n8/k1: 2 of 3 seeds finished" in detail


def test_one_seed_decides_no_difference(trained):
    found, detail = trained(metric="max@8", at_least=0, **CENTRED, seeds=(0,))
    assert found == "undecided"
    assert "one seed" in detail


def test_an_interval_that_is_not_the_one_of_the_table_says_why(trained, lab):
    """One number has two intervals: that of a claim is corrected for all that the claim says."""
    records = [lab.training_record(cell) for cell in lab.training_cells()]
    rows = summarise_records(lab.training_cells(), records, name="it").studies["training"].rows
    (of_table,) = [compact(r.differences[8]) for r in rows if (r.key.baseline, r.key.k) == POINT]
    alone = trained(metric="max@8", at_least=0, **CENTRED)[1]
    assert of_table in alone
    assert alone.endswith("over 3 seeds, at 95 %")
    over, both = {"baseline": "centred"}, {"baseline": ["centred", "subloo"]}
    wide = {"of": EIGHT["of"] | both, "over": EIGHT["over"] | over}
    wider = trained(metric="max@8", at_least=0, **wide)[1]
    assert "training/maxk/centred/n8/k8 minus" in wider
    assert of_table not in wider
    assert wider.endswith(
        "(97.5 % intervals, corrected for 2 differences; those of the tables are 95 %, each alone)"
    )


def test_so_does_a_claim_about_ratios(verdict):
    claim = {"kind": "ratio", "metric": "variance", "over": {"baseline": "none"}, "at_most": 1.0}
    where = {"of": {"baseline": "centred"}}
    assert "(97.5 % intervals, corrected for 2 ratios" in verdict(**claim, **where)[1]
    assert "corrected" not in verdict(**claim, **where, where={"n": 8})[1]


def test_a_claim_in_words(lab):
    """The words name the axes: 8 minus 1 would say little."""
    cells = lab.training_cells()
    claims = [
        {"kind": "difference", "metric": "max@8", "at_least": 0, **CENTRED},
        {"kind": "biased", "bias": "scale", "where": {"baseline": "mean"}},
    ]
    models = [TypeAdapter(Claim).validate_python({"name": "it", **claim}) for claim in claims]
    words = [claim.text for claim in summarise_records(cells, [], name="it", claims=models).claims]
    assert words == [
        "final max@8 of estimator = maxk; k = 8, minus that of estimator = reinforce; k = 1, "
        "is at least 0 where baseline = centred",
        "biased in scale only where baseline = mean",
    ]


@pytest.mark.parametrize(("metric", "sign"), [("snr", -1), ("relative_variance", 1)])
def test_unbiased_rows_of_one_objective_are_compared_by_their_variances(lab, metric, sign):
    """Whatever n: their signal is the same, and what was measured of it differs by chance."""
    cells = lab.cells(baselines=("none", "centred", "group_mean"), ns=(8, 16), ks=(2,))
    summary = summarise_records(cells, [lab.record(cell) for cell in cells], name="it")
    rows = {(row.key.baseline, row.key.n): row for row in summary.studies["gradient"].rows}

    def said(of, over):
        claim = {"kind": "ratio", "name": "it", "metric": metric, "at_least": 1e-9}
        claim["of"], claim["over"] = ({"baseline": b, "n": n} for b, n in (of, over))
        model = TypeAdapter(Claim).validate_python(claim)
        return judge(model, [(rows[of], rows[over])], 0.05).text

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
    parts = [Judged("supported", "a: 1"), Judged("undecided", "b: 2", two)]
    assert together([*parts, Judged("supported", "c: 3")], "ratios") == Judged(
        "undecided", "undecided in 1 of 3 ratios, e.g. b: 2", two, 1, 3, "ratios"
    )
    assert shown(Interval(1.0, 0.9, 1.1, 0.95)) == "1.00 [0.900, 1.10]"
    here = Interval(2.08, 2.08, 2.08, 0.95, question=THESE)
    assert shown(here) == "2.08 [2.08, 2.08] (these instances)"
    # Three digits would say that it is what it was found not to be.
    assert shown(Interval(1.00004, 1.00002, 1.00006, 0.95)) == "1.00004 [1.00002, 1.00006]"
