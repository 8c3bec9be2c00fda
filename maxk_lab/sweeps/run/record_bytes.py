"""Records as bytes: JSON with a checksum of its content, which is checked on every reading."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json

# A record of more bytes is neither written nor read.
MOST_BYTES = 256 * 2**20
# The key of the metrics that names their cell: they are of no other, whatever file they lie in.
MEASURED_OF = "cell"
_METRICS, _PROVENANCE, _STATUS = b',"metrics":', b',"provenance":', b',"status":'
# Deeper than anything that a record holds.
_DEEPEST = 200
_TOO_DEEP = "it is nested too deeply"
_SPACE = b" \n"
# A string of JSON with its quotation marks, whatever is escaped in it; one that does not end is the
# rest, or it would be looked for again at every quotation mark inside.
_STRING = re.compile(rb'("[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z))', re.DOTALL)
_CHECKSUM = re.compile(rb',"checksum":"([0-9a-f]{64})"')


def encoded(content: Mapping[str, Any]) -> bytes:
    """Return the content as JSON with its checksum.

    Raises `ValueError` or `TypeError` for what JSON cannot hold.
    """
    whole = {"checksum": _checksum(content), **content}
    return (json.dumps(whole, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def decoded(data: bytes) -> dict[str, Any]:
    """Return the content of `encoded` data. Raises `ValueError` that says what is damaged."""
    found = decoded_as_written(data)
    return decoded_in_any_layout(data) if found is None else found


def decoded_as_written(data: bytes) -> dict[str, Any] | None:
    """Return the content of data laid out as `encoded` does; None for any other, sound or not.

    The checksum is that of the text without its layout, which is cheaper to remove than the content
    is to write anew.
    """
    body = _checked(data)
    return None if body is None else _mapping(body)


def outlined(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the content without metrics and provenance, and the bare JSON of the metrics.

    Raises as `decoded`.
    """
    body = _checked(data)
    # The keys are sorted. Where these are in one place each, it is that of the whole record.
    if body is not None and all(body.count(key) == 1 for key in (_METRICS, _PROVENANCE, _STATUS)):
        before, _, rest = body.partition(_METRICS)
        metrics, _, rest = rest.partition(_PROVENANCE)
        _, _, after = rest.partition(_STATUS)
        found = _mapping(before + _STATUS + after)
        if found is not None and found.keys() >= {"cell", "status"}:
            return found, metrics
    content = decoded(data)
    content.pop("provenance", None)
    return content, _bare(content.pop("metrics", None))


def decoded_in_any_layout(data: bytes) -> dict[str, Any]:
    """Return the content of JSON data with a checksum. Raises `ValueError` as `decoded`."""
    try:
        content = json.loads(data)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError:
        raise ValueError("not complete JSON") from None
    if not isinstance(content, dict):
        raise ValueError("not a record")
    _check_depth(content, _DEEPEST)
    if content.pop("checksum", None) != _checksum(content):
        raise ValueError("its checksum does not fit its content")
    return _of_whole_letters(content)


def _of_whole_letters(content: dict[str, Any]) -> dict[str, Any]:
    """Return the content with `?` for each half of a letter, which JSON knows and no file does."""
    text = json.dumps(content, ensure_ascii=False)
    found: dict[str, Any] = json.loads(text.encode(errors="replace"))
    return found


def _check_depth(value: Any, left: int) -> None:
    if left == 0:
        raise ValueError(_TOO_DEEP)
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            _check_depth(inner, left - 1)


def _checked(data: bytes) -> bytes | None:
    """Return the text that the checksum is of; None where there is none, or it does not fit."""
    text = _without_layout(data)
    found = _CHECKSUM.search(text)
    if found is None:
        return None
    body = text[: found.start()] + text[found.end() :]
    return body if hashlib.sha256(body).hexdigest().encode() == found[1] else None


def _mapping(text: bytes) -> dict[str, Any] | None:
    try:
        content = from_json(text, allow_inf_nan=False)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(_bare(content)).hexdigest()


def _bare(content: Any) -> bytes:
    """Return JSON without a layout, of which the checksum is taken."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _without_layout(data: bytes) -> bytes:
    """Return JSON without the spaces and ends of lines that are outside of its strings."""
    if b"\\" in data:
        parts = _STRING.split(data)
        parts[::2] = [part.translate(None, _SPACE) for part in parts[::2]]
        return b"".join(parts)
    # Without an escaped one, every second quotation mark opens a string.
    parts = data.split(b'"')
    parts[::2] = b'"'.join(parts[::2]).translate(None, _SPACE).split(b'"')
    return b'"'.join(parts)
