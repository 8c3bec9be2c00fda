r"""Text from files, made harmless for its reader: nothing in it acts, and nothing is hidden.

Escape sequences and control bytes, marks of writing direction, invisible characters and lone
surrogates are spelled out as in Python, such as `\x1b`. Each writer also escapes the syntax of its
own format.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

# Controls except newline and tab, marks of direction, separators, the byte order mark, surrogates,
# and invisible letters of language tags.
_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """Return the text with control characters spelled out; its lines stay lines."""
    return _ACTING.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def visible_line(text: str) -> str:
    """Return the text on one line, with control characters spelled out."""
    return visible(" ".join(text.splitlines()).replace("\t", " "))


def json_value(value: Any, spelled: Callable[[str], str] | None = None) -> Any:
    """Return the value with NaN as None, and infinities as the texts "inf" and "-inf".

    With `spelled` its texts are made visible, and values unknown to JSON become texts.
    """
    if isinstance(value, dict):
        spell = spelled or str
        return {spell(str(name)): json_value(inner, spelled) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(inner, spelled) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if spelled is None or value is None or isinstance(value, int | float):
        return value
    return spelled(str(value))


def harmless(value: Any) -> Any:
    """Return the value as JSON holds it, with control characters in texts spelled out."""
    return json_value(value, visible)


def visible_json(value: Any, *, indent: int) -> str:
    """Return `value` as JSON with control characters in texts escaped as in JSON."""
    text = json.dumps(
        json_value(value), indent=indent, ensure_ascii=False, allow_nan=False, default=str
    )
    return _ACTING.sub(lambda match: json.dumps(match[0])[1:-1], text)
