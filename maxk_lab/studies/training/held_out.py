"""The held-out instances of a training cell and their optima, kept in the cache of the run."""

from __future__ import annotations

import json
import math
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from maxk_lab.environments.catalogue import formats_of, hash_of_data
from maxk_lab.environments.environment import (
    Environment,
    FullEnvironment,
    Instances,
    method_for,
    optima,
    supports,
)
from maxk_lab.errors import LabError
from maxk_lab.files import write_atomically
from maxk_lab.seeds import derive_seed
from maxk_lab.studies.training.spec import instances_stem, reference_file
from maxk_lab.training.settings import EvaluationSettings


def evaluation_set(
    environment: Environment, evaluate: EvaluationSettings, seed: int, cache: Path | None
) -> tuple[Instances, dict[str, Any]]:
    """Return the held-out instances and {"instances": their hash, "source"}.

    The source is "drawn" or a path. Instances are drawn from `seed`, or read from `evaluate.data`,
    at most the first `evaluate.instances`. Drawn instances are stored in `cache` as
    `instances-<seed>-<count>-<hash>.npz` if the environment can write them, and other cells read
    this file; a damaged file is drawn again. The hash is None if the environment has none. Raises
    `LabError` if `evaluate.data` has changed since the plan, or if the environment cannot read it.
    """
    count, data, source = evaluate.instances, evaluate.data, "drawn"
    if not supports(environment, "read_instances"):
        if data is not None:
            reader = type(environment).__name__
            raise LabError(f"evaluate.data: {reader} reads no files of instances")
        return _drawn(environment, count, seed), {"instances": None, "source": source}
    if data is None:
        instances = _cached_instances(environment, count, seed, cache)
    elif hash_of_data(data.path, environment.name) == data.sha256:
        instances, source = environment.read_instances(data.path)[:count], data.path
    else:
        raise LabError(
            f"evaluate.data: {data.path} has changed since the run was planned; plan it again"
        )
    return instances, {"instances": environment.instances_hash(instances), "source": source}


def tuning_set(environment: Environment, count: int, seed: int) -> Instances:
    """Return tuning instances to choose a decoding on; none of them is held out.

    They are drawn like training instances.
    """
    return environment.instances(count, derive_seed("instances", seed))


def _drawn(environment: Environment, count: int, seed: int) -> Instances:
    return environment.instances(count, derive_seed("instances", seed), held_out=True)


def _cached_instances(
    environment: FullEnvironment, count: int, seed: int, cache: Path | None
) -> Instances:
    """Return the instances from the cache, or draw and store them."""
    if cache is None:
        return _drawn(environment, count, seed)
    # Of the first format that the environment declares: .npz for those of RL4CO.
    stem, suffix = instances_stem(count, seed), formats_of(environment.name)[0].suffix
    for path in sorted(cache.glob(f"{stem}-*{suffix}")):
        # After any error in the file, the instances are drawn again.
        with suppress(Exception):
            instances = environment.read_instances(path)
            if path.stem == f"{stem}-{environment.instances_hash(instances)}":
                return instances
        path.unlink(missing_ok=True)
    instances = _drawn(environment, count, seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"instances{suffix}"
        environment.write_instances(instances, path)
        name = f"{stem}-{environment.instances_hash(instances)}{suffix}"
        write_atomically(cache / name, path.read_bytes())
    return instances


# Optima are stored after this many instances, so that an interrupted run can resume.
BLOCK = 16


def optima_record(
    environment: Environment,
    instances: Instances,
    reference: str,
    cache: Path | None,
    data: dict[str, Any],
) -> dict[str, Any]:
    """Return {"kind": method, "exact", "per_instance"}, or {"kind": "none", "reason"}.

    `per_instance` has the best rewards, None if undefined. `reference` is `evaluate.reference`,
    `data` the second result of `evaluation_set`. If no fast method exists, `auto` gives a reason
    and `exact` raises a `LabError`. Optima are stored in `cache` by environment, method and hash of
    the instances.
    """
    if reference == "none":
        return {"kind": "none", "reason": "none was asked for"}
    try:
        method = method_for(environment, instances, reference)
        path = None
        if cache is not None and supports(environment, "instances_hash"):
            path = cache / reference_file(environment.name, method, data["instances"])
        return _known_optima(environment, instances, method, path)
    except LabError as error:
        if reference != "auto":
            raise LabError(f"evaluate.reference: {reference}: {error}") from error
        return {"kind": "none", "reason": str(error)}


def _known_optima(
    environment: Environment, instances: Instances, method: str, path: Path | None
) -> dict[str, Any]:
    record: dict[str, Any] = _read(path, len(instances)) or {"per_instance": []}
    values: list[float | None] = record["per_instance"]
    while len(values) < len(instances):
        block = optima(environment, instances[len(values) : len(values) + BLOCK], method)
        values += [None if math.isnan(value) else value for value in block.values.tolist()]
        record = {"kind": block.kind, "exact": block.exact, "per_instance": values}
        if path is not None:
            write_atomically(path, json.dumps(record).encode())
    return record


def _read(path: Path | None, count: int) -> dict[str, Any] | None:
    """Return the stored optima; None if the file is missing or damaged."""
    try:
        record: Any = json.loads(path.read_bytes()) if path is not None else None
    except (OSError, ValueError):
        return None
    if not isinstance(record, dict) or set(record) != {"kind", "exact", "per_instance"}:
        return None
    return record if len(record["per_instance"]) <= count else None
