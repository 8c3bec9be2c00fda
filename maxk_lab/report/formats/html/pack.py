"""Values packed for the page: columns in which nothing stands twice, compressed, and harmless."""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Sequence
from typing import Any

from maxk_lab.visible import visible


def packed(values: Sequence[Any]) -> Any:
    """The values of a column: all of them, or the one that all are, or each sort and who has it.

    `page.js` unpacks the three from `[...]`, `{all}` and `{of, at}`.
    """
    sorts: dict[str, int] = {}
    at = [sorts.setdefault(repr(value), len(sorts)) for value in values]
    if len(sorts) == 1:
        return {"all": values[0]}
    if 2 * len(sorts) > len(values):
        return list(values)
    first = dict(zip(reversed(at), reversed(values), strict=True))
    return {"of": [first[place] for place in range(len(sorts))], "at": at}


def squeezed(value: Any) -> str:
    """The value as JSON, deflated, in letters that HTML takes for nothing else."""
    text = json.dumps(_told(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")


def _told(value: Any) -> Any:
    """The value as JSON holds it, with all that acts in it spelled.

    Numbers have all their digits: what is rounded twice may differ from the other formats.
    """
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, dict):
        return {visible(str(name)): _told(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_told(inner) for inner in value]
    return value if value is None or isinstance(value, int) else visible(str(value))
