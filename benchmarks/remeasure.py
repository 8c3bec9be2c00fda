"""Measure golden sweeps again and compare every metric with the golden record of the same cell.

    python benchmarks/remeasure.py               all sweeps; exit 1 on a difference
    python benchmarks/remeasure.py quick         this sweep only
    python benchmarks/remeasure.py --write       freeze the parameters of the trainings

Enumerated values agree to 1e-9, sampled values and places of maxima to 1e-6; `agrees` gives the
scale. A training takes 3 steps, and its parameters agree to 1e-5 with
results/golden/values/parameters.json.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import golden
import yaml

PARAMETERS = golden.GOLDEN / "values/parameters.json"
# A row of each training sweep, and two rows with PPO's clipping and a KL penalty.
FORCED: Mapping[str, Any] = {"start": "forced"}
ZSCORE = FORCED | {"weight_normalization": "zscore"}
REWARD_KL = {"inner_epochs": 2, "kl": {"place": "reward"}}
LOSS_KL = {"inner_epochs": 3, "loss": {"ratio": "token"}, "kl": {"place": "loss", "type": "k3"}}
Row = tuple[str, str, str, int, int, Mapping[str, Any]]
ROWS: Sequence[Row] = (
    ("tsp_training", "maxk", "pkpo_sloo", 16, 4, {}),
    ("tsp_training", "maxk", "centred", 16, 8, REWARD_KL),
    ("tsp_training_tuned", "maxk", "subloo", 16, 8, FORCED | {"learning_rate": 2.5e-4}),
    ("tsp_training_tuned_800", "maxk", "subloo", 16, 16, {"learning_rate": 5e-4}),
    ("tsp_tuning", "reinforce", "group_mean", 16, 1, FORCED),
    ("tsp50_replication", "hybrid[0.5]", "none", 64, 8, ZSCORE),
    ("co_training", "maxk", "centred", 16, 8, {}),
    ("llm_training", "maxk", "optimal[grad_norm]", 16, 4, {}),
    ("llm_training", "maxk", "subloo", 16, 8, LOSS_KL),
    ("llm_passk", "passk_analytic", "none", 16, 8, {}),
    ("pronounce_tuning", "maxk", "subloo", 16, 8, {"learning_rate": 3e-5}),
    ("pronounce_training", "reinforce", "eob_loo", 16, 1, {"learning_rate": 1e-4}),
)
TRAININGS = tuple(dict.fromkeys(row[0] for row in ROWS))
SWEEPS = tuple(name for name in golden.SWEEPS if name not in {*TRAININGS, "tsp50_explained"})
# Metrics of golden records that are no longer measured: pattern of their path, and the reason.
REMOVED_METRICS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("*variance_first", "*variance_cross"),
            *("*variance_baseline", "*variance_interaction"),
        ),
        "the Hoeffding anatomy of the variance",
    ),
    **dict.fromkeys(
        ("*weight_concentration", "*weight_std", "*kl", "*ratio_std"),
        "measures that no claim and no figure needs",
    ),
}
# Metrics that changed after the golden records were measured, and the reason.
CHANGED_METRICS: Mapping[str, str] = {
    "deviations.beside.*": "the factor is fitted on tested instances only",
    "deviations.trusted": "no test of single instances is left",
    "tested_from": "a record has the draws that are expected to carry each instance",
}
# Values below `SMALL` are compared by their absolute difference.
ENUMERATED, SAMPLED, TRAINED, SMALL = 1e-9, 1e-6, 1e-5, 1e-3
# Nearly singular equations amplify rounding errors.
FITTED: Mapping[str, float] = {"ladder[cross_fit]": 1e-5}
# A maximum is flat: its place is known to about the square root of a rounding error (1.5e-8).
PLACES: Mapping[str, float] = {"optimum": 1e-6}
# A weight of such a row is 0 or a rounding error, which decides what these metrics count.
COUNTS = ("dead_gradient_rate", "weight_concentration")
# Squares of gradients, quotients of such squares, and metrics that records round to 6 digits.
SQUARES = re.compile(r"(measures\.)?(variance|squared_bias|mean_square|bias|units|within)")
QUOTIENTS, ROUNDED = ("relative_variance", "snr"), ("deviations", "errors", "within")
STEPS, MOST_SHOWN = 3, 20


def records_in(path: Path) -> dict[str, dict[str, Any]]:
    """Return the records of a bundle or of a run's folder by the ids of their cells."""
    root: Any = path if path.is_dir() else zipfile.Path(path)
    segments = [file for file in (root / "records").iterdir() if file.name.endswith(".jsonl")]
    lines = [line for file in segments for line in file.read_bytes().splitlines()]
    records = [json.loads(line.partition(b"\t")[2]) for line in lines]
    return {record["cell"]["id"]: record for record in records}


def is_number(value: Any) -> bool:
    """Return whether a metric is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def leaves(old: Any, new: Any, path: str = "", largest: float = 0.0) -> Iterator[Any]:
    """Yield (path, old value, new value, largest size beside the old value) of each metric.

    A list has the path of its values. A lost key has "lost" as its new value.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            yield from leaves(value, new.get(key, "lost"), f"{path}.{key}".lstrip("."))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        largest = max([abs(value) for value in old if is_number(value)], default=0.0)
        for values in zip(old, new, strict=True):
            yield from leaves(*values, path, largest)
    else:
        yield path, old, new, largest


def agrees(path: str, old: Any, new: Any, largest: float, record: Mapping[str, Any]) -> bool:
    """Return whether a new value agrees with a value of a golden record.

    The tolerance is a share of the largest of these sizes: the value, its list, `SMALL`, and for
    squares of gradients the second moments of the record, whose rounding errors they inherit.
    """
    if not (is_number(old) and is_number(new)):
        return bool(old == new)
    metrics = record["metrics"]
    enumerated = metrics.get("against") == "complete" or "points" in metrics
    fitted = FITTED.get(record["cell"]["baseline"], 0.0)
    tolerance = max(fitted, PLACES.get(path, 0.0), ENUMERATED if enumerated else SAMPLED)
    scale = max(abs(old), largest, SMALL)
    moment = max(metrics.get("units", {}).get("m2", [0.0]))
    if SQUARES.match(path):
        scale = max(scale, moment)
    elif path in QUOTIENTS and metrics["variance"]:
        scale *= max(1.0, moment / abs(metrics["variance"]))
    last_digit = 1e-5 * abs(old) if path.startswith(ROUNDED) else 0.0
    return abs(new - old) <= tolerance * scale + last_digit or bool(
        fitted and path.endswith(COUNTS)
    )


def compare(golden_records: Mapping[str, Any], records: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each difference of records from the golden records, by cell id."""
    problems = list[str]()
    for cell, record in records.items():
        names = ("estimator", "baseline", "n", "k", "seed")
        label = " ".join([cell, *(str(record["cell"].get(name)) for name in names)])
        if cell not in golden_records or record["metrics"] is None:
            reason = "no golden record" if cell not in golden_records else record["error"]
            problems.append(f"{label}: {reason}")
            continue
        before = golden_records[cell]
        for path, old, new, largest in leaves(before["metrics"], record["metrics"]):
            allowed = [*CHANGED_METRICS, *(REMOVED_METRICS if new == "lost" else ())]
            if any(fnmatchcase(path, pattern) for pattern in allowed):
                continue
            # Golden records have no deviations of an untested instance.
            untested = path.startswith("deviations.") and old == 0
            if not (untested or agrees(path, old, new, largest, before)):
                problems.append(f"{label}: {path}: {old} -> {new}")
    return problems


def remeasure(name: str, results: Path, jobs: int) -> list[str]:
    """Measure a sweep and return its differences from the golden records."""
    import maxk_lab

    run = maxk_lab.run(golden.sweep_file(name), results=results, jobs=jobs, progress=False)
    old, new = records_in(golden.bundle_of(name)), records_in(Path(run))
    print(f"{name}: {len(new)} cells, {len(old.keys() - new.keys())} golden cells skipped")
    return compare(old, new) + ([] if run.ok else ["the run is not complete"])


def parameters(row: Row, results: Path) -> dict[str, list[float]]:
    """Train a row for `STEPS`; return the sum, norm and a projection of each tensor."""
    import torch

    import maxk_lab

    sweep = yaml.safe_load(golden.sweep_file(row[0]).read_text(encoding="utf-8"))
    sweep = {key: value for key, value in sweep.items() if key not in ("vary", "claims")}
    sweep["seeds"] = sweep["seeds"][:1]
    # In float32, Adam turns the rounding error of a zero gradient into a full step.
    sweep.setdefault("policy", {})["dtype"] = "float64"
    point = dict(zip(("estimator", "baseline", "n", "k", "with"), row[1:], strict=True))
    sweep["training"] |= {"steps": STEPS, "snapshots": [STEPS], "grid": [point]}
    sweep["training"]["evaluate"] = {"instances": 2, "samples": 16, "reference": "none"}
    run = maxk_lab.run(sweep, results=results, progress=False)
    (path,) = Path(run).glob(f"cache/policy-*-{STEPS}.pt")
    statistics = {}
    for name, tensor in torch.load(path, weights_only=True)["policy"].items():
        values = tensor.double().flatten()
        projection = values @ torch.arange(len(values), dtype=values.dtype).cos()
        statistics[name] = [float(values.sum()), float(values.norm()), float(projection)]
    return statistics


def compare_parameters(old: Mapping[str, list[float]], new: Mapping[str, list[float]]) -> list[str]:
    """Return a sentence for each tensor that differs by more than 1e-5 of its norm, or of 0.1."""
    absent = [math.nan] * 3
    pairs = {name: (old.get(name, absent), new.get(name, absent)) for name in {**old, **new}}
    return [
        f"{name}: {before} -> {now}"
        for name, (before, now) in pairs.items()
        if not math.dist(before, now) <= TRAINED * max(before[1], 0.1)
    ]


def main() -> None:
    """Measure the sweeps that are named; exit with 1 on a difference."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="golden sweeps; default: all")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--write", action="store_true", help="freeze the trainings' parameters")
    arguments = parser.parse_args()
    names = arguments.names or [*(() if arguments.write else SWEEPS), *TRAININGS]
    if unknown := set(names) - {*SWEEPS, *TRAININGS}:
        parser.error(f"not a golden sweep: {', '.join(sorted(unknown))}")
    frozen = json.loads(PARAMETERS.read_text()) if PARAMETERS.is_file() else {}
    os.chdir(golden.ROOT)
    failed = False
    with tempfile.TemporaryDirectory(prefix="remeasure-") as scratch:
        for name in names:
            start, results = time.perf_counter(), Path(scratch)
            problems = remeasure(name, results, arguments.jobs) if name in SWEEPS else []
            for row in [row for row in ROWS if row[0] == name]:
                label = " ".join(map(str, row[:-1]))
                trained = parameters(row, results / label)
                if arguments.write:
                    frozen[label] = trained
                problems += compare_parameters(frozen.get(label, {}), trained)
            seconds = time.perf_counter() - start
            print(f"{name}: {len(problems)} differences, {seconds:.0f} s", flush=True)
            for problem in problems[:MOST_SHOWN]:
                print(f"  {problem}")
            failed |= bool(problems)
    if arguments.write:
        lines = [f" {json.dumps(label)}: {json.dumps(each)}" for label, each in frozen.items()]
        PARAMETERS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
