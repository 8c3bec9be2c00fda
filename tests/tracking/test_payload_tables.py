"""The tables of every study tell its records, with a column for whatever varies."""

from types import SimpleNamespace

import pytest

from maxk_lab.statistics.units import FIELDS
from maxk_lab.tracking.payload import payloads


def record(study, metrics, *, status="done", **cell):
    """A record with the attributes that tracking reads."""
    base = {
        "id": "x",
        "identity_version": 1,
        "study": study,
        "seed": 0,
        "environment": {"name": "bandit"},
        "policy": {},
    }
    point = {"estimator": "maxk", "baseline": "none", "n": 4, "k": 2}
    return SimpleNamespace(cell=base | point | cell, status=status, metrics=metrics, provenance={})


def sent(*records):
    """The one payload of the records, and its tables as lists of mappings."""
    (payload,) = payloads("sweep", {}, records)
    tables = {
        name: [dict(zip(table.columns, line, strict=True)) for line in table.lines]
        for name, table in payload.tables.items()
    }
    return payload, tables


def measured(**points):
    """Metrics of a gradient cell of two units."""
    columns = {name: [1.0, 1.0] for name in FIELDS}
    return {"against": "exact", "replicates": 2, "units": columns, **points}


def test_settings_and_further_measures_of_a_gradient_study():
    payload, tables = sent(
        record(
            "gradient", measured(variance=1.0, kl=0.1), stage=0, setting={"environment.arms": 8}
        ),
        record("gradient", measured(variance=2.0), stage=0, setting={"environment.arms": 16}),
        record("gradient", {"kl": 9.0}, stage=0, setting={"environment.arms": 32}, status="failed"),
    )
    assert payload.metrics["stage0/arms=8/maxk/none/n4/k2/kl"] == 0.1
    assert payload.metrics["stage0/arms=16/maxk/none/n4/k2/variance"] == 2.0
    assert not [
        name for name in payload.metrics if "arms=32" in name and not name.endswith("status")
    ]
    assert [
        (line["environment.arms"], line["variance"], line["kl"]) for line in tables["cells"]
    ] == [
        (8, 1.0, 0.1),
        (16, 2.0, None),
        (32, None, None),
    ]


def test_a_study_that_varies_nothing_has_the_columns_it_always_had():
    payload, tables = sent(record("gradient", measured(variance=1.0), stage=5))
    assert payload.metrics["stage5/maxk/none/n4/k2/variance"] == 1.0
    assert list(tables["cells"][0])[-2:] == ["scale", "cosine"]


def test_an_objective_study_sends_its_optima_and_curves():
    metrics = {
        "parameter": "policy.mean",
        "points": [0.0, 1.0],
        "values": [0.5, 0.7],
        "optimum": 0.25,
        "optimum_value": 0.75,
    }
    payload, tables = sent(
        record("objective", metrics, k=8), record("objective", None, k=16, status="failed")
    )
    assert payload.metrics["objective/maxk/k8/optimum"] == 0.25
    assert payload.metrics["objective/maxk/k16/status"] == "failed"
    assert [(line["k"], line["optimum"]) for line in tables["cells"]] == [(8, 0.25), (16, None)]
    assert [(line["point"], line["value"]) for line in tables["curves"]] == [
        (0.0, 0.5),
        (1.0, 0.7),
    ]


@pytest.mark.parametrize("setting", [{}, {"policy.mean": 0.5}])
def test_a_weights_study_sends_every_weight(setting):
    numbers = {"zero_share": 0.5, "weight_sum": 1.0, "weight_min": 0.0, "weight_std": 0.1}
    metrics = numbers | {"rewards": [[1.0, 2.0], [3.0, 4.0]], "weights": [[0.1, 0.2], [0.3, 0.4]]}
    payload, tables = sent(record("weights", metrics, **({"setting": setting} if setting else {})))
    place = "mean=0.5/" if setting else ""
    assert payload.metrics[f"weights/{place}maxk/none/n4/k2/zero_share"] == 0.5
    assert tables["cells"] == [{**tables["cells"][0], **numbers, **setting}]
    assert [(line["group"], line["reward"], line["weight"]) for line in tables["samples"]] == [
        (0, 1.0, 0.1),
        (0, 2.0, 0.2),
        (1, 3.0, 0.3),
        (1, 4.0, 0.4),
    ]


def trained(**more):
    """Metrics of a trained cell on two instances: K = 1 and 2."""
    lists = {"value": [-5.0, -4.5], "low": [-6.0, -5.0], "high": [-4.0, -4.0]}
    return {
        "steps": 10,
        "rollouts": 40,
        "evaluations": {"step": [10], "rollouts": [40], "ks": [1, 2]}
        | {end: [values] for end, values in lists.items()},
        "final": {**lists, "ks": [1, 2], "per_instance": [[-6.0, -4.0], [-5.0, -4.0]]},
        **more,
    }


def test_a_training_study_sends_extras_gaps_quantiles_and_settings():
    ends = {"value": -4.25, "low": -5.0, "high": -3.5}
    new = {
        "extras": {
            "greedy": {**ends, "per_instance": [-4.5, -4.0]},
            "greedy_augmented": {"value": None, "reason": "no coordinates"},
        },
        "quantiles": {"p50": ends},
        "reference": {"kind": "milp", "exact": True, "per_instance": [-4.0, -4.0]},
    }
    payload, tables = sent(
        record("training", trained(**new), setting={"start": "iid"}),
        record("training", None, setting={"start": "multistart"}, status="failed"),
    )
    path = "training/start=iid/maxk/none/n4/k2"
    assert payload.metrics[f"{path}/final/max@2"] == -4.5
    assert payload.metrics[f"{path}/final/gap@1"] == pytest.approx(25.0)
    assert payload.metrics[f"{path}/final/gap@2"] == pytest.approx(12.5)
    assert payload.metrics[f"{path}/final/p50"] == payload.metrics[f"{path}/extras/greedy"] == -4.25
    assert payload.metrics[f"{path}/extras/greedy_gap"] == pytest.approx(6.25)
    assert not [name for name in payload.metrics if "augmented" in name]
    assert [name for name in payload.metrics if "multistart" in name] == [
        "training/start=multistart/maxk/none/n4/k2/status"
    ]
    assert [(line["start"], line["status"]) for line in tables["cells"]] == [
        ("iid", "done"),
        ("multistart", "failed"),
    ]
    assert [(line["at_k"], line["gap"], line["start"]) for line in tables["final"]] == [
        (1, 25.0, "iid"),
        (2, 12.5, "iid"),
    ]
    assert [(line["extra"], line["value"], line["gap"]) for line in tables["extras"]] == [
        ("greedy", -4.25, 6.25),
        ("greedy_augmented", None, None),
    ]
    assert [(line["quantile"], line["low"]) for line in tables["quantiles"]] == [("p50", -5.0)]


def test_a_training_study_sends_max_at_k_at_every_temperature():
    ends = {"value": [-4.0, -3.5], "low": [-5.0, -4.0], "high": [-3.0, -3.0]}
    new = {
        "tempered": {"2.0": ends | {"ks": [1, 2], "per_instance": [[-5.0, -3.0], [-4.0, -3.0]]}},
        "tuning": {"tempered": {"1.0": [-5.1, -4.6], "2.0": [-4.1, -3.6]}},
    }
    payload, tables = sent(record("training", trained(**new)))
    assert payload.metrics["training/maxk/none/n4/k2/final/max@2_T=2"] == -3.5
    lines = [
        [line[key] for key in ("temperature", "at_k", "value", "low", "high", "tuning")]
        for line in tables["tempered"]
    ]
    assert lines == [["2.0", 1, -4.0, -5.0, -3.0, -4.1], ["2.0", 2, -3.5, -4.0, -3.0, -3.6]]
    del new["tuning"]
    _, tables = sent(record("training", trained(**new)))
    assert [line["tuning"] for line in tables["tempered"]] == [None, None]


def test_a_training_record_without_them_has_the_columns_it_always_had():
    payload, tables = sent(record("training", trained()))
    assert set(tables) == {"cells", "final", "evaluations", "log"}
    assert list(tables["final"][0])[-4:] == ["at_k", "value", "low", "high"]
    assert payload.metrics["training/maxk/none/n4/k2/final/max@1"] == -5.0
