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
from maxk_lab.environments.routing.problems import OP_MARGIN, cast_floats, check_feasible
from maxk_lab.environments.routing.rows import FILES
from maxk_lab.environments.routing.tsplib import check, read_problem
from maxk_lab.errors import LabError, shortened
from maxk_lab.seeds import isolated_rng

# RL4CO's resets of these read the number of nodes from the data, so any size can be evaluated.
ANY_SIZE = ("tsp", "cvrp")
# Entries of a first state that RL4CO's generators return with the same name and shape, by the entry
# that only this problem has.
_SAME: Mapping[str, tuple[str, ...]] = {
    "job_due_time": ("job_due_time", "job_weight", "job_process_time"),
    "first_node": ("locs",),
}
_LARGEST = 1e18  # squares of entries are finite in single precision
_UNREADABLE = (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError)


def read_instances(env: RL4COEnvBase, path: str | Path, dtype: torch.dtype) -> TensorDict:
    """Return the first states of all instances of a file or folder, in order: batch [B], CPU.

    Floating-point entries are of type `dtype`. An npz file is for `env.load_data`. TSPLIB and
    CVRPLIB problems are scaled to the unit square (see `read_problem`), each by its own factor.
    Instances must have the size of `env`; instances of tsp and cvrp may have any one size. Raises
    `LabError` for a file that does not meet these rules.
    """
    if (refusal := data_refusal(env.name, path)) is not None:
        raise LabError(refusal)
    with isolated_rng(0):
        expected = _stored(env.reset(env.generator([2])))
    states: list[TensorDict] = []
    for file in data_files(path, FILES):
        try:
            state = check_feasible(_first_states(env, _read(env, file, expected), dtype))
            size, first = (each["action_mask"].shape[-1] for each in (state, (*states, state)[0]))
            rule = f"instances must be of one size: {size} nodes"
            check(size == first, f"{rule}, and {first} in the first file")
        except LabError as error:
            raise LabError(f"{file}: {error}") from None
        states.append(state)
    return torch.cat(states)


def _first_states(env: RL4COEnvBase, arrays: dict[str, Tensor], dtype: torch.dtype) -> TensorDict:
    """Return RL4CO's first states of instances, floating-point entries as `dtype`."""
    # RL4CO draws in single precision, so a reset reproduces its files bit for bit.
    exact = dtype == torch.float32 or all(_is_single(values) for values in arrays.values())
    start = TensorDict(arrays, batch_size=[len(next(iter(arrays.values())))])
    with isolated_rng(0):
        state = env.reset(cast_floats(start, torch.float32 if exact else dtype))
    return cast_floats(state, dtype)


def write_instances(instances: TensorDict, path: str | Path) -> None:
    """Write first states as an npz file that `read_instances` and RL4CO's `env.load_data` read.

    The `capacity` of cvrp and similar problems is 1: their demand is divided by it.
    """
    with Path(path).open("wb") as file:
        arrays: dict[str, Any] = {key: values.numpy() for key, values in _stored(instances).items()}
        np.savez(file, **arrays)


def instances_hash(instances: TensorDict) -> str:
    """Return 16 hex digits of the SHA-256 of instances, equal in single and double precision."""
    digest = hashlib.sha256()
    for key, values in sorted(_stored(instances).items()):
        array = values.contiguous().numpy()
        digest.update(f"{key} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]


def _read(env: RL4COEnvBase, file: Path, expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the arguments [B, ...] of RL4CO's reset, like those of its generator."""
    is_npz = file.suffix.lower() == ".npz"
    arrays = _load(file) if is_npz else read_problem(env.name, file)
    keys = [key for key in expected if is_npz or key in arrays]
    missing = ", ".join(key for key in keys if key not in arrays)
    listed = f"{env.name} needs {', '.join(expected)}, the file has {', '.join(arrays)}"
    check(not missing, f"{missing} missing; {listed}")
    lengths, sizes = {values.shape[:1] for values in arrays.values()}, arrays[keys[0]].shape
    alike = len(lengths) == 1 and 0 not in sizes
    check(alike, "all arrays must have the instances as their first, equally long axis")
    for key in keys:
        values, shape = arrays[key], [*sizes[:1], *expected[key].shape[1:]]
        if env.name in ANY_SIZE and len(sizes) > 1 and key in ("locs", "demand"):
            shape[1] = sizes[1]
        rule = f"{key} must have the shape {shape} for this {env.name}"
        check([*values.shape] == shape, f"{rule}, got {[*values.shape]}")
        is_finite = bool((np.abs(values) < _LARGEST).all())
        check(is_finite, f"{key} has entries that are no finite numbers")
    # RL4CO divides the demand by the capacity.
    loaded = env.load_data(str(file)) if is_npz else arrays
    tensors = {key: torch.as_tensor(loaded[key]) for key in keys if key != "capacity"}
    integers = [key for key, values in tensors.items() if not values.is_floating_point()]
    return tensors | {
        key: tensors[key].double() for key in integers if expected[key].is_floating_point()
    }


def _load(file: Path) -> dict[str, Any]:
    """Return the arrays of an npz file."""
    try:
        archive = np.load(file, allow_pickle=False)
        arrays = {key: archive[key] for key in archive.files}
    except (*_UNREADABLE, AttributeError) as error:  # AttributeError: an .npy file
        raise LabError(f"no npz file of numbers: {shortened(str(error), 200)}") from error
    for key, values in arrays.items():
        check(values.dtype.kind in "biuf", f"no npz file of numbers: {key} is of {values.dtype}")
    return arrays


def _stored(instances: TensorDict) -> dict[str, Tensor]:
    """Return first states in the form of RL4CO's generators and files.

    They are in single precision if this is exact.
    """
    state = instances.detach().cpu()
    if all(_is_single(values) for values in state.values()):
        state = cast_floats(state, torch.float32)
    for entry, same in _SAME.items():
        if entry in state:
            return {key: state[key] for key in same}
    raw = {"locs": state["locs"][:, 1:], "depot": state["locs"][:, 0]}
    if "demand" in state:
        raw |= {"demand": state["demand"], "capacity": torch.ones(len(state["demand"]))}
    if "max_length" in state:
        raw |= {"prize": state["prize"][:, 1:]}
        raw |= {"max_length": state["max_length"][:, 0] + OP_MARGIN}
    if "real_prize" in state:
        raw |= {key: state[key] for key in ("deterministic_prize", "stochastic_prize")}
        raw |= {"penalty": state["penalty"][:, 1:]}
    return raw


def _is_single(values: Tensor) -> bool:
    """Return whether single precision holds these values exactly."""
    return not values.is_floating_point() or bool((values == values.float().to(values.dtype)).all())
