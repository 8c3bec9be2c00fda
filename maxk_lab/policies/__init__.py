"""Policies act in an environment: torch modules, and the catalogue that names them."""

from typing import TYPE_CHECKING

from maxk_lab.lazy import lazy_exports

if TYPE_CHECKING:
    from maxk_lab.policies.catalogue import PolicyRow as PolicyRow
    from maxk_lab.policies.catalogue import fresh_policy as fresh_policy
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "catalogue": "PolicyRow fresh_policy",
        },
    )
