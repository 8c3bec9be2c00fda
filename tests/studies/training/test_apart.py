"""A seed that ended apart: named, marked where its row has a value, and told of in claims."""

import json

import pytest
from pydantic import TypeAdapter

from maxk_lab.report.formats.render import render
from maxk_lab.report.summarise import summarise_records
from maxk_lab.sweeps.spec.claims import Claim

ROW, OTHER = ("maxk", "centred", 8), ("maxk", "subloo", 8)


def collapsed(found, cell):
    """Seed 3 of one row never got anywhere."""
    if (cell["estimator"], cell["baseline"], cell["k"], cell["seed"]) != (*ROW, 3):
        return
    final = found["final"]
    for end in ("value", "low", "high"):
        final[end] = [value - 4 for value in final[end]]
    final["per_instance"] = [[value - 4 for value in of_k] for of_k in final["per_instance"]]


@pytest.fixture(scope="module")
def summary(tsp):
    return tsp.report(tsp.cells(), collapsed)


def test_it_is_named_at_both_ends_of_the_curve(summary, tsp):
    row = tsp.row_of(summary, *ROW)
    assert [(each.seed, each.k) for each in row.apart] == [(3, 1), (3, 64)]
    finals = {seed: trained.curve[63] for seed, trained in row.by_seed.items()}
    others = [value for seed, value in finals.items() if seed != 3]
    told = row.apart[1]
    assert (told.value, told.low, told.high) == (finals[3], min(others), max(others))
    assert tsp.row_of(summary, *OTHER).apart == ()
    assert not tsp.row_of(summary, *OTHER).compared_apart


def test_ordinary_studies_name_hardly_any(study):
    rows = study.studies["training"].rows
    assert sum(bool(row.apart) for row in rows) <= 0.25 * len(rows)


def test_it_stands_beside_the_numbers_of_its_row(summary):
    flat = {
        (row["estimator"], row["baseline"], row["k"]): row
        for row in json.loads(render(summary, "json"))["training"]
    }
    assert flat[ROW]["seeds_apart"] == "3"
    assert flat[OTHER]["seeds_apart"] == ""


def test_a_claim_that_rests_on_it_says_so(tsp):
    claim = TypeAdapter(Claim).validate_python(
        {
            "name": "centred_beats_subloo",
            "kind": "difference",
            "metric": "max@64",
            "of": {"baseline": "centred"},
            "over": {"baseline": "subloo"},
            "where": {"k": 8},
            "at_least": 0,
        }
    )
    cells = tsp.cells(points=[("maxk", "centred", 16, 8, "iid"), ("maxk", "subloo", 16, 8, "iid")])
    records = [tsp.record(cell) for cell in cells]
    for record in records:
        collapsed(record.metrics, record.cell)
    found = summarise_records(cells, records, name="it", claims=[claim])
    (verdict,) = found.claims
    assert verdict.detail.endswith("over 5 seeds, at 95 %; seed 3 ended apart from the others")


def test_what_the_instances_of_a_seed_explain_is_not_apart(tsp):
    """One instance of one seed missed, all others solved: apart only where instances are shared."""

    def missed(instances):
        def change(found, cell):
            found["data"] = {"instances": instances or f"{cell['seed']:016x}", "source": "it"}
            one = [1.0 - (cell["seed"] == 3)] + [1.0] * 31
            final, count = found["final"], len(found["final"]["value"])
            final["per_instance"] = [one for _ in final["per_instance"]]
            final["value"] = [sum(one) / 32] * count

        return change

    cells = tsp.cells(points=[("maxk", "centred", 16, 8, "iid")])
    own, shared = (tsp.row_of(tsp.report(cells, missed(name)), *ROW) for name in ("", "0123"))
    assert own.apart == ()
    assert {each.seed for each in shared.apart} == {3}
