"""The learning rates of the tuned trainings are those that `tsp_tuning` found best."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import maxk_lab
from maxk_lab.sweeps.spec.load import load_spec

ROOT = Path(__file__).resolve().parents[1]
Method = tuple[str, str, int, str]


def rates(name: str) -> dict[Method, float]:
    """The rate of every method of a sweep file, or the rates that it was tuned over."""
    training = load_spec(ROOT / f"experiments/{name}.yaml").training
    return {
        (entry.estimator[0], entry.baseline[0], k, entry.overrides.start): (
            entry.overrides.learning_rate
        )
        for entry in training.grid
        for k in entry.k
    }


@pytest.mark.parametrize(
    ("name", "steps"), [("tsp_training_tuned_800", 800), ("tsp_training_tuned", 3200)]
)
def test_each_method_has_the_rate_that_was_best_on_seeds_of_its_own(name: str, steps: int) -> None:
    """By the mean Max@64 over the seeds and the last two evaluations until so many steps."""
    bundle = ROOT / "results/golden/tsp_tuning/tsp_tuning.zip"
    tuned: dict[Method, dict[float, float]] = {}
    seeds = set()
    for row in json.loads(maxk_lab.report(bundle).to("json"))["training"]:
        told = {each["step"]: each["value"] for each in row["evaluations"] if each["k"] == 64}
        value = (told[steps] + told[steps - 200]) / 2
        method = row["estimator"], row["baseline"], row["k"], row["start"]
        tuned.setdefault(method, {})[row["learning_rate"]] = value
        seeds |= {int(seed) for seed in row["cells"]}
    assert all(len(of_rate) >= 4 for of_rate in tuned.values())
    best = {method: max(of_rate, key=of_rate.__getitem__) for method, of_rate in tuned.items()}
    assert rates(name) == best
    assert not seeds & set(load_spec(ROOT / f"experiments/{name}.yaml").seeds)
