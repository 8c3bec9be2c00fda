"""The ids of cells: those that share a part of their meaning, against the hash of all of it."""

from __future__ import annotations

from maxk_lab.sweeps.plan.identity import IDENTITY_VERSION, content_hash
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.spec.load import load_spec


def test_numbers_that_are_equal_but_spelt_otherwise_have_hashes_of_their_own():
    assert len({content_hash({"n": value}) for value in (1, 1.0, True)}) == 3
    assert content_hash({"n": 0.0}) == content_hash({"n": -0.0})


def test_the_id_of_a_cell_is_the_hash_of_what_its_record_says(small: str):
    cells = make_plan(load_spec(small)).cells
    for cell in cells:
        meaning = cell.as_dict()
        assert meaning.pop("id") == cell.id == content_hash(meaning)
        assert meaning["identity_version"] == IDENTITY_VERSION
    assert len({cell.id for cell in cells}) == len(cells)
