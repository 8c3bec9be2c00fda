"""Tracking: sends finished records elsewhere. It only reads records, and can never break a sweep."""

from maxk_lab.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, {"track": "wandb_tracker"})
