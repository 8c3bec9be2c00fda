"""The backend that a sweep names, loaded when it is used."""

from __future__ import annotations

from typing import cast

from maxk_lab.catalogue import load
from maxk_lab.sweeps.backends import BACKENDS
from maxk_lab.sweeps.run.backends.backend import Backend
from maxk_lab.sweeps.spec.execution import Execution


def load_backend(execution: Execution) -> type[Backend]:
    """Return the class of the backend. Raises `LabError` where there is none."""
    row = BACKENDS.get(execution.backend)
    return cast(type[Backend], load(row.implementation, f"the backend {row.name}, "))
