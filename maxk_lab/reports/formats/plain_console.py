"""A console of rich that escapes control codes in texts; imports rich only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from maxk_lab.visible import visible


class PlainConsole(Console):
    """A console that writes no control codes from texts."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **settings)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as rich does, with the control codes in texts spelled out."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)
