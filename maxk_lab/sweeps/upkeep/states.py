"""The states of a run's records, kept so that a listing of many runs does not read them again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast, get_args

from pydantic_core import from_json

import maxk_lab
from maxk_lab.files import StorageError, read_regular, write_atomically
from maxk_lab.sweeps.plan.identity import IDENTITY_VERSION
from maxk_lab.sweeps.run.record_bytes import MOST_BYTES
from maxk_lab.sweeps.run.records import RecordState, RunDirectory

FILE = "states.json"
# Fewer records are read again more cheaply than a file is written.
_WORTH_IT = 20
_STATES = get_args(RecordState)
# A state, and what told the record from every other one when it was read.
_Known = list[Any]


def states_of(run: RunDirectory) -> dict[str, RecordState]:
    """Return the state of every record of a run, by the ids of their cells.

    A record is read once and its state kept in the cache of the run as long as its file stays the
    same: a change that leaves size and time of a file as they were is seen by `fsck` alone.
    """
    known, found, read = _kept(run), dict[str, _Known](), 0
    for cell_id in run.ids():
        try:
            stamp = list(run.cells.stamp(cell_id))
        except FileNotFoundError:
            continue
        state = known.get(cell_id)
        if state is None or state[1:] != stamp:
            told = run.state(cell_id)
            if told is None:
                continue
            state, read = [told, *stamp], read + 1
        found[cell_id] = state
    if read >= _WORTH_IT:
        _keep(run, found)
    return {cell_id: state[0] for cell_id, state in found.items()}


def _version() -> list[Any]:
    """Return what decides how records are read."""
    return [maxk_lab.__version__, IDENTITY_VERSION]


def _kept(run: RunDirectory) -> dict[str, _Known]:
    try:
        content = from_json(read_regular(run.cache_path / FILE, MOST_BYTES))
    except (OSError, ValueError):
        return {}
    if not isinstance(content, dict) or content.get("version") != _version():
        return {}
    states = content.get("states")
    if not isinstance(states, dict) or not all(map(_is_known, states.values())):
        return {}
    return cast(dict[str, _Known], states)


def _is_known(one: Any) -> bool:
    return isinstance(one, list) and len(one) > 1 and one[0] in _STATES


def _keep(run: RunDirectory, states: Mapping[str, _Known]) -> None:
    """Keep the states; where nothing can be written they are read again the next time."""
    if run.cache_path.is_symlink():
        return
    content = json.dumps({"version": _version(), "states": states}, separators=(",", ":"))
    try:
        write_atomically(run.cache_path / FILE, content.encode())
    except StorageError:
        return
