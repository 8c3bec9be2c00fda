"""A rich console on which text is only shown: no markup, and nothing in it drives the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from maxk_lab.visible import visible


class PlainConsole(Console):
    """A console whose own codes, for colours and the like, are all that a terminal obeys."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **settings)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as rich does, with all that acts in the texts spelled out."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)
