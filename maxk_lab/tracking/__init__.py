"""Finished records sent elsewhere: they are only read, and nothing here can break a sweep."""

from typing import TYPE_CHECKING

from maxk_lab.lazy import lazy_exports

if TYPE_CHECKING:
    from maxk_lab.tracking.wandb_tracker import track as track
else:
    __getattr__, __dir__ = lazy_exports(__name__)
