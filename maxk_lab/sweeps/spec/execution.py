"""The limits of a run: no part of what its cells mean, and of no influence on their numbers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from maxk_lab.fields import Model
from maxk_lab.sweeps.quantities import seconds, spelled

__all__ = ["Execution", "spelled"]


def _seconds(value: Any) -> Any:
    return seconds(value) if isinstance(value, str) else value


# Limits of less make no sense: the parent looks ten times a second.
Seconds = Annotated[float, BeforeValidator(_seconds), Field(ge=0.5, le=3e7, allow_inf_nan=False)]


class Execution(Model):
    """Limits that end a cell: seconds, or a text such as `2h`; None is no limit.

    `timeout` is for each cell; that of the first one of a unit has the work that all of them share.
    `reward_timeout` is for each call of a reward function of the user's own.
    """

    timeout: Seconds | None = None
    reward_timeout: Seconds | None = None
