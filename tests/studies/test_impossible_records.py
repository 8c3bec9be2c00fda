"""Records whose checksum is right and whose numbers nothing can have measured: not used."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from runs_of_every_kind import SWEEPS, measured

from maxk_lab.sweeps.run.record import Record, content_of

# Kind → where in the metrics, what is written there, and what is then told.
CHANGES: dict[str, list[tuple[str, Any, str]]] = {
    "training": [
        ("rollouts", 10**9, "rollouts"),
        ("evaluations.rollouts", [0, 7], "rollouts"),
        ("evaluations.step", [2, 0], "not evaluated after the steps"),
        ("evaluations.step", [0, 1], "not evaluated after the steps"),
        ("evaluations.ks", [1, 3, 4], "evaluations is at K"),
        ("evaluations.value.0", [0.9, 0.2, 0.1], "is not from|falls"),
        ("evaluations.value.1.0", -0.5, "is not from"),
        ("last", [999], "its end is not after"),
        ("last", [0], "its end is not after"),
        ("log.step", [50, 3], "its log"),
        ("log.step", [1, 2], "its log"),
        ("log.step", [0, 0], "its log"),
        ("final.ks", [1, 3, 4], "final is at K"),
        ("final.value.0", None, "no reason is"),
        ("final.value.1", 1e-2, "the rest of it gives"),
        ("final.value.2", -1.0, "is not from|falls"),
        ("final.low", [5.0] * 4, "is not from"),
        ("final.high", [-5.0] * 4, "is not from"),
        ("final.per_instance.2", [-9.0] * 4, "the rest of it gives|falls"),
        ("quantiles.p50", {"value": 1e6, "low": None, "high": None}, "the quantiles falls"),
        ("reference.per_instance", [-9.0] * 4, "above the optimum"),
    ],
    "objective": [
        ("points", [5.0, 4.0, 3.0, 2.0, 1.0], "points.0"),
        ("values", [None] * 5, "values.0"),
        ("optimum", 1e6, "beyond the points"),
        ("optimum_value", -1e6, "is not the largest"),
        ("undefined", {"optimum": "none"}, "or the reason why"),
    ],
    "weights": [
        ("weight_sum", 1e9, "weight_sum is"),
        ("weight_min", 1e9, "weight_min is"),
        ("weight_std", -1.0, "weight_std is"),
        ("zero_share", -4.0, "zero_share is"),
        ("weights", [[1e6] * 4] * 3, "the rest of it gives"),
        ("more", 1.0, "more is no measure"),
    ],
    "gradient": [
        ("replicates", 10**9, "replicates"),
        ("replicates", 1, "replicates"),
        ("is_reference", True, "it is no reference"),
        ("against", "reference:nothing", "no nothing to judge"),
    ],
    "enumerated": [("replicates", 4, "replicates")],
}


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Record]:
    """A sound record of every kind."""
    folder = tmp_path_factory.mktemp("sound")
    runs = {kind: measured(kind, folder) for kind in SWEEPS}
    return {kind: run.read(run.ids()[0]) for kind, run in runs.items()}


@pytest.mark.parametrize(
    ("kind", "place", "value", "told"),
    [(kind, *change) for kind, changes in CHANGES.items() for change in changes],
)
def test_what_nothing_can_have_measured_is_refused(
    kind: str, place: str, value: Any, told: str, contents: dict[str, Record]
) -> None:
    sound = contents[kind]
    assert _read(sound, sound.metrics).status == "done"
    metrics = copy.deepcopy(sound.metrics)
    part, *keys = metrics, *place.split(".")
    for key in keys[:-1]:
        part = part[int(key) if isinstance(part, list) else key]
    part[int(keys[-1]) if isinstance(part, list) else keys[-1]] = value
    with pytest.raises(ValueError, match=told):
        _read(sound, metrics)


@pytest.mark.parametrize("data", [{"sha256": "0123"}, None])
def test_a_file_of_instances_may_hold_fewer(
    data: dict[str, str] | None, contents: dict[str, Record]
) -> None:
    cell = copy.deepcopy(contents["training"].cell)
    cell["training"]["evaluate"] |= {"instances": 9, "data": data}
    if data is None:
        with pytest.raises(ValueError, match="evaluated on 4 instances"):
            content_of(cell, contents["training"].metrics)
    else:
        assert content_of(cell, contents["training"].metrics) is not None


@pytest.mark.parametrize("clock", ["seconds", "finished", "evaluations_seconds"])
def test_no_time_is_less_than_none(clock: str, contents: dict[str, Record]) -> None:
    sound = contents["training"]
    told = {clock: [-1.0] if clock.startswith("evaluations") else -1.0}
    with pytest.raises(ValueError, match=f"timings.{clock}.* at least 0"):
        _read(sound, sound.metrics, sound.timings | told)


def _read(sound: Record, metrics: Any, timings: Any = None) -> Record:
    changed = Record(sound.cell, "done", metrics, None, sound.provenance, timings or sound.timings)
    return Record.from_line(changed.to_line())
