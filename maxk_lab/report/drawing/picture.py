"""A figure of a report with the words that it needs: a name for its file, a title, a caption."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Picture:
    """A figure of matplotlib; `name` is that of its file, without what follows the dot.

    `title` says in plain words what is shown, and `caption` how to read it and what it says here.
    """

    name: str
    figure: Figure
    title: str
    caption: str = ""
