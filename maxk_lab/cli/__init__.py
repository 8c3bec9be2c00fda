"""The command line: one file per verb; the only room that prints or exits."""

from typing import TYPE_CHECKING

from maxk_lab.lazy import lazy_exports

if TYPE_CHECKING:
    from maxk_lab.cli.application import app as app
    from maxk_lab.cli.program import main as main
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "application": "app",
            "program": "main",
        },
    )
