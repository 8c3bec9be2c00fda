"""Sphinx configuration: MyST pages, the furo theme, and reference pages made from the code."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import jinja2

sys.path.insert(0, str(Path(__file__).parent))
import reference

import maxk_lab

project, author, release = "maxk-lab", "maxk-lab contributors", maxk_lab.__version__
extensions = ["myst_parser", "sphinx.ext.mathjax"]
exclude_patterns = ["_build", "templates"]
smartquotes = False
html_theme, html_title = "furo", f"maxk-lab {release}"
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
# `diff` blocks of a pipeline are not always lexed; the block is shown as it is.
suppress_warnings = ["misc.highlighting_failure"]
# Files outside docs/, which the site offers as downloads.
OUTSIDE = re.compile(
    r"(?<!!)(\[[^\[\]]*\]\()(?=(?:\.\./)+(?:results|examples|README|SECURITY|CONTRIBUTING))"
)


def read_source(app: object, name: str, source: list[str]) -> None:
    """Fill the tables of a reference page in from the code, and mark links to files as such."""
    if name.startswith("reference/"):
        source[0] = jinja2.Template(source[0], undefined=jinja2.StrictUndefined).render(
            vars(reference)
        )
    source[0] = OUTSIDE.sub(r"\1path:", source[0])


def setup(app: object) -> None:
    """Register the reference pages."""
    app.connect("source-read", read_source)  # type: ignore[attr-defined]
