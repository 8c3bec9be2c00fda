"""The checkpoints that a sweep file names: each must fit its policy before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError
from maxk_lab.sweeps.plan.identity import canonical_json
from maxk_lab.sweeps.plan.machine import memory_of_machine
from maxk_lab.sweeps.plan.needs import size
from maxk_lab.sweeps.spec.source import Source, TreePath
from maxk_lab.sweeps.spec.variation import CHECKPOINT, Variant


def check_checkpoints(found: Sequence[Variant], source: Source) -> None:
    """Note checkpoints that are none, or do not fit the policy that they are to be.

    Imports torch if there are any.
    """
    known: set[str] = set()
    for variant in found:
        checkpoint = variant.policy.get("checkpoint")
        if checkpoint is None or variant.refusal is not None:
            continue
        from maxk_lab.sweeps.run.checkpoints import check_checkpoint

        key = canonical_json([variant.environment, variant.policy])
        if key in known:
            continue
        known.add(key)
        needed, there = _bytes_of(variant), memory_of_machine()
        if there is not None and needed > there:
            source.add(
                ("policy",),
                f"takes at least {size(needed)} of memory, and this machine has {size(there)}",
            )
            return
        try:
            check_checkpoint(variant.environment, variant.policy)
        except LabError as error:
            source.add(_place(checkpoint["path"], source), str(error))


def _bytes_of(variant: Variant) -> float:
    row = ENVIRONMENTS.get(variant.environment["name"])
    return row.footprint({**variant.environment, **variant.policy}).policy


def _place(checkpoint: str, source: Source) -> TreePath:
    """Return the place where the sweep file names the checkpoint."""
    varied = source.tree.get("vary", {}).get(CHECKPOINT)
    if varied is None:
        return ("policy", "checkpoint")
    if not isinstance(varied, list):
        return ("vary", CHECKPOINT)
    paths = [value["path"] if isinstance(value, Mapping) else value for value in varied]
    return ("vary", CHECKPOINT, str(paths.index(checkpoint)))
