"""Numbers of golden runs that reports lack: changes and differences at every K at once.

S seeds, W words of each seed, K the list of K of an evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from records import GOLDEN, number, report, require, select
from scipy import stats

from maxk_lab.execution.archive import find_run
from maxk_lab.reports.tables import grouped
from maxk_lab.statistics.bands import Band, difference_band
from maxk_lab.studies.gradient.recommend import ranked

PREDICTED = Path(__file__).parent / "figures/predicted"


@cache
def metrics(name: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the cell and the metrics of each record of a golden run, by seed."""
    run = find_run(GOLDEN / name / f"{name}.zip")
    read = [record for record in map(run.read, run.ids()) if record and record.metrics]
    return sorted(((r.cell, r.metrics) for r in read), key=lambda pair: pair[0]["seed"])


def trained(name: str, method: str) -> list[dict[str, Any]]:
    """Return the metrics of a method such as `maxk subloo 8`, one for each seed."""
    estimator, baseline, k = method.split()
    axes = {"estimator": estimator, "baseline": baseline, "k": int(k)}
    rows = [values for cell, values in metrics(name) if axes.items() <= cell.items()]
    require(rows, f"{name} trains {method}")
    return rows


def curve(name: str, method: str, evaluation: int) -> np.ndarray:
    """Return the Max@K of an evaluation, 0 before training and -1 after it, [S, K]."""
    return np.array([row["evaluations"]["value"][evaluation] for row in trained(name, method)])


def change(name: str, method: str) -> Band:
    """Return Max@K after less before training, with a band over seeds for all K together.

    Student's t at the level of one of K intervals (Bonferroni).
    """
    changes = curve(name, method, -1) - curve(name, method, 0)
    seeds, ks = changes.shape
    mean, error = changes.mean(0), changes.std(0, ddof=1) / np.sqrt(seeds)
    critical = float(stats.t.isf(0.025 / ks, seeds - 1))
    half = critical * error
    return Band(mean, mean - half, mean + half, np.full(ks, np.nan), critical)


def difference(name: str, method: str, reference: str) -> Band:
    """Return Max@K of a method less that of a reference, with a band over words for all K together.

    Both are evaluated on the same words of each seed. The trained policies are fixed.
    """
    first, second = (
        np.concatenate([np.transpose(row["final"]["per_instance"]) for row in trained(name, each)])
        for each in (method, reference)
    )
    return difference_band([first - second])


def with_band(band: Band, i: int) -> str:
    """Return the mean at the i-th K with its band, in percentage points."""
    mean, low, high = (number(100 * end[i]) for end in (band.mean, band.low, band.high))
    return f"{mean} [{low}, {high}]"


def over_lowest(name: str, baseline: str, **axes: Any) -> float:
    """Return the variance of a Max@K baseline over the lowest of the unbiased ones at a setting."""
    rows = select(report(name).tables.estimates, measure="variance", estimator="maxk", **axes)
    rows = rows[rows.bias == "unbiased (proved)"]
    require(rows.value.notna().all(), f"{name} has all variances where {axes}")
    (value,) = rows[rows.baseline == baseline].value
    return float(value / rows.value.min())


def with_interval(name: str, baseline: str, **axes: Any) -> str:
    """Return that ratio with its 95 % interval about the fixed instances, as the report has it."""
    axes |= {"estimator": "maxk", "baseline": baseline}
    (row,) = select(report(name).tables.estimates, measure="over_lowest", **axes).itertuples()
    return f"{number(row.value)} [{number(row.low)}, {number(row.high)}]"


def only(name: str, measure: str, **axes: Any) -> float:
    """Return the only number of a golden run with these axes, with or without an interval."""
    (value,) = select(report(name).tables.estimates, measure=measure, **axes).value
    return float(value)


@cache
def recommendations(name: str) -> pd.DataFrame:
    """Return what `recommend` chooses at each measured n: setting, stage, k, n, use, over_lowest.

    over_lowest: the variance of the choice over the lowest of the candidates.
    """
    made = []
    rows: Any = report(name)._report.studies["gradient"].rows
    for members in grouped(rows, lambda row: row.key.gradient).values():
        key = members[0].key
        for n in sorted({row.key.n for row in members}):
            recommended = ranked(members, n, n)
            if recommended.use is not None:
                values = [c.row.intervals["variance"].value for c in recommended.candidates]
                use = recommended.use.row
                ratio = use.intervals["variance"].value / min(values)
                made.append((dict(key.setting), key.stage, key.k, n, use.key.baseline, ratio))
    return pd.DataFrame(made, columns=["setting", "stage", "k", "n", "use", "over_lowest"])


@dataclass(frozen=True)
class Prediction:
    """How well a plan predicts the variances of a golden run.

    within: the share of cells within 20 %; error: the median relative error. below: the cells
    predicted below the measured lowest, so that the plan names a wrong baseline.
    """

    cells: int
    within: float
    error: float
    below: int


def prediction(name: str, column: str = "predicted") -> Prediction | None:
    """Return how well a column of `benchmarks/predicted_variance.py` predicts a golden run.

    By default this is the prediction from rewards alone. None if the column was not measured.
    """
    frame = pd.read_csv(PREDICTED / f"{name}.csv")
    if column not in frame:
        return None
    frame = frame.dropna(subset=[column])
    error = (frame[column] / frame.measured - 1).abs()
    below = int((frame[column] < 1).sum())
    return Prediction(len(frame), float((error <= 0.2).mean()), float(error.median()), below)


def logged(name: str, method: str, key: str, last: int = 20) -> float:
    """Return the mean of a logged number over the last steps and the seeds."""
    return float(np.mean([row["log"][key][-last:] for row in trained(name, method)]))
