"""Results: runs read as tables of numbers, to compute with in Python. Changes no record."""

from typing import TYPE_CHECKING

from maxk_lab.lazy import lazy_exports

if TYPE_CHECKING:
    from maxk_lab.results.frame import load as load
else:
    __getattr__, __dir__ = lazy_exports(__name__)
