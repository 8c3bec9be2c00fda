"""The ids of cells: those that share a part of their meaning, against the hash of all of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxk_lab.sweeps.plan.identity import IDENTITY_VERSION, SharedHash, content_hash
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.spec.load import load_spec

SCALARS = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
KEYS = ("estimator", "k", "n")


@given(
    st.dictionaries(st.text(), SCALARS | st.lists(SCALARS) | st.dictionaries(st.text(), SCALARS)),
    st.lists(st.tuples(SCALARS, SCALARS | st.booleans(), SCALARS), min_size=1),
)
def test_the_hash_of_what_is_shared_is_that_of_the_whole(shared, points):
    hashes = SharedHash(shared, KEYS)
    for point in points:
        whole = shared | dict(zip(KEYS, point))
        assert hashes.of(point) == content_hash(whole)


@pytest.mark.parametrize("shared", ["\0", {"n": "\0\0"}, ["\0", "\0\0"], '"\\u0000"', {"\0": 1}])
def test_a_shared_text_is_not_taken_for_the_mark_of_a_key(shared):
    found = SharedHash({"a": shared, "z": "\0"}, ("k", "n")).of((2, 8))
    assert found == content_hash({"a": shared, "z": "\0", "k": 2, "n": 8})


def test_numbers_that_are_equal_but_spelt_otherwise_have_hashes_of_their_own():
    hashes = SharedHash({}, ("n",))
    assert len({hashes.of((value,)) for value in (1, 1.0, True)}) == 3
    assert hashes.of((0.0,)) == hashes.of((-0.0,))


def test_the_id_of_a_cell_is_the_hash_of_what_its_record_says(small: str):
    cells = make_plan(load_spec(small)).cells
    for cell in cells:
        meaning = cell.as_dict()
        assert meaning.pop("id") == cell.id == content_hash(meaning)
        assert meaning["identity_version"] == IDENTITY_VERSION
    assert len({cell.id for cell in cells}) == len(cells)
