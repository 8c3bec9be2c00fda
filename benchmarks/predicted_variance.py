"""Predict variances of golden gradient studies from rewards, and compare with the records.

    python benchmarks/predicted_variance.py            the default sweeps
    python benchmarks/predicted_variance.py quick      these sweeps only

Records hold no rewards, so the pools are drawn again from their seeds. A cell is the
variance of a group, V_n, over the lowest measured V_n at the same K. It is predicted from rewards
alone, with scores measured on other rollouts of the same prompts and policy, and with scores of
another seed. Writes the predicted and the measured ratios of each cell into
docs/figures/predicted/<sweep>.csv, and draws those of `DRAWN`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import altair as alt
import golden
import numpy as np
import pandas as pd
import torch
from remeasure import records_in
from torch import Tensor, nn

from maxk_lab.environments.environment import Environment, Instances, make_environment
from maxk_lab.gradients.scores.draw import draw_pool
from maxk_lab.own.plans.coherence import Coherence
from maxk_lab.own.plans.products import ScoreProducts, score_products_by_rank
from maxk_lab.own.plans.steps import BASELINES, plan
from maxk_lab.planning.identity import environment_key
from maxk_lab.seeds import derive_seed
from maxk_lab.studies.gradient.work import _freeze_others, _policy_at_stage

SWEEPS = ("quick", "cross_fit_bandit", "cross_fit_llm", "tsp_sweep", "pronounce")
FIGURES = golden.ROOT / "docs/figures/predicted"
# The charts that pages show.
DRAWN = ("pronounce",)
# Sweeps whose scores are measured again with another training.
OTHER_SEED = ("quick", "cross_fit_bandit")
# Samples of a prompt whose scores are measured.
MEASURED = 1024
# V_n alone: nothing of the variance is between prompts.
ALONE = Coherence((0.05,) * 3, (1e-9,) * 3)
Key = tuple[int, int, str]


def units_of(name: str) -> Iterator[tuple[dict[str, Any], dict[Key, float]]]:
    """Yield every unit of a sweep with the measured V_n by K, n and baseline."""
    axes = ("id", "estimator", "baseline", "n", "k")
    units: dict[str, dict[Key, float]] = defaultdict(dict)
    for record in records_in(golden.bundle_of(name)).values():
        cell, metrics = record["cell"], record["metrics"]
        if cell.get("estimator") == "maxk" and cell["baseline"] in BASELINES and metrics:
            unit = {key: value for key, value in cell.items() if key not in axes}
            value = metrics["variance"]
            key = cell["k"], cell["n"], cell["baseline"]
            units[json.dumps(unit, sort_keys=True)][key] = math.nan if value is None else value
    for unit, variances in units.items():
        yield json.loads(unit), variances


def task_of(unit: Mapping[str, Any]) -> tuple[Environment, nn.Module, Instances, int]:
    """Return environment, policy and instances of a unit, and the seed of its data."""
    environment = make_environment(unit["environment"], unit["policy"])
    policy = _policy_at_stage(unit, environment, None, lambda *event: None)
    if "scores" in unit:
        _freeze_others(policy, unit["scores"]["parameters"])
    seed = derive_seed("study", environment_key(unit["environment"]), unit["seed"])
    instances = environment.instances(unit["instances"], derive_seed("instances", seed))
    return environment, policy, instances, seed


def rewards_of(unit: Mapping[str, Any]) -> Tensor:
    """Return the rewards of the pool of a unit, [instances, pool], drawn again."""
    environment, policy, instances, data = task_of(unit)
    seed, rows = derive_seed("pool", data), []
    for i in range(unit["instances"]):
        drawn = derive_seed("rollouts", seed, i)
        rollouts = environment.rollout(policy, instances[i : i + 1], unit["pool"], seed=drawn)
        rows.append(rollouts.rewards[0].double())
    return torch.stack(rows)


def scores_of(unit: Mapping[str, Any]) -> ScoreProducts:
    """Return the scores of other rollouts of the same instances and policy."""
    environment, policy, instances, data = task_of(unit)
    count, seed = min(unit["pool"], MEASURED), derive_seed("pool again", data)
    pool = draw_pool(
        environment, policy, instances, unit["instances"], count, objectives=(), seed=seed
    )
    products = []
    for block in pool.parts:
        gram = block.gram if block.scores is None else block.scores @ block.scores.mT
        products.append(gram[block.rows][:, block.rows].float())
    return score_products_by_rank(pool.rewards.double(), torch.stack(products))


def predicted(
    rewards: Tensor, keys: Sequence[Key], by_rank: ScoreProducts | None = None
) -> dict[Key, float]:
    """Return the predicted V_n, up to a factor of each K, by K, n and baseline."""
    ks, budget = sorted({k for k, *_ in keys}), math.lcm(*(n for _, n, _ in keys))
    coherence = dict.fromkeys(ks, ALONE)
    prompts = [np.arange(len(rewards))]
    frame = plan([rewards], prompts, budget, ks, coherence, by_rank=by_rank)
    return {(row.k, row.n, row.baseline): row.loss / row.n for row in frame.itertuples()}


def ratios(name: str) -> pd.DataFrame:
    """Return the predicted and the measured ratio of each cell to the lowest at the same K.

    `predicted` is that of rewards alone, `with_scores` that with scores of other rollouts, and
    `other_seed` that with scores of other instances and another training, for the sweeps of
    `OTHER_SEED`. They are NaN for a cell that cannot be predicted from the pool.
    """
    rows, columns = [], ["stage", "k", "n", "baseline", "predicted", "with_scores"]
    columns += ["other_seed"] * (name in OTHER_SEED) + ["measured"]
    for unit, variances in units_of(name):
        scores = [None, scores_of(unit)]
        if name in OTHER_SEED:
            scores.append(scores_of(unit | {"seed": unit["seed"] + 1000}))
        rewards = rewards_of(unit)
        predictions = [predicted(rewards, [*variances], each) for each in scores]
        for k in sorted({k for k, *_ in variances}):
            defined = {key: value for key, value in variances.items() if key[0] == k and value > 0}
            if not defined:
                continue
            lowest = min(defined, key=lambda key: defined[key])
            for key in (key for key in variances if key[0] == k and key != lowest):
                values = [each.get(key, math.nan) / each[lowest] for each in predictions]
                rows.append((unit["stage"], *key, *values, variances[key] / variances[lowest]))
    return pd.DataFrame(rows, columns=columns)


def draw(frame: pd.DataFrame) -> alt.LayerChart:
    """Return predicted against measured ratios, with a line where they are equal."""
    ends = [1.0, float(frame.measured.max())]
    scale = alt.Scale(type="log")
    line = alt.Chart(pd.DataFrame({"measured": ends, "predicted": ends})).mark_line(color="grey")
    points = alt.Chart(frame.dropna()).mark_point(filled=True, opacity=0.6)
    axes = {
        "x": alt.X("measured:Q", title="measured variance over the lowest", scale=scale),
        "y": alt.Y("predicted:Q", title="predicted from rewards alone", scale=scale),
    }
    return alt.layer(line.encode(**axes), points.encode(color="baseline:N", **axes))


def main() -> None:
    """Write the table and the chart of each sweep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", default=SWEEPS, help="golden sweeps")
    torch.set_num_threads(1)
    FIGURES.mkdir(exist_ok=True)
    for name in parser.parse_args().names:
        frame = ratios(name)
        frame.to_csv(FIGURES / f"{name}.csv", index=False, float_format="%.6g")
        if name in DRAWN:
            path = FIGURES / f"{name}.png"
            draw(frame).save(path, ppi=110)
            path.write_bytes(golden.with_fewer_colours(path))
        print(f"{name}: {len(frame)} cells", flush=True)


if __name__ == "__main__":
    main()
