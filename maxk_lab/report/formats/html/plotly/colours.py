"""Colours that can be told from light and from dark paper."""

from __future__ import annotations

import colorsys
from typing import Any

from matplotlib.colors import to_rgba

# The paper of a dark page, and the lightness of what is black on a light one.
_DARK = (0.078, 0.094, 0.114)
_LIGHTEST = 0.9
# Colours of less saturation are greys: the light ones of them stand back.
_GREY = 0.08
# The least contrast (as WCAG counts it) of a line with its paper.
_CONTRAST = 3.0


class Inks:
    """The colours of one figure; `dark` has, for those that need it, the colour on a dark page."""

    def __init__(self) -> None:
        self.dark: dict[str, str] = {}

    def ink(self, colour: Any, alpha: float | None = None) -> str:
        """The colour of something on the paper itself."""
        rgba = to_rgba(colour, alpha)
        name, other = _named(rgba), _named((*_on_dark(rgba[:3]), rgba[3]))
        if name != other:
            self.dark[name] = other
        return name


def fixed(colour: Any) -> str:
    """The colour of what lies on a surface with a colour of its own, or is one: the same always."""
    red, green, blue, alpha = to_rgba(colour)
    return f"rgba({_byte(red)},{_byte(green)},{_byte(blue)},{alpha:.3g})"


def opaque(colour: Any) -> str:
    """The colour alone, as `#rrggbb`, by which artists are told to be alike."""
    return _hex(to_rgba(colour)[:3])


def is_grey(colour: Any) -> bool:
    """Whether it is a grey that stands back: neither a colour nor near to black."""
    rgb = to_rgba(colour)[:3]
    return _neutral(rgb) and min(rgb) > 0.3


def _named(rgba: tuple[float, ...]) -> str:
    if rgba[3] == 1:
        return _hex(rgba[:3])
    red, green, blue = map(_byte, rgba[:3])
    return f"rgba({red}, {green}, {blue}, {rgba[3]:.3g})"


def _hex(rgb: tuple[float, ...]) -> str:
    return "#" + "".join(f"{_byte(part):02x}" for part in rgb)


def _byte(part: float) -> int:
    return round(255 * part)


def _neutral(rgb: tuple[float, ...]) -> bool:
    return max(rgb) - min(rgb) <= _GREY


def _on_dark(rgb: tuple[float, ...]) -> tuple[float, float, float]:
    if _neutral(rgb):
        # Black and white change places, and greys keep their distance to the paper.
        grey = sum(rgb) / 3
        red, green, blue = (_LIGHTEST + (paper - _LIGHTEST) * grey for paper in _DARK)
        return red, green, blue
    hue, lightness, saturation = colorsys.rgb_to_hls(*rgb)
    found = (rgb[0], rgb[1], rgb[2])
    while _contrast(found) < _CONTRAST and lightness < 1:
        lightness += 0.02
        found = colorsys.hls_to_rgb(hue, lightness, saturation)
    return found


def _contrast(rgb: tuple[float, ...]) -> float:
    return (_luminance(rgb) + 0.05) / (_luminance(_DARK) + 0.05)


def _luminance(rgb: tuple[float, ...]) -> float:
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
