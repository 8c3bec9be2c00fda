"""Claims get the verdict that the numbers carry: supported, refuted or undecided."""

import pytest
from pydantic import TypeAdapter

from maxk_lab.report.summarise import summarise_records
from maxk_lab.sweeps.claims import Claim


@pytest.fixture(scope="module")
def verdict(lab):
    """(verdict, detail) of one claim on a study with a failed cell of `affine` (n = 8)."""
    cells = lab.cells(ns=(8, 16), ks=(2,))
    lost = next(c["id"] for c in cells if c["baseline"] == "affine[0.5]" and c["n"] == 8)
    records = [lab.record(cell, status="failed" if cell["id"] == lost else "done") for cell in cells]

    def judge(**claim):
        model = TypeAdapter(Claim).validate_python({"name": "it", **claim})
        (found,) = summarise_records(cells, records, name="study", claims=[model]).claims
        return found.verdict, found.detail

    return judge


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
        kind="equals", metric="scale", where={"baseline": "group_mean"}, value=value, tolerance=tolerance
    )
    assert found == expected, detail


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


def test_an_incomplete_partner_leaves_a_ratio_undecided(verdict):
    claim = {
        "kind": "ratio",
        "metric": "variance",
        "of": {"baseline": "none"},
        "over": {"baseline": "affine"},
    }
    assert verdict(**claim, at_least=2, where={"n": 8})[0] == "undecided"
    assert verdict(**claim, at_least=2, where={"n": 16})[0] == "supported"
