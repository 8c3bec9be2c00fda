"""The learning rates of the tuned trainings are those that `tsp_tuning` found best."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from maxk_lab.execution.archive import find_run
from maxk_lab.reports.report import read_report
from maxk_lab.studies.training.row import TrainingRow
from maxk_lab.sweep_file.load import load_spec

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


@cache
def tuned() -> Sequence[TrainingRow]:
    """The rows of the tuning."""
    report = read_report(
        find_run(str(ROOT / "results/golden/tsp_tuning/tsp_tuning.zip"), "results")
    )
    rows: Sequence[TrainingRow] = report.studies["training"].rows
    return rows


@pytest.mark.parametrize(
    ("name", "steps"), [("tsp_training_tuned_800", 800), ("tsp_training_tuned", 3200)]
)
def test_each_method_has_the_rate_that_was_best_on_seeds_of_its_own(name: str, steps: int) -> None:
    """By the mean Max@64 over the seeds and the last two evaluations until so many steps."""
    values: dict[Method, dict[float, float]] = {}
    for row in tuned():
        ends = {each.step: each.values[64].value for each in row.evaluations}
        method = row.key.estimator, row.key.baseline, row.key.k, row.settings.start
        value = (ends[steps] + ends[steps - 200]) / 2
        values.setdefault(method, {})[row.settings.learning_rate] = value
    assert all(len(of_rate) >= 4 for of_rate in values.values())
    best = {method: max(of_rate, key=of_rate.__getitem__) for method, of_rate in values.items()}
    assert rates(name) == best
    seeds = {seed for row in tuned() for seed in row.cells}
    assert not seeds & set(load_spec(ROOT / f"experiments/{name}.yaml").seeds)


def test_each_training_on_pronounce_has_the_rate_with_the_best_pass_at_its_k() -> None:
    """By the mean over the seeds after 120 steps, at the K that the method trains for."""
    bundle = ROOT / "results/golden/pronounce_tuning/pronounce_tuning.zip"
    report = read_report(find_run(str(bundle), "results"))
    rows = report.studies["training"].rows
    values: dict[Method, dict[float, float]] = {}
    for row in rows:
        (end,) = (each.values[row.key.k].value for each in row.evaluations if each.step == 120)
        method = row.key.estimator, row.key.baseline, row.key.k, "iid"
        values.setdefault(method, {})[row.settings.learning_rate] = end
    assert all(len(by_rate) == 3 for by_rate in values.values())
    best = {method: max(by_rate, key=by_rate.__getitem__) for method, by_rate in values.items()}
    assert rates("pronounce_training") == best
    seeds = {seed for row in rows for seed in row.cells}
    assert not seeds & set(load_spec(ROOT / "experiments/pronounce_training.yaml").seeds)
