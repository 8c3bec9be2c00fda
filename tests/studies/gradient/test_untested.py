"""Instances whose pool misses too much of the gradient take no part, and the report says so."""

import pytest

from maxk_lab.report.summarise import summarise_records


def rows(lab, needed):
    """The rows of records in which the instances need these pools, by turns, times the planned."""
    cells = lab.cells(baselines=("centred", "none"), ns=(16,), ks=(2,))
    records = [lab.record(cell) for cell in cells]
    for record in records:
        pool, count = record.cell["pool"], record.cell["instances"]
        of = [needed[i % len(needed)] for i in range(count)]
        record.metrics["tested_from"] = [None if one is None else one * pool for one in of]
    return cells, summarise_records(cells, records, name="it").studies["gradient"].rows


def test_a_row_of_which_nothing_is_testable_is_not_judged_and_says_what_would_do(lab):
    cells, found = rows(lab, [3, 10])
    assert {row.bias.verdict for row in found} == {"undefined"}
    count = sum(c["instances"] for c in cells) // 2
    for row in found:
        assert row.bias.reason == (
            "not testable: too few trajectories in the pool carry the gradient on "
            f"{count} of {count} instances; a pool of {10 * row.pool:,} would do"
        )


@pytest.mark.parametrize("missing", [None, 1e30])
def test_no_pool_is_named_where_none_is_known_to_do(lab, missing):
    _, found = rows(lab, [missing])
    assert not any("would do" in row.bias.reason for row in found)


def test_a_row_that_is_tested_on_some_instances_is_judged_by_these_and_says_it(lab):
    _, found = rows(lab, [0, 0.5, 1, 4])
    assert {row.bias.verdict for row in found} == {"no bias seen"}
    for row in found:
        assert row.untested is not None
        assert (row.untested.instances * 4, row.untested.pool) == (row.untested.of, 4 * row.pool)


def test_records_of_which_no_size_was_kept_are_judged_as_they_were(lab):
    cells = lab.cells(baselines=("centred", "none"), ns=(16,), ks=(2,))
    found = summarise_records(cells, [lab.record(c) for c in cells], name="it")
    assert {row.untested for row in found.studies["gradient"].rows} == {None}
