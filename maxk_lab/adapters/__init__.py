"""Adapters: Max@K advantages inside other trainers."""

from typing import TYPE_CHECKING

from maxk_lab.lazy import lazy_exports

if TYPE_CHECKING:
    from maxk_lab.adapters.groups import Weighting as Weighting
    from maxk_lab.adapters.groups import grouped_advantages as grouped_advantages
    from maxk_lab.adapters.groups import grouped_curve as grouped_curve
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "groups": "Weighting grouped_advantages grouped_curve",
        },
    )
