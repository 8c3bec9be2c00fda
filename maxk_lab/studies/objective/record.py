"""The content of a finished record of the objective study."""

from __future__ import annotations

from pydantic import Field

from maxk_lab.fields import Numbers, Recorded


class Metrics(Recorded):
    """The exact objective at the points of a parameter, and the place of its maximum between them.

    `optimum` and the value there are None where there is none, with the reason in `undefined`.
    """

    parameter: str
    points: list[float]
    values: Numbers
    optimum: float | None
    optimum_value: float | None
    undefined: dict[str, str] = Field(default_factory=dict)
