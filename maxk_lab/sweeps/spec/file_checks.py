"""The files that a sweep file names: each must be there, and be what it is named for, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from maxk_lab.environments.instance_files import data_refusal, hash_of_data
from maxk_lab.environments.refusals import files_refusal
from maxk_lab.errors import LabError
from maxk_lab.sweeps.plan.identity import canonical_json
from maxk_lab.sweeps.spec.named_files import resolved_file
from maxk_lab.sweeps.spec.source import Source, TreePath
from maxk_lab.sweeps.spec.variation import CHECKPOINT, Variant

DATA: TreePath = ("training", "evaluate", "data")


def resolve_data(source: Source) -> None:
    """Put the path and the hash of the evaluation set in the place of its path; a file that is not there is noted."""
    training = source.tree.get("training")
    evaluate = training.get("evaluate") if isinstance(training, Mapping) else None
    if not isinstance(evaluate, dict) or evaluate.get("data") is None:
        return
    environment = source.tree.get("environment")
    name = str(environment.get("name")) if isinstance(environment, Mapping) else ""
    try:
        evaluate["data"] = resolved_file(
            evaluate["data"], "data", lambda path: hash_of_data(path, name)
        )
    except LabError as error:
        source.add(DATA, str(error))
        del evaluate["data"]


def check_data(path: str, environment: str, source: Source) -> None:
    """Note an evaluation set that is of another environment, or of one that reads none."""
    reason = files_refusal(environment) or data_refusal(environment, path)
    if reason is not None:
        source.add(DATA, reason)


def check_checkpoints(found: Sequence[Variant], source: Source) -> None:
    """Note checkpoints that are none, or do not fit the policy that they are to be. Imports torch if there are any."""
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
        try:
            check_checkpoint(variant.environment, variant.policy)
        except LabError as error:
            source.add(_place(checkpoint["path"], source), str(error))


def _place(checkpoint: str, source: Source) -> TreePath:
    """Where the sweep file names the checkpoint."""
    varied = source.tree.get("vary", {}).get(CHECKPOINT)
    if varied is None:
        return ("policy", "checkpoint")
    if not isinstance(varied, list):
        return ("vary", CHECKPOINT)
    paths = [value["path"] if isinstance(value, Mapping) else value for value in varied]
    return ("vary", CHECKPOINT, str(paths.index(checkpoint)))
