"""The sweep and records that something was made of: whether a run still has just these."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress

from maxk_lab.errors import LabError
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.run.shards.archive import stamp
from maxk_lab.sweeps.spec.load import spec_hash_without_execution


def stamp_of(run: RunDirectory) -> str:
    """Return a hash that changes when the sweep or a record of a run is written.

    Nothing is read for it. It is another one also in a copy of the run, and once records are
    packed: whether the content is the same then, `content_of` tells. Empty for a bundle.
    """
    if run.root.is_file():
        return ""
    stamps: list[object] = []
    with suppress(OSError):
        stamps.append(stamp(os.stat(run.spec_path)))
    for cell_id in run.ids():
        with suppress(FileNotFoundError):
            stamps.append((cell_id, run.cells.stamp(cell_id)))
    return _hash(stamps)


def content_of(run: RunDirectory) -> str:
    """Return a hash of the sweep of a run and of the bytes of all its records.

    Neither the name of the run counts nor how it is executed. Raises `LabError` without a spec.
    """
    spec = run.spec().model_copy(update={"name": "any"})
    prints = {cell_id: run.fingerprint(cell_id) for cell_id in run.ids()}
    return _hash([spec_hash_without_execution(spec), prints])


def is_of(run: RunDirectory, stamp: str, content: str) -> bool:
    """Return whether what was made of this content, when the run had this stamp, is of it still."""
    if stamp_of(run) == stamp:
        return True
    try:
        return content_of(run) == content
    except LabError:
        return False


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:32]
