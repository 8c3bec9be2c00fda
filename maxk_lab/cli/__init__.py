"""The command line: one file per verb; the only room that prints or exits."""

from maxk_lab.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, {"app": "application", "main": "application"})
