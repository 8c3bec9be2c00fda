"""The execution of a sweep and its limits: no part of what its cells mean, nor of their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ByteSize, ConfigDict, Field

from maxk_lab.errors import shown
from maxk_lab.fields import Model
from maxk_lab.sweep_file.backends import BACKENDS, LOCAL
from maxk_lab.sweep_file.quantities import seconds, spelled, spelled_size

__all__ = ["Execution", "spelled"]


def _in_seconds(value: Any) -> Any:
    return seconds(value) if isinstance(value, str) else value


def _sensible(count: ByteSize) -> ByteSize:
    # No process of Python is smaller, and no machine larger.
    if not 10**7 <= count <= 2**50:
        raise ValueError(f"must be between 10 MB and 1024 TiB, got {spelled_size(count)}")
    return count


def _whole_or_less_than_one(value: float) -> float:
    if value > 1 and value != int(value):
        raise ValueError(f"must be a whole number, or a fraction of one, got {shown(value)}")
    if 0 < value < 0.001:
        raise ValueError(f"must be 0, or at least 0.001, got {shown(value)}")
    return value


# Limits of less make no sense: the parent looks ten times a second.
Seconds = Annotated[float, BeforeValidator(_in_seconds), Field(ge=0.5, le=3e7, allow_inf_nan=False)]
Bytes = Annotated[ByteSize, AfterValidator(_sensible)]
Devices = Annotated[
    float, Field(ge=0, le=1024, allow_inf_nan=False), AfterValidator(_whole_or_less_than_one)
]


class Execution(Model):
    """The backend that runs the units of a sweep, and the limits that end a cell; None is none.

    `timeout`, seconds or a text such as `2h`, limits each cell; the first cell of a unit includes
    the work that all cells share. `memory`, bytes or a text such as `4GB`, limits a worker with all
    processes that it started. `retries` counts how often a unit begins again after its worker or
    node was lost. A unit gets `gpus` devices, a fraction if several units share a device; None is a
    device for units that can use one. The parameters of the backend stand beside these keys.
    """

    # The parameters of backends, which `resolve_execution` checks: a run may be reported where its
    # backend is not installed.
    model_config = ConfigDict(extra="allow")

    backend: str = LOCAL
    timeout: Seconds | None = None
    retries: Annotated[int, Field(ge=0, le=100)] = 1
    memory: Bytes | None = None
    gpus: Devices | None = None

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Every parameter of the backend by its name, given or at its default.

        Raises `LabError` for a backend that is not there.
        """
        settings = BACKENDS.get(self.backend).settings
        return settings.from_mapping(self.model_extra or {}).model_dump()
