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
# Of baselines that only an enumeration can have: no default of `make_cells`.
NOISE_OF_ORACLES = {"joint_optimum": 0.5, "affine[oracle]": 0.6}


def make_cells(
    baselines=tuple(NOISE), ns=(8, 16), ks=(2, 4), stages=(0,), seeds=(0, 1), instances=16
):
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
    noise = {**NOISE, **NOISE_OF_ORACLES}[cell["baseline"]] if noise is None else noise
    scale = expected_scale("maxk", cell["baseline"], cell["n"], cell["k"])
    variance = (
        noise * scale**2 * 4 * cell["k"] / cell["n"] * spread * own.gamma(400, 1 / 400, units)
    )
    error = 0.01 * np.sqrt(noise)
    inner = scale * truth + error * own.standard_normal(units)
    square = scale**2 * truth + bias_off_gradient**2 + error * own.standard_normal(units)
    reference = against == f"reference:{cell['baseline']}"
    if reference:
        inner = square = truth
    columns = {"m2": variance + square, "mean_square": square, "inner": inner, "truth": truth}
    names = (
        "variance",
        "relative_variance",
        "snr",
        "mean_square",
        "squared_bias",
        "scale",
        "cosine",
    )
    return {
        "against": against,
        "is_reference": reference,
        "units": {
            "stratum": [0] * units,
            **{name: column.tolist() for name, column in columns.items()},
        },
        "unit": "instance",
        "replicates": 256 // cell["n"],
        "value": -4.0,
        **dict.fromkeys(names, 1.0),
        "undefined": {},
    }


def make_exact_metrics(cell, scale=1.0, off=0.0, tolerance=1e-9):
    """Metrics of a cell by complete enumeration: E ĝ = scale · ∇J, and `off` · ‖∇J‖ across it."""
    sampled = make_metrics(cell, against="complete")
    truth = np.array(sampled["units"]["truth"])
    square = (scale**2 + off**2) * truth
    units = {
        "m2": 2 * truth + square,
        "mean_square": square,
        "inner": scale * truth,
        "truth": truth,
    }
    return sampled | {
        "units": {
            "stratum": [0] * len(truth),
            **{name: unit.tolist() for name, unit in units.items()},
        },
        "replicates": 0,
        "bias": {
            "squared": (((scale - 1) ** 2 + off**2) * truth).tolist(),
            "off_direction": (off**2 * truth).tolist(),
        },
        "tolerance": tolerance,
    }


# The parts of the variance of `make_measured_metrics`, as shares of it.
SHARES = {
    "variance_first": 0.5,
    "variance_cross": 0.4,
    "variance_baseline": 0.3,
    "variance_interaction": -0.2,
}


def make_measured_metrics(cell, **how):
    """Metrics by complete enumeration with the measures of the weights and the anatomy of the variance."""
    noise = {**NOISE, **NOISE_OF_ORACLES}[cell["baseline"]]
    made = make_exact_metrics(cell, **how)
    spread = np.random.default_rng([cell["stage"], cell["seed"]]).gamma(
        20, 1 / 20, cell["instances"]
    )
    units = made["units"]
    variance = noise * 4 * cell["k"] / cell["n"] * spread
    units["m2"] = (variance + units["mean_square"]).tolist()
    measures = {name: (share * variance).tolist() for name, share in SHARES.items()}
    measures |= {
        "dead_gradient_rate": (0.02 * spread).tolist(),
        "weight_concentration": [None, *(0.3 * spread[1:])],
        "value_variance": (0.1 * spread).tolist(),
    }
    if cell.get("behaviour"):
        measures |= {"effective_sample_size": [0.8] * len(spread), "kl": (0.05 * spread).tolist()}
        measures |= {"ratio_std": (0.2 * spread).tolist()}
    return made | {"measures": measures}


def vary(cells, key, values):
    """The cells once for each value of a setting."""
    return [
        cell | {"id": f"{value}-{cell['id']}", "setting": {**cell.get("setting", {}), key: value}}
        for value in values
        for cell in cells
    ]


def make_record(cell, status="done", make=make_metrics, **how):
    """A record with the attributes of `sweeps.records.Record`."""
    done = status == "done"
    return SimpleNamespace(
        cell=cell,
        status=status,
        metrics=make(cell, **how) if done else None,
        error=None
        if done
        else "Traceback (most recent call last):\n  ...\nMemoryError: the pool did not fit",
        provenance={"git": {"commit": "0123abcd", "dirty": False}, "versions": {"torch": "2.13.0"}},
        timings={"seconds": 1.0},
    )


# What is trained: (estimator, baseline, n, K).
POINTS = (("reinforce", "centred", 8, 1), ("maxk", "centred", 8, 8), ("maxk", "subloo", 8, 8))
SAMPLES = 16
KS = (1, 2, 4, 8, 16)


def make_training_cells(points=POINTS, seeds=(0, 1, 2), **settings):
    """Cell dicts of a training study as the plan makes them."""
    return [
        {
            "id": f"training-{estimator}-{baseline}-{n}-{k}-{seed}",
            "identity_version": 1,
            "study": "training",
            "seed": seed,
            "environment": {"name": "toy_llm", "task": "deceptive"},
            "policy": {"embed_dim": 32},
            "training": {
                "steps": 100,
                "batch": 64,
                "evaluate": {"every": 50, "instances": 12, "samples": SAMPLES},
                **settings,
            },
            "estimator": estimator,
            "baseline": baseline,
            "n": n,
            "k": k,
        }
        for estimator, baseline, n, k in points
        for seed in seeds
    ]


def final_value(cell, at_k, step=100):
    """What a trained policy is worth in truth: training for K > 1 gains at large K and loses at K = 1."""
    trained = step / 100
    return (
        0.4
        + 0.05 * np.log2(at_k)
        + trained * (0.1 * np.log2(at_k) - 0.1 if cell["k"] > 1 else 0.05)
    )


def make_log(cell):
    """The training log of a cell: the truth of its reward with noise, and metrics that do not vary or are undefined."""
    own = np.random.default_rng(np.frombuffer(f"log {cell['id']}".encode(), dtype=np.uint8))
    steps = list(range(0, 100, 5))
    reward = [final_value(cell, 1, step) + own.normal(0, 0.01) for step in steps]
    return {
        "step": steps,
        "reward/mean": reward,
        "entropy": [5 - step / 50 + own.normal(0, 0.1) for step in steps],
        "grad_norm": own.gamma(20, 1 / 20, len(steps)).tolist(),
        "frac_truncated": [step / 200 for step in steps],
        "clip_ratio/high": [0.0] * len(steps),
        "kl/token": [None] * len(steps),
        "length/mean": [4.0] * len(steps),
        "loss": own.normal(0, 1e-3, len(steps)).tolist(),
    }


def make_training_metrics(cell, noise=0.01, shared=0.1):
    """Metrics of one trained cell: the truth, plus what all cells of a seed share, plus its own noise."""
    common = np.random.default_rng([7, cell["seed"]])
    own = np.random.default_rng(np.frombuffer(cell["id"].encode(), dtype=np.uint8))
    difficulty = common.normal(0, shared, 12)
    luck = own.normal(0, noise, 12)

    def instances(at_k, step=100):
        return final_value(cell, at_k, step) + difficulty + luck * step / 100

    curve = np.array([instances(at_k).mean() for at_k in range(1, SAMPLES + 1)])
    steps = [0, 50, 100]
    values = np.array([[instances(at_k, step).mean() for at_k in KS] for step in steps])
    return {
        "steps": 100,
        "rollouts": 6400,
        "evaluations": {
            "step": steps,
            "rollouts": [64 * step for step in steps],
            "ks": list(KS),
            "value": values.tolist(),
            "low": (values - 0.02).tolist(),
            "high": (values + 0.02).tolist(),
        },
        "final": {
            "value": curve.tolist(),
            "low": (curve - 0.02).tolist(),
            "high": (curve + 0.02).tolist(),
            "ks": list(KS),
            "per_instance": [instances(at_k).tolist() for at_k in KS],
        },
        "log": make_log(cell),
        "undefined": {},
    }


def make_training_record(cell, status="done", **how):
    """A record of a training cell, with its clock."""
    done = status == "done"
    return SimpleNamespace(
        cell=cell,
        status=status,
        metrics=make_training_metrics(cell, **how) if done else None,
        error=None
        if done
        else "Traceback (most recent call last):\nFloatingPointError: loss at step 3",
        provenance={"git": {"commit": "0123abcd", "dirty": False}, "versions": {"torch": "2.13.0"}},
        timings={"seconds": 9.0, "evaluations_seconds": [0.0, 4.0 + cell["seed"], 8.0]},
    )


def make_done(cell, metrics):
    """A finished record of any study."""
    return SimpleNamespace(
        cell=cell, status="done", metrics=metrics, error=None, provenance={}, timings={}
    )


def make_objective_cells(ks=(1, 2, 4), seeds=(0,)):
    """Cell dicts of an objective study as the plan makes them."""
    return [
        {
            "id": f"objective-{k}-{seed}",
            "study": "objective",
            "seed": seed,
            "environment": {"name": "bandit", "arms": 4},
            "policy": {},
            "objective": {"parameter": "policy.mean", "from": 0.0, "to": 1.0, "points": 5},
            "estimator": "maxk",
            "baseline": "none",
            "n": k,
            "k": k,
        }
        for k in ks
        for seed in seeds
    ]


def make_curve(optimum, points=(0.0, 0.25, 0.5, 0.75, 1.0)):
    """Metrics of an objective cell: a parabola with its top, 1, at `optimum`."""
    return {
        "parameter": "policy.mean",
        "points": list(points),
        "values": [1 - (point - optimum) ** 2 for point in points],
        "optimum": optimum,
        "optimum_value": 1.0,
        "undefined": {},
    }


def make_weights_cells(baselines=("none", "subloo"), ks=(1, 2), n=4, seeds=(0,)):
    """Cell dicts of a weights study as the plan makes them."""
    return [
        {
            "id": f"weights-{baseline}-{k}-{seed}",
            "study": "weights",
            "seed": seed,
            "environment": {"name": "bandit", "arms": 4},
            "policy": {},
            "groups": 2,
            "estimator": "maxk",
            "baseline": baseline,
            "n": n,
            "k": k,
        }
        for baseline in baselines
        for k in ks
        for seed in seeds
        if refusal("maxk", baseline, n, k) is None
    ]


def make_weighed(zero_share=0.25, weight_sum=0.0, weight_min=-0.1):
    """Metrics of a weights cell."""
    return {
        "rewards": [[0.3, 0.1, 0.2, 0.4], [0.5, 0.6, 0.7, 0.8]],
        "weights": [[0.02, -0.1, 0.0, 0.08], [0.0, 0.1, 0.2, 0.3]],
        "zero_share": zero_share,
        "weight_sum": weight_sum,
        "weight_min": weight_min,
        "weight_std": 0.125,
    }


@pytest.fixture(scope="session")
def lab():
    """The makers above."""
    return SimpleNamespace(
        cells=make_cells,
        record=make_record,
        exact=make_exact_metrics,
        measured=make_measured_metrics,
        shares=SHARES,
        vary=vary,
        done=make_done,
        objective_cells=make_objective_cells,
        curve=make_curve,
        weights_cells=make_weights_cells,
        weighed=make_weighed,
        training_cells=make_training_cells,
        training_record=make_training_record,
        final_value=final_value,
    )
