"""The catalogue of formats of a comparison. Imports none of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from maxk_lab.catalogue import Catalogue, Row, load

if TYPE_CHECKING:
    from maxk_lab.results.compare.document import Document


@dataclass(frozen=True)
class Format(Row):
    """A format of a comparison; `implementation` takes a `Document` and returns its text."""

    file: str | None = None


FORMATS: Catalogue[Format] = Catalogue(
    "format",
    [
        Format(
            name="terminal",
            meaning="tables within a given width",
            implementation="maxk_lab.report.formats.terminal:terminal",
        ),
        Format(
            name="markdown",
            meaning="the same for a page or a pull request",
            implementation="maxk_lab.report.formats.markdown:markdown",
            file="comparison.md",
        ),
        Format(
            name="csv",
            meaning="one line per row and measure, with every number",
            implementation="maxk_lab.results.compare.document:as_csv",
            file="comparison.csv",
        ),
        Format(
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
