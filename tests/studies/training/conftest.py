"""Synthetic records of trainings on a TSP, with settings, extras and optima."""

from types import SimpleNamespace

import numpy as np
import pytest
from synthetic_records import make_cell, make_record

from maxk_lab.reports.report import make_report

SAMPLES = 64
KS = (1, 2, 4, 8, 16, 32, 64)
INSTANCES = 32
# (estimator, baseline, n, K, setting) → the mean reward at K = 1 and what log2 K adds to it.
POINTS = {
    ("reinforce", "group_mean", 16, 1, "iid"): (-4.07, 0.024),
    ("reinforce", "group_mean", 16, 1, "multistart"): (-4.09, 0.024),
    ("reinforce", "centred", 16, 1, "iid"): (-4.07, 0.024),
    ("leader_reward[0.5]", "none", 16, 8, "iid"): (-4.09, 0.028),
    ("maxk", "sample_loo", 16, 4, "iid"): (-7.5, 0.2),
    ("maxk", "pkpo_sloo", 16, 4, "iid"): (-4.13, 0.036),
    ("maxk", "centred", 16, 4, "iid"): (-4.12, 0.035),
    ("maxk", "subloo", 16, 4, "iid"): (-4.12, 0.037),
    ("maxk", "sample_loo", 16, 8, "iid"): (-7.9, 0.2),
    ("maxk", "pkpo_sloo", 16, 8, "iid"): (-4.16, 0.041),
    ("maxk", "centred", 16, 8, "iid"): (-4.15, 0.041),
    ("maxk", "subloo", 16, 8, "iid"): (-4.14, 0.042),
}


def cells(points=tuple(POINTS), seeds=(0, 1, 2, 3, 4), environment=None, setting=True, **training):
    """Cell dicts as the plan makes them; the grid varies `start`, so that all have it set."""
    evaluate = {"every": 100, "instances": INSTANCES, "samples": SAMPLES}
    shared = {"steps": 800, "batch": 512, "max_grad_norm": 1.0, "evaluate": evaluate}
    return [
        make_cell(
            *("training", "-".join(map(str, ("tsp", *point, *(environment or {}).values()))), seed),
            *(point[:4], environment or {"name": "tsp", "num_loc": 20}),
            training=shared | ({} if start == "iid" else {"start": start}) | training,
            **({"setting": {"start": start}} if setting else {}),
        )
        for point in points
        for start in point[4:]
        for seed in seeds
    ]


def truth(cell, k, step=800):
    """The mean reward of the best of k after so many steps."""
    point = tuple(cell[axis] for axis in ("estimator", "baseline", "n", "k"))
    start = cell["training"].get("start", "iid")
    first, slope = POINTS.get((*point, start)) or POINTS[*point, "iid"]
    untrained = -9.8 + 0.25 * np.log2(k)
    return first + slope * np.log2(k) + (untrained - first) * np.exp(-step / 80)


def metrics(cell, exact=True, reference=True):
    """Metrics of a trained cell: instances as hard as for all cells of the seed, and noise."""
    shared = np.random.default_rng([11, cell["seed"]])
    noise = np.random.default_rng(np.frombuffer(cell["id"].encode(), dtype=np.uint8))
    difficulty = shared.normal(0, 0.3, INSTANCES)
    luck = noise.normal(0, 0.005) + noise.normal(0, 0.02, INSTANCES)

    def instances(k, step=800):
        return truth(cell, k, step) + difficulty + luck

    def band(values):
        value = np.asarray(values)
        ends = {"value": value, "low": value - 0.1, "high": value + 0.1}
        return {end: numbers.tolist() for end, numbers in ends.items()}

    def mean(k, step=800):
        return instances(k, step).mean()

    steps, optima = list(range(0, 801, 100)), (-3.84 + difficulty).tolist()
    extras = {
        "greedy": 8,
        "greedy_augmented": 40,
        "greedy_multistart": 20,
        "multistart_sampling": 60,
    }
    best = {"kind": "milp" if exact else "local_search", "exact": exact, "per_instance": optima}
    why = {"kind": "none", "reason": "the optima of 20 cities take too long: ask for exact"}
    return {
        "steps": 800,
        "rollouts": 512 * 800,
        "evaluations": {"step": steps, "rollouts": [512 * step for step in steps], "ks": list(KS)}
        | band([[mean(k, step) for k in KS] for step in steps]),
        "final": band([mean(k) for k in range(1, SAMPLES + 1)])
        | {"ks": list(KS), "per_instance": [instances(k).tolist() for k in KS]},
        "extras": {
            name: band(mean(k)) | {"per_instance": instances(k).tolist()}
            for name, k in extras.items()
        },
        "log": {
            "step": steps[:-1],
            "reward/mean": [truth(cell, 1, step) for step in steps[:-1]],
            "entropy": [10 * np.exp(-step / 300) + noise.normal(0, 0.1) for step in steps[:-1]],
            "grad_norm": noise.gamma(20, 1 / 20, 8).tolist(),
        },
        "undefined": {},
        "data": {"instances": f"{cell['seed']:016x}", "source": "drawn"},
        "reference": best if reference else why,
    }


def record(cell, status="done", **options):
    """A record of one of these cells, with its clock."""
    clock = {"evaluations_seconds": [10.0 * i for i in range(9)]}
    why = "FloatingPointError: loss at step 3"
    return make_record(cell, status, metrics, why, clock, **options)


def report(planned, change=lambda metrics, cell: None, **options):
    """The report of these cells, whose metrics were changed."""
    records = [record(cell, **options) for cell in planned]
    for each in records:
        change(each.metrics, each.cell)
    return make_report(planned, records, name="tsp_training")


def row_of(summary, *point):
    """The row with i.i.d. starts at (estimator, baseline, K)."""
    (row,) = (
        row
        for row in summary.studies["training"].rows
        if (row.key.estimator, row.key.baseline, row.key.k) == point and row.settings.start == "iid"
    )
    return row


@pytest.fixture(scope="session")
def tsp():
    """The makers above."""
    return SimpleNamespace(
        points=tuple(POINTS), ks=KS, cells=cells, record=record, report=report, row_of=row_of
    )


@pytest.fixture(scope="session")
def study(tsp):
    """The summary of the whole study."""
    return tsp.report(tsp.cells())
