"""Decode trained TSP20 policies in several ways on the same new instances: gaps to the optimum.

Every policy is also judged at its own best temperature, chosen on other instances. One training
each: the intervals are over instances and say nothing of other seeds.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from maxk_lab.environments.environment import make_environment
from maxk_lab.environments.optima import method_for, optima
from maxk_lab.statistics.skewed_mean import skewed_mean
from maxk_lab.sweeps import load_spec, make_plan
from maxk_lab.sweeps.run.checkpoints import initial_policy
from maxk_lab.training.evaluation import sample_rewards

ROOT = Path(__file__).parents[1]
POLICIES = ("pomo-800", "max8-800")
TEMPERATURES = (1.0, 1.25, 1.5, 1.75, 2.0)
SAMPLES, TUNING, HELD_OUT, LEVEL = 64, 64, 256, 0.95
Gaps = NDArray[np.float64]


def main() -> None:
    """Print the gap of the best tour by every way of decoding, and the paired differences."""
    torch.set_num_threads(1)
    unit = make_plan(load_spec(ROOT / "experiments/tsp_training.yaml")).units[0]
    environment = make_environment(unit.environment, unit.policy)
    sets = {}
    for name, count, seed in (("tuning", TUNING, 777), ("held out", HELD_OUT, 778)):
        instances = environment.instances(count, seed, held_out=True)
        known = optima(environment, instances, method_for(environment, instances, "exact"))
        sets[name] = instances, known.values

    def gaps(rewards: torch.Tensor, name: str) -> Gaps:
        best = sets[name][1]
        found: Gaps = (100 * (rewards.double() - best) / best).numpy()
        return found

    def sampled(policy: nn.Module, temperature: float, name: str) -> Gaps:
        one = environment if temperature == 1 else environment.tempered(temperature)
        return gaps(sample_rewards(one, policy, sets[name][0], SAMPLES, 5).amax(1), name)

    found: dict[str, dict[str, Gaps]] = {}
    for name in POLICIES:
        file = ROOT / f"results/golden/tsp_training/policies/{name}.pt"
        policy = initial_policy(
            environment, unit.as_dict() | {"policy": {**unit.policy, "checkpoint": str(file)}}
        )
        chosen = min(TEMPERATURES, key=lambda t: sampled(policy, t, "tuning").mean())
        ways = {f"T = {t:g}": sampled(policy, t, "held out") for t in TEMPERATURES}
        ways["own best T"] = ways[f"T = {chosen:g}"]
        instances = sets["held out"][0]
        ways["greedy, all starts"] = gaps(
            environment.greedy_multistart(policy, instances), "held out"
        )
        ways["greedy, all starts x 8"] = gaps(
            environment.greedy_multistart_augmented(policy, instances), "held out"
        )
        found[name] = ways
        print(f"{name}: best of {SAMPLES}, own best temperature {chosen:g}")
        for way, values in ways.items():
            print(f"  {way:24s} {_told(values)}")
    for a, b in combinations(POLICIES, 2):
        print(f"{a} less {b}, paired by instance")
        for way in found[a]:
            print(f"  {way:24s} {_told(found[a][way] - found[b][way])}")


def _told(values: Gaps) -> str:
    interval = skewed_mean(values, LEVEL, of="instances")
    return f"{interval.value:6.3f} % [{interval.low:.3f}, {interval.high:.3f}]"


if __name__ == "__main__":
    main()
