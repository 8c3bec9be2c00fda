"""Records as bytes: the quick reading of those as written, against the reading of any JSON."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxk_lab.sweeps.run.record_bytes import (
    decoded,
    decoded_as_written,
    decoded_in_any_layout,
    encoded,
    outlined,
)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(['": ', '\\"', '{"a": 1}', "two\n lines", ',"checksum":"', "é ∞"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
CONTENT = {"cell": {"id": "ab", "n": 8}, "metrics": {"x": [0.1, None], "say": 'a "b": c'}}


@given(st.dictionaries(st.text(), VALUES))
def test_both_readings_give_what_was_written(content):
    content.pop("checksum", None)
    # Between its neighbours in a record, of which "cell" comes first.
    content |= {"cell": {}, "error": None}
    data = encoded(content)
    quick, slow = decoded_as_written(data), decoded_in_any_layout(data)
    assert slow == content
    assert quick is None or json.dumps(quick) == json.dumps(slow)
    assert json.dumps(decoded(data)) == json.dumps(slow)


@pytest.mark.parametrize("value", [0.1, -0.0, 5e-324, 1.7976931348623157e308, 2**70, '": \\"\n'])
def test_a_record_is_read_the_quick_way(value):
    content = CONTENT | {"value": value}
    found = decoded_as_written(encoded(content))
    assert found == content
    assert repr(found["value"]) == repr(value)


def test_another_layout_is_read_the_slow_way():
    whole = json.loads(encoded(CONTENT))
    for data in (
        json.dumps(whole, indent=4).encode(),
        json.dumps(dict(reversed(whole.items()))).encode(),
        json.dumps(whole, ensure_ascii=False, indent="\t").encode(),
    ):
        assert decoded(data) == CONTENT


def test_a_space_in_a_text_is_no_layout():
    data = encoded(CONTENT)
    damaged = data.replace(b"a ", b"a  ")
    assert damaged != data
    assert decoded_as_written(damaged) is None
    with pytest.raises(ValueError, match="checksum"):
        decoded(damaged)


@pytest.mark.parametrize("place", range(0, len(encoded(CONTENT)), 7))
def test_no_changed_byte_goes_unseen(place):
    data = bytearray(encoded(CONTENT))
    data[place] ^= 1
    try:
        found = decoded(bytes(data))
    except ValueError:
        found = CONTENT
    assert found == CONTENT


@given(st.dictionaries(st.sampled_from(["metrics", "status", "a"]), VALUES), VALUES, VALUES)
def test_an_outline_is_the_content_without_metrics_and_provenance(inside, metrics, provenance):
    rest = {"cell": inside, "error": ',"metrics":', "status": "done", "timings": inside}
    whole = rest | {"metrics": metrics, "provenance": provenance}
    found, bare = outlined(encoded(whole))
    assert found == rest
    assert json.loads(bare) == metrics


def test_a_damaged_outline_is_refused():
    data = encoded({"cell": {}, "metrics": {"x": 0.1}, "provenance": {}, "status": "done"})
    assert outlined(data) == ({"cell": {}, "status": "done"}, b'{"x":0.1}')
    with pytest.raises(ValueError, match="checksum"):
        outlined(data.replace(b"0.1", b"0.2"))


def test_numbers_that_json_does_not_know_are_damage():
    body = b'{"cell":{},"status":"done","timings":{"seconds":Infinity}}'
    digits = hashlib.sha256(body).hexdigest().encode()
    data = body.replace(b'"status"', b'"checksum":"' + digits + b'","status"')
    for decode in (decoded, outlined):
        with pytest.raises(ValueError, match="not JSON compliant"):
            decode(data)


def test_a_string_without_an_end_is_read_once():
    data = b'{"a": "' + rb"\"" * 50_000
    with pytest.raises(ValueError, match="not complete JSON"):
        decoded(data)
