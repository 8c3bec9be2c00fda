"""Values packed for the page: columns in which nothing stands twice, compressed, and harmless."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from typing import Any

from maxk_lab.visible import harmless


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
    """The value as JSON, deflated, in letters that HTML takes for nothing else.

    Numbers have all their digits: what is rounded twice may differ from the other formats.
    """
    text = json.dumps(harmless(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")
