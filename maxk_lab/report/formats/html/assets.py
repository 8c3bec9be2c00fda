"""The files inside the page: libraries as they are published, and the page's own glue."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

HERE = files(__package__)
# In the order in which they run.
SCRIPTS = ("libraries/tabulator.min.js", "libraries/vega.min.js", "page.js")
STYLES = ("libraries/tabulator.min.css", "page.css")
LICENCES = ("libraries/LICENSE-tabulator", "libraries/LICENSE-vega")
# Where developers' tools would look for another file.
_MAPS = re.compile(r"\n(//|/\*)# sourceMappingURL=[^\n]*")


@cache
def text(name: str) -> str:
    """The text of a file as it stands in the page."""
    return _MAPS.sub("", HERE.joinpath(name).read_text(encoding="utf-8")).strip("\n")


@cache
def policy() -> str:
    """The Content-Security-Policy: these scripts alone run, and nothing is fetched from anywhere.

    Vega and Tabulator set styles of elements, which only `unsafe-inline` allows.
    """
    scripts = " ".join(f"'sha256-{_digest(name)}'" for name in SCRIPTS)
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _digest(name: str) -> str:
    return base64.b64encode(hashlib.sha256(text(name).encode()).digest()).decode("ascii")
