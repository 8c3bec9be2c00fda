"""Synthetic records with a known truth, so that what the report says can be compared with what was put in."""

from types import SimpleNamespace

import numpy as np
import pytest

from maxk_lab.estimators.catalogue import expected_scale, refusal

# Noise of a baseline relative to `centred`.
NOISE = {
    "none": 30.0,
    "group_mean": 1.0,
    "centred": 1.0,
    "sample_loo": 400.0,
    "pkpo_sloo": 3.0,
    "subloo": 0.9,
    "affine[0.5]": 0.7,
}


def make_cells(baselines=tuple(NOISE), ns=(8, 16), ks=(2, 4), stages=(0,), seeds=(0, 1), instances=16):
    """Cell dicts as the plan makes them."""
    return [
        {
            "id": f"{stage}-{baseline}-{n}-{k}-{seed}",
            "identity_version": 1,
            "study": "gradient",
            "seed": seed,
            "environment": {"name": "tsp", "num_loc": 20},
            "policy": {"embed_dim": 64},
            "warmup": {},
            "stage": stage,
            "instances": instances,
            "pool": 256,
            "partitions": 8,
            "estimator": "maxk",
            "baseline": baseline,
            "n": n,
            "k": k,
        }
        for stage in stages
        for seed in seeds
        for baseline in baselines
        for n in ns
        for k in ks
        if refusal("maxk", baseline, n, k) is None
    ]


def make_metrics(cell, against="exact", bias_off_gradient=0.0, noise=None):
    """Metrics of one cell: ‖∇J‖² near 1 per instance, the catalogued scale, noise of the table.

    Randomness is shared by all cells of a (stage, seed), as in a real study: comparisons are paired.
    """
    shared = np.random.default_rng([cell["stage"], cell["seed"]])
    own = np.random.default_rng(np.frombuffer(cell["id"].encode(), dtype=np.uint8))
    units = cell["instances"]
    truth = shared.gamma(20, 1 / 20, units) * (1 + cell["stage"] / 200)
    spread = shared.gamma(20, 1 / 20, units)
    noise = NOISE[cell["baseline"]] if noise is None else noise
    scale = expected_scale("maxk", cell["baseline"], cell["n"], cell["k"])
    variance = noise * scale**2 * 4 * cell["k"] / cell["n"] * spread * own.gamma(400, 1 / 400, units)
    error = 0.01 * np.sqrt(noise)
    inner = scale * truth + error * own.standard_normal(units)
    square = scale**2 * truth + bias_off_gradient**2 + error * own.standard_normal(units)
    reference = against == f"reference:{cell['baseline']}"
    if reference:
        inner = square = truth
    columns = {"m2": variance + square, "mean_square": square, "inner": inner, "truth": truth}
    names = ("variance", "relative_variance", "snr", "mean_square", "squared_bias", "scale", "cosine")
    return {
        "against": against,
        "is_reference": reference,
        "units": {"stratum": [0] * units, **{name: column.tolist() for name, column in columns.items()}},
        "unit": "instance",
        "replicates": 256 // cell["n"],
        "value": -4.0,
        **dict.fromkeys(names, 1.0),
        "undefined": {},
    }


def make_record(cell, status="done", **how):
    """A record with the attributes of `sweeps.records.Record`."""
    done = status == "done"
    return SimpleNamespace(
        cell=cell,
        status=status,
        metrics=make_metrics(cell, **how) if done else None,
        error=None
        if done
        else "Traceback (most recent call last):\n  ...\nMemoryError: the pool did not fit",
        provenance={"git": {"commit": "0123abcd", "dirty": False}, "versions": {"torch": "2.13.0"}},
        timings={"seconds": 1.0},
    )


@pytest.fixture(scope="session")
def lab():
    """The makers above."""
    return SimpleNamespace(cells=make_cells, record=make_record)
