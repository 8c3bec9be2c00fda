"""Symmetric copies of RL4CO's instances, the same problems for a policy that is not symmetric."""

from __future__ import annotations

from rl4co.data.transforms import StateAugmentation
from rl4co.envs import RL4COEnvBase
from tensordict import TensorDict

from maxk_lab.errors import LabError

# RL4CO's dihedral augmentation has the eight symmetries of the square, and no other number of them.
DIHEDRAL = 8


def symmetric_copies(env: RL4COEnvBase, instances: TensorDict) -> TensorDict:
    """The eight copies of every instance, [(8 b)].

    Raises `LabError` where instances have no coordinates.
    """
    if instances.get("locs", None) is None:
        raise LabError(f"{env.name} has no coordinates to rotate: no augmentation")
    side = _side(env)
    unit = instances.clone().set("locs", instances["locs"] / side)
    copies = StateAugmentation(num_augment=DIHEDRAL, augment_fn="dihedral8")(unit)
    return copies.set("locs", copies["locs"] * side)


def _side(env: RL4COEnvBase) -> float:
    """The side of the square in which `env` draws its coordinates.

    RL4CO mirrors at the middle of the unit square, outside cvrptw's.
    """
    if env.name != "cvrptw":
        return 1.0
    generator = env.generator
    return float(generator.max_loc / generator.max_time if generator.scale else generator.max_loc)
