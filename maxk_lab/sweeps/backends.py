"""The catalogue of backends: what runs the units of a sweep, and its options. Imports none of them.

A backend is a class that `maxk_lab.sweeps.run.backends.backend` describes. Its parameters stand
beside the other keys of `execution` in a sweep file, flat; `Execution.parameters` has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from maxk_lab.catalogue import Catalogue, Parameter, Row
from maxk_lab.errors import LabError
from maxk_lab.sweeps.spellings import (
    options,
    pack,
    ray_address,
    shell_lines,
    signal,
    slurm_time,
    time_to_work,
    word,
)

# The backend of a sweep that names none.
LOCAL = "local"


@dataclass(frozen=True)
class SpelledParameter(Parameter):
    """A parameter that people write in a way of its own, which `reads` turns into a plain value.

    `spelling` names its type to them. `reads` raises `ValueError` with what is wrong; it reads what
    it has returned as the same.
    """

    spelling: str = ""
    reads: Callable[[Any], Any] = lambda value: value

    @property
    def type_name(self) -> str:
        """Return the type as a sweep's writer knows it."""
        return self.spelling

    def parse(self, value: Any) -> Any:
        """Return the plain value. Raises `LabError` that says what it may be."""
        if value == self.default and type(value) is type(self.default):
            return value
        try:
            return self.reads(value)
        except ValueError as error:
            raise LabError(f"{self.name} {error}") from None


@dataclass(frozen=True, kw_only=True)
class BackendRow(Row):
    """A backend: its parameters in a sweep file, its class, and the extra of the package.

    `implementation` is `module:Class`. `extra` is what `pip install 'maxk-lab[extra]'` adds for it;
    empty where nothing is needed. `queue` is the module that tells of its jobs and cancels them
    (`sweeps/run/backends/jobs.py`), of a backend whose jobs go on without the command that
    submitted them; empty for others. `clash` says of parameters that do not go together which they
    are, and why.
    """

    parameters: tuple[Parameter, ...] = ()
    extra: str = ""
    queue: str = ""
    clash: Callable[[Mapping[str, Any]], tuple[tuple[str, ...], str] | None] = lambda given: None

    def parameter(self, name: str) -> Parameter | None:
        """Return the parameter of this name; None where it has none."""
        return next((one for one in self.parameters if one.name == name), None)


def _text(name: str, meaning: str) -> SpelledParameter:
    return SpelledParameter(name, str, "", meaning=meaning, spelling="text", reads=word)


BACKENDS: Catalogue[BackendRow] = Catalogue(
    "backend",
    [
        BackendRow(
            name=LOCAL,
            meaning="worker processes of this machine, as many as --jobs says",
            implementation="maxk_lab.sweeps.run.supervisor.local:LocalBackend",
        ),
        BackendRow(
            name="ray",
            meaning="tasks of a Ray cluster, or of one that is started here",
            implementation="maxk_lab.sweeps.run.backends.ray.backend:RayBackend",
            extra="ray",
            parameters=(
                SpelledParameter(
                    "address",
                    str,
                    "",
                    meaning="where the cluster is: auto or host:port; "
                    "without it a cluster of --jobs cores is started on this machine",
                    spelling="text",
                    reads=ray_address,
                ),
                Parameter(
                    "slots",
                    int,
                    0,
                    low=0,
                    high=100_000,
                    meaning="the most units at once; 0: as many as the cluster has room for",
                ),
            ),
        ),
        BackendRow(
            name="slurm",
            meaning="job arrays of a Slurm cluster, each job with a pack of units",
            implementation="maxk_lab.sweeps.run.backends.slurm.backend:SlurmBackend",
            queue="maxk_lab.sweeps.run.backends.slurm.jobs",
            extra="slurm",
            clash=time_to_work,
            parameters=(
                _text("partition", "the partition of the jobs; without it the site's own"),
                SpelledParameter(
                    "time",
                    str,
                    "",
                    meaning='the time limit of a job, such as "4:00:00" or 4h; without it '
                    "the partition's own",
                    spelling="time",
                    reads=slurm_time,
                ),
                _text("account", "the account that pays"),
                _text("qos", "the quality of service"),
                _text("constraint", "features that a node must have"),
                Parameter("array", int, 100, low=1, high=100_000, meaning="the most jobs at once"),
                SpelledParameter(
                    "signal",
                    int,
                    120,
                    meaning="how long before the time limit a job writes checkpoints and leaves",
                    spelling="seconds",
                    reads=signal,
                ),
                SpelledParameter(
                    "setup",
                    list,
                    [],
                    meaning="shell lines that a job runs before it begins, "
                    "such as module load cuda",
                    spelling="list of shell lines",
                    reads=shell_lines,
                ),
                SpelledParameter(
                    "pack",
                    str,
                    "auto",
                    meaning="the units of a job; auto: as many as make it worth its start",
                    spelling="int or auto",
                    reads=pack,
                ),
                SpelledParameter(
                    "options",
                    dict,
                    {},
                    meaning="further options of sbatch, such as {reservation: course}",
                    spelling="mapping",
                    reads=options,
                ),
            ),
        ),
    ],
    "maxk_lab.backends",
)
