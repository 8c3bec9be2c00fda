"""RL4CO's instances in files (npz as RL4CO has them, TSPLIB and CVRPLIB), and their hash."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rl4co.envs import RL4COEnvBase
from tensordict import TensorDict
from torch import Tensor

from maxk_lab.environments.catalogue import data_files, data_refusal
from maxk_lab.environments.routing.problems import cast_floats
from maxk_lab.environments.routing.rows import FILES
from maxk_lab.environments.routing.tsplib import read_problem
from maxk_lab.errors import LabError, shortened
from maxk_lab.seeds import isolated_rng

# RL4CO's resets of these take the number of nodes from the data, so that their policies can be
# evaluated on any size.
ANY_SIZE = ("tsp", "cvrp")
# Entries of a first state that RL4CO's generators give by the same name and in the same shape, by
# the entry that only this problem has.
_SAME: Mapping[str, tuple[str, ...]] = {
    "job_due_time": ("job_due_time", "job_weight", "job_process_time"),
    "first_node": ("locs",),
}
# OP's reset takes this from the longest allowed tour, against rounding.
_OP_MARGIN = 1e-6
_UNREADABLE = (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError)


def read_instances(env: RL4COEnvBase, path: str | Path, dtype: torch.dtype) -> TensorDict:
    """The first states of all instances of a file or folder, in order: batch [B] on the CPU.

    Floating-point entries are of type `dtype`. An npz file is what `env.load_data` takes, so its
    coordinates and lengths stay as they are. TSPLIB and CVRPLIB problems are scaled to the unit
    square (see `read_problem`), each by its own factor. Instances must be as large as those `env`
    draws; those of tsp and cvrp may have any one size. Raises `LabError` for all that cannot be
    read so.
    """
    refusal = data_refusal(env.name, path)
    if refusal is not None:
        raise LabError(refusal)
    with isolated_rng(0):
        expected = _stored(env.reset(env.generator([2])))
    parts = []
    for file in data_files(path, FILES):
        if file.suffix.lower() == ".npz":
            arrays = _load(env, file, expected)
        else:
            problem = read_problem(env.name, file)
            arrays = {key: torch.from_numpy(values) for key, values in problem.items()}
        parts.append(_checked(env.name, file, arrays, expected))
        for key, values in arrays.items():
            _check(
                Path(path),
                values.shape[1:] == parts[0][key].shape[1:],
                f"instances must be of one size, but {file.name} has {key} of shape "
                f"{list(values.shape)} and the first file {list(parts[0][key].shape)}",
            )
    raw = {key: torch.cat([arrays[key] for arrays in parts]) for key in parts[0]}
    # RL4CO draws in single precision and so do its files: what a reset computes then comes out bit
    # for bit.
    exact = dtype == torch.float32 or all(_is_single(values) for values in raw.values())
    start = TensorDict(raw, batch_size=[len(next(iter(raw.values())))])
    with isolated_rng(0):
        state = env.reset(cast_floats(start, torch.float32 if exact else dtype))
    return cast_floats(state, dtype)


def write_instances(instances: TensorDict, path: str | Path) -> None:
    """Write first states as an npz file that `read_instances` gives back exactly.

    RL4CO's `env.load_data` reads it, too. Not given back is `capacity`, which the states of cvrp
    and its kin carry but nothing reads: their demand is divided by it.
    """
    arrays: dict[str, Any] = {key: values.numpy() for key, values in _stored(instances).items()}
    with Path(path).open("wb") as file:
        np.savez(file, **arrays)


def instances_hash(instances: TensorDict) -> str:
    """The first 16 hex digits of the SHA-256 of what the instances say.

    They are the same in single and in double precision.
    """
    digest = hashlib.sha256()
    for key, values in sorted(_stored(instances).items()):
        array = values.contiguous().numpy()
        digest.update(f"{key} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]


def _checked(
    name: str, path: Path, raw: dict[str, Tensor], expected: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The arguments of RL4CO's reset, [B, ...] each, once they are like those of its generator."""
    count = len(raw.get("locs", next(iter(raw.values()))))
    for key, values in raw.items():
        shape = (count, *expected[key].shape[1:])
        any_size = name in ANY_SIZE and raw["locs"].dim() == expected["locs"].dim()
        if any_size and key in ("locs", "demand"):
            shape = (count, raw["locs"].shape[1], *shape[2:])
        rule = f"{key} must have the shape {list(shape)} for this {name}"
        _check(path, values.shape == shape, f"{rule}, got {list(values.shape)}")
        finite = bool(values.isfinite().all())
        _check(path, finite, f"{key} has entries that are no finite numbers")
        if expected[key].is_floating_point() and not values.is_floating_point():
            raw[key] = values.double()
    return raw


def _load(env: RL4COEnvBase, path: Path, expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The arrays of an npz file as RL4CO loads them, once they are what it expects."""
    try:
        archive = np.load(path, allow_pickle=False)
        arrays = {key: archive[key] for key in archive.files}
        for values in arrays.values():
            if values.dtype.kind not in "biuf":
                raise ValueError(f"an array of {values.dtype} is none of numbers")
    except (*_UNREADABLE, AttributeError) as error:  # AttributeError: one array without a name
        raise LabError(f"{path} is no npz file of numbers: {shortened(str(error), 200)}") from error
    if missing := [key for key in expected if key not in arrays]:
        needed = f"{env.name} needs {', '.join(expected)}, it has {', '.join(arrays)}"
        raise LabError(f"{path} lacks {', '.join(missing)}; {needed}")
    counts = {values.shape[0] if values.ndim else 0 for values in arrays.values()}
    alike = len(counts) == 1 and counts != {0}
    _check(path, alike, "all arrays must have the instances as their first, equally long axis")
    if "capacity" in arrays:
        shape = arrays["capacity"].shape
        rule = f"capacity must have the shape [{counts.pop()}] and demand be in its units"
        _check(path, len(shape) == 1, f"{rule} (RL4CO divides them), got {list(shape)}")
    loaded = env.load_data(str(path))
    return {key: loaded[key] for key in expected if key != "capacity"}


def _stored(instances: TensorDict) -> dict[str, Tensor]:
    """First states as RL4CO's files hold them, as its generator gave them.

    In single precision where that loses nothing.
    """
    state = instances.detach().cpu()
    if all(_is_single(values) for values in state.values()):
        state = cast_floats(state, torch.float32)
    for entry, same in _SAME.items():
        if entry in state:
            return {key: state[key] for key in same}
    raw = {"locs": state["locs"][:, 1:], "depot": state["locs"][:, 0]}
    if "demand" in state:
        # RL4CO divides the demand of a file by its capacity: by 1, as it is divided already.
        raw |= {"demand": state["demand"], "capacity": torch.ones(len(state["demand"]))}
    if "max_length" in state:
        raw |= {"prize": state["prize"][:, 1:]}
        raw |= {"max_length": state["max_length"][:, 0] + _OP_MARGIN}
    if "real_prize" in state:
        raw |= {key: state[key] for key in ("deterministic_prize", "stochastic_prize")}
        raw |= {"penalty": state["penalty"][:, 1:]}
    return raw


def _is_single(values: Tensor) -> bool:
    """Whether single precision holds these values exactly."""
    return not values.is_floating_point() or bool((values == values.float().to(values.dtype)).all())


def _check(path: Path, holds: bool, message: str) -> None:
    if not holds:
        raise LabError(f"{path}: {message}")
