"""The catalogue of formats of a comparison. Imports none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxk_lab.catalogue import Catalogue, load
from maxk_lab.report.formats.catalogue import FormatRow

if TYPE_CHECKING:
    from maxk_lab.results.compare.document import Document


# Their implementations take a `Document`.
FORMATS: Catalogue[FormatRow] = Catalogue(
    "format",
    [
        FormatRow(
            name="terminal",
            meaning="tables within a given width",
            implementation="maxk_lab.report.formats.terminal:terminal",
        ),
        FormatRow(
            name="markdown",
            meaning="the same for a page or a pull request",
            implementation="maxk_lab.report.formats.markdown:markdown",
            file="comparison.md",
        ),
        FormatRow(
            name="csv",
            meaning="one line per row and measure, with every number",
            implementation="maxk_lab.results.compare.document:as_csv",
            file="comparison.csv",
        ),
        FormatRow(
            name="json",
            meaning="everything, also what was changed",
            implementation="maxk_lab.results.compare.document:as_json",
            file="comparison.json",
        ),
    ],
    "maxk_lab.comparison_formats",
)


def rendered(document: Document, format: str) -> str:
    """The comparison in one of `FORMATS`. Raises `LabError` for any other."""
    return str(load(FORMATS.get(format).implementation)(document))
