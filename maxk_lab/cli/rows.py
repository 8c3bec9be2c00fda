"""Catalogue rows on the console: a block each, with every field that says something."""

from __future__ import annotations

from typing import Any

from maxk_lab.cli.console import console
from maxk_lab.visible import visible_line


def print_rows(rows: list[dict[str, Any]]) -> None:
    """Print a block per row: the name, then every field that says something."""
    from rich.text import Text

    out = console()
    for number, row in enumerate(rows):
        if number:
            out.print()
        out.print(Text(str(row["name"]), "bold"), Text(visible_line(str(row.get("meaning", "")))))
        width = max(len(key) for key in row) + 2
        for key, value in row.items():
            if key not in ("name", "meaning") and value not in ("", None, [], ()):
                lines = _lines(value)
                out.print(Text(f"  {key:<{width}}", "dim") + Text(lines[0]))
                for line in lines[1:]:
                    out.print(Text(" " * (width + 2) + line))


def _lines(value: Any) -> list[str]:
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    if isinstance(value, tuple):
        return [", ".join(map(str, value))]
    if isinstance(value, dict):
        return [f"{key}: {one}" for key, one in value.items()]
    parameters = value if isinstance(value, list) else [value]
    if all(isinstance(parameter, dict) for parameter in parameters):
        return [_describe(parameter) for parameter in parameters]
    return [str(value)]


def _describe(parameter: dict[str, Any]) -> str:
    """Return a parameter in a line, e.g. `num_loc: int = 20, at least 3; number of cities`."""
    text = f"{parameter['name']}: {parameter['type']}"
    text += f" = {parameter['default']}" if parameter["default"] != "" else ""
    if parameter["choices"]:
        text += f", one of {', '.join(map(str, parameter['choices']))}"
    each = "each " if isinstance(parameter["default"], list) else ""
    if parameter["low"] is not None:
        text += f", {each}at least {parameter['low']}"
    if parameter["high"] is not None:
        text += f", {each}at most {parameter['high']}"
    return f"{text}; {parameter['meaning']}" if parameter["meaning"] else text
