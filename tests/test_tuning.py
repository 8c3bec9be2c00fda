"""The learning rates of the tuned trainings are those that a tuning found best."""

from pathlib import Path
from statistics import fmean

import golden
import pytest
from remeasure import records_in

from maxk_lab.sweep_file.load import load_spec

EXPERIMENTS = Path(__file__).resolve().parents[1] / "experiments"


@pytest.mark.parametrize(
    ("name", "tuning", "rates", "steps", "k"),
    [
        ("tsp_training_tuned_800", "tsp_tuning", 4, (600, 800), 64),
        ("tsp_training_tuned", "tsp_tuning", 4, (3000, 3200), 64),
        ("pronounce_training", "pronounce_tuning", 3, (120,), None),
    ],
)
def test_each_method_has_the_rate_that_was_best_on_other_seeds(name, tuning, rates, steps, k):
    """By the mean Max@K over the seeds and these evaluations; K is the method's own if None."""
    spec = load_spec(EXPERIMENTS / f"{name}.yaml")
    ends = {}
    for record in records_in(golden.bundle_of(tuning)).values():
        cell, curves = record["cell"], record["metrics"]["evaluations"]
        assert cell["seed"] not in spec.seeds
        method = (
            *(cell[key] for key in ("estimator", "baseline", "k")),
            cell["setting"].get("start"),
        )
        column = curves["ks"].index(k or cell["k"])
        by_rate = ends.setdefault(method, {})
        by_rate.setdefault(cell["setting"]["learning_rate"], []).extend(
            curves["value"][curves["step"].index(step)][column] for step in steps
        )
    assert all(len(by_rate) >= rates for by_rate in ends.values())
    best = {
        (*method, start or "iid"): max(by_rate, key=lambda rate: fmean(by_rate[rate]))
        for (*method, start), by_rate in ends.items()
    }
    assert best == {
        (entry.estimator[0], entry.baseline[0], number, entry.overrides.start): (
            entry.overrides.learning_rate
        )
        for entry in spec.training.grid
        for number in entry.k
    }
