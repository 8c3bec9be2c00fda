"""Parameters of this room's rows beyond one number or one word, and how a value is spelt.

Imports no torch.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from maxk_lab.catalogue import MOST, did_you_mean
from maxk_lab.errors import LabError, shown
from maxk_lab.settings import Setting

Number = Annotated[float, Field(ge=-MOST, le=MOST)]


def spell(value: Any) -> str:
    """The one spelling of a parsed value: `0.5`, `cross_fit`, or `0.25 0.75` for several."""
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def number_or_word(
    name: str, default: Any, meaning: str, words: tuple[str, ...] = (), *, several: bool = False
) -> Setting:
    """A parameter that is a finite number, or one of `words`.

    With `several` it is a tuple of such numbers; they are written with blanks or commas between.
    """
    number = Setting("", Number, 0.0)

    def read_one(written: Any) -> float:
        value = number.parse(written)
        return 0.0 if value == 0 else float(value)  # -0 would have a second spelling

    def read_several(written: Any) -> tuple[float, ...]:
        entries = written.replace(",", " ").split() if isinstance(written, str) else written
        if not isinstance(entries, list | tuple) or not entries:
            raise LabError(f"must be numbers, got {shown(written)}")
        return tuple(map(read_one, entries))

    def read(written: Any) -> Any:
        if written in words:
            return written
        try:
            return read_several(written) if several else read_one(written)
        except LabError as error:
            also = f"; or one of {', '.join(words)}{did_you_mean(written, words)}" if words else ""
            raise ValueError(f"{str(error).strip()}{also}") from None

    kinds = ["numbers" if several else "number", *words]
    reader = Annotated[Any, BeforeValidator(read)]
    return Setting(name, reader, default, meaning, spelling=" or ".join(kinds))
