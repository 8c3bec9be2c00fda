"""The ways in which people write the options of a cluster's jobs, each read to a plain value.

What a function has returned it reads again as the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from maxk_lab.errors import shown, warn
from maxk_lab.sweeps.quantities import seconds, spelled

# The times that Slurm itself reads, of those that are not a bare number of minutes.
_SLURM_TIME = re.compile(r"(?:(\d{1,4})-)?(\d{1,5})(?::(\d{1,2}))?(?::(\d{1,2}))?")
# The most seconds before its end at which Slurm signals a job, and the longest job.
_MOST_SIGNAL = 65_535
_MOST_TIME = 365 * 24 * 3600
_MOST_PACK = 1_000_000
_OPTION = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,60}")


def slurm_time(value: Any) -> str:
    """Return a time as Slurm writes it, e.g. `4:00:00` or `1-12:00:00`. Raises `ValueError`.

    It may be written so, or as other times of a sweep file are, e.g. `4h`.
    """
    allowed = 'must be a time such as "4:00:00", "1-12:00:00" or 4h'
    if isinstance(value, int | float):
        # YAML 1.1 reads 4:00:00 without quotes as the number 14400, and Slurm 30 as minutes.
        raise ValueError(f"{allowed}, with quotes where it has colons, got {shown(value)}")
    if not isinstance(value, str):
        raise ValueError(f"{allowed}, got {shown(value)}")
    try:
        count: float = slurm_seconds(value)
    except ValueError:
        try:
            count = seconds(value)
        except ValueError:
            raise ValueError(f"{allowed}, got {shown(value)}") from None
    # Slurm counts in minutes; what is less is rounded up.
    minutes = -int(-count // 60)
    if not 60 <= minutes * 60 <= _MOST_TIME:
        raise ValueError(f"must be between a minute and a year, got {shown(value)}")
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}-{hours:02}:{minutes:02}:00" if days else f"{hours}:{minutes:02}:00"


def slurm_seconds(text: str) -> int:
    """Return the seconds of a time as Slurm writes it.

    Raises `ValueError` for anything else, also for a bare number, Slurm's minutes.
    """
    found = _SLURM_TIME.fullmatch(text)
    days, *rest = found.groups() if found else (None, None)
    if days is None and (len(rest) < 2 or rest[1] is None):
        raise ValueError("no time of Slurm's")
    numbers = [int(number) for number in rest if number is not None]
    # days-hours[:minutes[:seconds]], hours:minutes:seconds or minutes:seconds.
    sizes = [3600, 60, 1] if days is not None or len(numbers) == 3 else [60, 1]
    if any(number > 59 for number in numbers[1:]):
        raise ValueError("no time of Slurm's")
    total = sum(number * size for number, size in zip(numbers, sizes, strict=False))
    return total + 86_400 * int(days or 0)


def word(value: Any) -> str:
    """Return a text of one word, as a name on a cluster is. Raises `ValueError`."""
    if not isinstance(value, str) or not value.isprintable() or not value or " " in value:
        raise ValueError(f"must be a text of one word, got {shown(value)}")
    if len(value) > 500:
        raise ValueError(f"must have at most 500 letters, got {shown(value)}")
    return value


def ray_address(value: Any) -> str:
    """Return the address of a cluster that this machine is part of. Raises `ValueError`."""
    if str(value).startswith("ray://"):
        raise ValueError(
            "is for a machine of the cluster, auto or host:port: from outside of it "
            "`ray job submit -- maxk-lab run ...` starts the run there"
        )
    return word(value)


def shell_lines(value: Any) -> list[str]:
    """Return shell lines, one or several. Raises `ValueError`."""
    lines = [value] if isinstance(value, str) else value
    if not isinstance(lines, list | tuple) or len(lines) > 100:
        raise ValueError(f"must be a list of shell lines, at most 100, got {shown(value)}")
    for line in lines:
        if not isinstance(line, str) or len(line) > 2000 or not line.isprintable():
            raise ValueError(f"must be a list of shell lines, each a text, got {shown(line)}")
    return list(lines)


def signal(value: Any) -> int:
    """Return seconds before an end. Raises `ValueError`."""
    allowed = f"must be a time of at most {_MOST_SIGNAL} seconds, such as 120 or 2min"
    count = value
    if isinstance(value, str):
        try:
            count = seconds(value)
        except ValueError:
            count = None
    if isinstance(count, bool) or not isinstance(count, int | float):
        raise ValueError(f"{allowed}, got {shown(value)}")
    if not 0 <= count <= _MOST_SIGNAL or count != int(count):
        raise ValueError(f"{allowed}, got {shown(value)}")
    return int(count)


def pack(value: Any) -> int | str:
    """Return a number of units, or `auto`. Raises `ValueError`."""
    if value == "auto":
        return "auto"
    if type(value) is not int or not 1 <= value <= _MOST_PACK:
        raise ValueError(f"must be auto or a whole number of at least 1, got {shown(value)}")
    return value


def options(value: Any) -> dict[str, Any]:
    """Return options of sbatch with their values. Raises `ValueError`."""
    if not isinstance(value, Mapping) or len(value) > 100:
        raise ValueError(f"must be a mapping of options of sbatch to values, got {shown(value)}")
    for name, given in value.items():
        if not isinstance(name, str) or _OPTION.fullmatch(name) is None:
            raise ValueError(f"has {shown(name)}, which is no option of sbatch")
        text = given if isinstance(given, str) else ""
        if not isinstance(given, bool | int | float | str) or not text.isprintable():
            raise ValueError(
                f"needs a number, a text, true or false for {name}, got {shown(given)}"
            )
    return dict(value)


def time_to_work(given: Mapping[str, Any]) -> tuple[tuple[str, ...], str] | None:
    """Return what is wrong where a job of Slurm is told to leave before it can do anything.

    `given` are all parameters, as they are read. It warns where most of the time is for leaving.
    """
    if not given["time"] or "time" in given["options"]:
        return None
    time, signal = slurm_seconds(given["time"]), given["signal"]
    found = f"signal ({spelled(signal)}) comes so long before the end of time ({spelled(time)})"
    if signal >= time:
        return ("signal", "time"), f"{found} that a job leaves at once: give it less, or time more"
    if signal > time / 2:
        warn(
            f"execution: {found} that a job works for {spelled(time - signal)} only: "
            "give it less, or time more"
        )
    return None
