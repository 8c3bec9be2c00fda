"""Values as JSON can hold them, which has no NaN and no infinity."""

from __future__ import annotations

import math
from typing import Any


def plain(value: Any) -> Any:
    """The value with NaN as None, and infinities as the texts "inf" and "-inf"."""
    if isinstance(value, dict):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value
