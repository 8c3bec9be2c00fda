"""The optima of a training cell's held-out instances, kept in the cache of the run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from maxk_lab.environments.environment import Environment, Instances, supports
from maxk_lab.environments.optima import method_for, optima
from maxk_lab.errors import LabError
from maxk_lab.files import write_atomically
from maxk_lab.studies.training.spec import reference_file

# Optima are kept after every so many instances, so that an interrupted run goes on from there.
BLOCK = 16


def optima_record(
    environment: Environment,
    instances: Instances,
    asked: str,
    cache: Path | None,
    data: dict[str, Any],
) -> dict[str, Any]:
    """Return {"kind": method, "exact", "per_instance"}, or {"kind": "none", "reason"}.

    `per_instance` holds the best rewards, None where undefined. `asked` is `evaluate.reference`,
    `data` the second result of `evaluation_set`. Where no optimum is known in a moment, `auto` has
    a reason; `exact` and `pyvrp` raise a `LabError`. Optima are kept in `cache` by environment,
    method and hash of the instances.
    """
    if asked == "none":
        return {"kind": "none", "reason": "none was asked for"}
    try:
        method = method_for(environment, instances, asked)
        return _known(environment, instances, method, _path(environment, method, cache, data))
    except LabError as error:
        if asked != "auto":
            raise LabError(f"evaluate.reference: {asked}: {error}") from error
        return {"kind": "none", "reason": str(error)}


def _path(
    environment: Environment, method: str, cache: Path | None, data: dict[str, Any]
) -> Path | None:
    """Return the file of the optima; None without a cache, or where instances have no hash."""
    if cache is None or not supports(environment, "instances_hash"):
        return None
    return cache / reference_file(environment.name, method, data["instances"])


def _known(
    environment: Environment, instances: Instances, method: str, path: Path | None
) -> dict[str, Any]:
    record: dict[str, Any] = _read(path, len(instances)) or {"per_instance": []}
    known: list[float | None] = record["per_instance"]
    while len(known) < len(instances):
        found = optima(environment, instances[len(known) : len(known) + BLOCK], method)
        known += [None if math.isnan(value) else value for value in found.values.tolist()]
        record = {"kind": found.kind, "exact": found.exact, "per_instance": known}
        if path is not None:
            write_atomically(path, json.dumps(record).encode())
    return record


def _read(path: Path | None, count: int) -> dict[str, Any] | None:
    """Return the optima known so far; None where there is no file or a damaged one."""
    try:
        record: Any = json.loads(path.read_bytes()) if path is not None else None
    except (OSError, ValueError):
        return None
    if not isinstance(record, dict) or set(record) != {"kind", "exact", "per_instance"}:
        return None
    return record if len(record["per_instance"]) <= count else None
