"""The execution of a sweep: the place and the limits of its units. It changes no number."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ByteSize,
    Field,
    TypeAdapter,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from maxk_lab.errors import shown
from maxk_lab.fields import Model

_UNITS = {"h": 3600.0, "min": 60.0, "s": 1.0}
_TIME = re.compile(r"(?:(\d+(?:\.\d+)?) ?h)? ?(?:(\d+(?:\.\d+)?) ?min)? ?(?:(\d+(?:\.\d+)?) ?s)?")
_BYTES = TypeAdapter(ByteSize)


def seconds(text: str) -> float:
    """Return the seconds of a text such as `2h`, `1 h 30 min` or `45s`. Raises `ValueError`."""
    match = _TIME.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise ValueError(f"must be a time such as 2h, 30min or 45s, got {shown(text)}")
    pairs = zip(match.groups(), _UNITS.values(), strict=True)
    return sum(float(number) * size for number, size in pairs if number is not None)


def spelled(seconds: float) -> str:
    """Return seconds as a time that a sweep file may have, e.g. `1 h 30 min` or `2.5 s`."""
    words = []
    for unit, size in _UNITS.items():
        count = seconds // size if unit != "s" else round(seconds, 3)
        seconds -= count * size
        if count:
            words.append(f"{count:g} {unit}")
    return " ".join(words)


def spelled_size(count: int) -> str:
    """Return a number of bytes as the same size in a sweep file, e.g. `4.0GB` or `1.5GiB`."""
    texts = (ByteSize(count).human_readable(decimal=decimal) for decimal in (True, False))
    return next((text for text in texts if _BYTES.validate_python(text) == count), f"{count}B")


def _check_size(count: ByteSize) -> ByteSize:
    # The bounds of a memory limit: no Python process is smaller, and no machine is larger.
    if not 10**7 <= count <= 2**50:
        raise ValueError(f"must be between 10 MB and 1024 TiB, got {spelled_size(count)}")
    return count


def _check_devices(value: float) -> float:
    if value > 1 and value != int(value):
        raise ValueError(f"must be a whole number, or a fraction of one, got {shown(value)}")
    if 0 < value < 0.001:
        raise ValueError(f"must be 0, or at least 0.001, got {shown(value)}")
    return value


# The driver checks the time a few times a second.
Seconds = Annotated[
    float,
    BeforeValidator(lambda value: seconds(value) if isinstance(value, str) else value),
    Field(ge=0.5, le=3e7, allow_inf_nan=False),
    WithJsonSchema({"type": ["number", "string"]}),
]
Bytes = Annotated[
    ByteSize, AfterValidator(_check_size), WithJsonSchema({"type": ["integer", "string"]})
]
Devices = Annotated[
    float, Field(ge=0, le=1024, allow_inf_nan=False), AfterValidator(_check_devices)
]


class Execution(Model):
    """The place of the units of a sweep, and the limits that end a cell; None is no limit.

    `timeout`, seconds or a text such as `2h`, limits each cell; the first cell of a unit includes
    the work that all its cells share. `memory`, bytes or a text such as `4GB`, limits a worker with
    all its child processes. A unit gets `gpus` devices, a fraction if several units share a device;
    None is a device for units that can use one. `address` is that of a Ray cluster, auto or
    host:port; without it a cluster of --jobs cores starts on this machine.
    """

    backend: Literal["local", "ray"] = "local"
    address: str | None = None
    timeout: Seconds | None = None
    memory: Bytes | None = None
    gpus: Devices | None = None

    @field_validator("address")
    @classmethod
    def _check_address(cls, address: str | None, info: ValidationInfo) -> str | None:
        if address is None:
            return None
        if info.data.get("backend") == "local":
            raise ValueError(
                "is for backend: ray, and this run's is local; address: null takes it out"
            )
        if address.startswith("ray://"):
            raise ValueError(
                "is for a machine of the cluster, auto or host:port: from outside of it "
                "`ray job submit -- maxk-lab run ...` starts the run there"
            )
        if not address.isprintable() or address.split() != [address] or len(address) > 500:
            raise ValueError(f"must be a text of one word, got {shown(address)}")
        return address
