"""The catalogue of backends: what runs the units of a sweep, and its options. Imports none of them.

A backend is a class that `maxk_lab.execution.backends.backend` describes. Its parameters stand
beside the other keys of `execution` in a sweep file, flat; `Execution.parameters` has them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator

from maxk_lab.catalogue import Catalogue, Row
from maxk_lab.errors import shown
from maxk_lab.settings import Settings, number, setting
from maxk_lab.sweep_file.quantities import seconds

# The backend of a sweep that names none.
LOCAL = "local"


@dataclass(frozen=True, kw_only=True)
class BackendRow(Row):
    """A backend: its settings in a sweep file, its class, and the extra of the package.

    `implementation` is `module:Class`. `extra` is what `pip install 'maxk-lab[extra]'` adds for it;
    empty where nothing is needed. `queue` is the module that tells of its jobs and cancels them
    (`execution/backends/backend.py`), of a backend whose jobs go on without the command that
    submitted them; empty for others.
    """

    settings: type[Settings] = Settings
    extra: str = ""
    queue: str = ""


def _check(sound: bool, allowed: str, value: Any) -> None:
    if not sound:
        raise ValueError(f"{allowed}, got {shown(value)}")


def _is_line(value: Any, longest: int = 2000) -> bool:
    return isinstance(value, str) and value.isprintable() and len(value) <= longest


def _ray_address(value: Any) -> str:
    """Return the address of a cluster that this machine is part of; empty for one started here."""
    if str(value).startswith("ray://"):
        raise ValueError(
            "is for a machine of the cluster, auto or host:port: from outside of it "
            "`ray job submit -- maxk-lab run ...` starts the run there"
        )
    sound = value == "" or (_is_line(value, 500) and value.split() == [value])
    _check(sound, "must be a text of one word", value)
    return str(value)


# A time that Slurm reads, but for a bare number of minutes: [days-]hours[:minutes[:seconds]], or
# minutes:seconds.
_SLURM_TIME = re.compile(r"(?:(\d{1,3})-)?(\d{1,4})(?::([0-5]?\d))?(?::([0-5]?\d))?")


def slurm_seconds(text: str) -> float:
    """Return the seconds of a time as Slurm writes it, or as others of a sweep file are, e.g. 4h.

    Raises `ValueError`.
    """
    match = _SLURM_TIME.fullmatch(text)
    days, *rest = match.groups() if match else (None,)
    if days is None and ":" not in text:
        return seconds(text)
    if match is None:
        raise ValueError("no time")
    numbers = [int(number) for number in rest if number is not None]
    sizes = (60, 1) if days is None and len(numbers) == 2 else (3600, 60, 1)
    return 86_400 * int(days or 0) + sum(map(int.__mul__, numbers, sizes))


def _slurm_time(value: Any) -> str:
    """Return a time for a job of Slurm, as it is written; empty for the partition's own."""
    allowed = "must be a time such as 4:00:00, 1-12:00:00 or 4h"
    _check(isinstance(value, str), allowed, value)  # Slurm reads 30 as minutes
    try:
        count = slurm_seconds(value) if value else 60
    except ValueError:
        raise ValueError(f"{allowed}, got {shown(value)}") from None
    _check(60 <= count <= 365 * 86_400, "must be between a minute and a year", value)
    return str(value)


def _signal(value: Any) -> int:
    """Return whole seconds before the end of a job."""
    try:
        count = seconds(value) if isinstance(value, str) else value
    except ValueError:
        count = None
    sound = not isinstance(count, bool) and count in range(65_536)
    _check(sound, "must be a time of at most 65535 seconds, such as 120 or 2min", value)
    return int(count or 0)


def _shell_lines(value: Any) -> list[str]:
    lines = [value] if isinstance(value, str) else value
    sound = isinstance(lines, list | tuple) and all(map(_is_line, lines))
    _check(sound, "must be a list of shell lines, each a text", value)
    return list(lines)


def _pack(value: Any) -> int | str:
    """Return a number of units, or `auto`."""
    sound = value == "auto" or (type(value) is int and 1 <= value <= 1_000_000)
    _check(sound, "must be auto or a whole number of at least 1", value)
    return value  # type: ignore[no-any-return]


# Options of sbatch that a run cannot do with other values of.
_OURS = re.compile(
    "array|chdir|clusters|error|export|job.name|(no.)?requeue|nodes|ntasks|output"
    "|ntasks.per.node|open.mode|parsable|signal|wait|wrap"
)


def _options(value: Any) -> dict[str, Any]:
    """Return options of sbatch with their values."""
    _check(isinstance(value, Mapping), "must be a mapping of options of sbatch to values", value)
    for name, given in value.items():
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,60}", name):
            raise ValueError(f"has {shown(name)}, which is no option of sbatch")
        if _OURS.fullmatch(name):
            raise ValueError(f"has {name}, which a run sets itself; leave it out")
        sound = isinstance(given, bool | int | float) or _is_line(given)
        _check(sound, f"needs a number, a text, true or false for {name}", given)
    return dict(value)


class RaySettings(Settings):
    """The settings of tasks on Ray."""

    address: Annotated[str, BeforeValidator(_ray_address)] = setting(
        "",
        "where the cluster is: auto or host:port; without it a cluster of --jobs cores is started "
        "on this machine",
        spelling="text",
    )
    slots: int = number(
        0,
        "the most units at once; 0: as many as the cluster has room for",
        low=0,
        high=100_000,
    )


class SlurmSettings(Settings):
    """The settings of jobs of Slurm."""

    partition: str = setting("", "the partition of the jobs; without it the site's own")
    time: Annotated[str, BeforeValidator(_slurm_time)] = setting(
        "",
        'the time limit of a job, such as "4:00:00" or 4h; without it the partition\'s own',
        spelling="time",
    )
    account: str = setting("", "the account that pays")
    qos: str = setting("", "the quality of service")
    constraint: str = setting("", "features that a node must have")
    array: int = number(100, "the most jobs at once", low=1, high=100_000)
    signal: Annotated[int, BeforeValidator(_signal)] = setting(
        120,
        "how long before the time limit a job writes checkpoints and leaves; at most half of it",
        spelling="seconds",
    )
    setup: Annotated[list[str], BeforeValidator(_shell_lines)] = setting(
        [],
        "shell lines that a job runs before it begins, such as module load cuda",
        spelling="list of shell lines",
    )
    pack: Annotated[int | str, BeforeValidator(_pack)] = setting(
        "auto",
        "the units of a job; auto: as many as make it worth its start",
        spelling="int or auto",
    )
    options: Annotated[dict[str, Any], BeforeValidator(_options)] = setting(
        {}, "further options of sbatch, such as {reservation: course}", spelling="mapping"
    )


BACKENDS: Catalogue[BackendRow] = Catalogue(
    "backend",
    [
        BackendRow(
            name=LOCAL,
            meaning="worker processes of this machine, as many as --jobs says",
            implementation="maxk_lab.execution.supervisor.local:LocalBackend",
        ),
        BackendRow(
            name="ray",
            meaning="tasks of a Ray cluster, or of one that is started here",
            implementation="maxk_lab.execution.backends.ray.backend:RayBackend",
            extra="ray",
            settings=RaySettings,
        ),
        BackendRow(
            name="slurm",
            meaning="job arrays of a Slurm cluster, each job with a pack of units",
            implementation="maxk_lab.execution.backends.slurm.backend:SlurmBackend",
            queue="maxk_lab.execution.backends.slurm.jobs",
            extra="slurm",
            settings=SlurmSettings,
        ),
    ],
    "maxk_lab.backends",
)
