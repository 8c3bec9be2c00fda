"""Instances without a tour are refused, wherever they come from."""

import sys

import pytest
import torch
from rl4co.envs import TSPEnv
from small_environments import make
from sweep_files import problems

from maxk_lab.environments.routing.problems import check_feasible
from maxk_lab.environments.routing.rows import ROUTING
from maxk_lab.errors import LabError

SWEEP = """\
name: drawn
seeds: [0]
environment: {name: NAME, num_loc: 5, generator: {ARGUMENTS}}
policy: {embed_dim: 16, num_encoder_layers: 1, num_heads: 2}
training:
  steps: 2
  batch: 8
  evaluate: {instances: 6, samples: 4}
  grid: {estimator: maxk, baseline: none, n: 4, k: 2}
"""


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("cvrp", "capacity: '20'", "RL4CO refuses {'capacity': '20'}: TypeError"),
        ("cvrp", "capacity: -3", "{'capacity': -3}: instance 0: demand has an entry below 0"),
        ("cvrp", "capacity: 0", "instance 0: demand has entries that are no finite numbers"),
        ("cvrp", "capacity: 1", "a demand is above the capacity, so that no tour exists"),
        ("cvrp", "vehicle_capacity: 0", "instance 0: the capacity is not above 0"),
        ("cvrp", "capcity: 20", "no argument 'capcity' (did you mean capacity?)"),
        ("cvrp", "num_loc: 7", "num_loc is in generator: write it as a separate setting"),
        ("op", "max_length: -1.0", "instance 0: max_length is below 0, so that no tour exists"),
        ("pctsp", "penalty_factor: -1.0", "instance 0: penalty has an entry below 0"),
    ],
)
def test_a_generator_is_tried_before_a_run(name, arguments, message, write):
    text = SWEEP.replace("NAME", name).replace("ARGUMENTS", arguments)
    (problem,) = problems(write(text))
    assert message in problem
    assert problem.startswith("sweep.yaml:3:")


def test_a_demand_above_the_capacity_can_be_split():
    instances = make("sdvrp", num_loc=3).instances(2, 0)
    for key in ("demand", "demand_with_depot"):
        instances[key][:, -1] = 1.5
    check_feasible(instances)
    unsplit = make("cvrp", num_loc=3).instances(2, 0)
    unsplit["demand"][1, -1] = 1.5
    with pytest.raises(LabError, match="instance 1: a demand is above the capacity"):
        check_feasible(unsplit)


@pytest.mark.parametrize("name", [row.name for row in ROUTING])
def test_what_rl4co_draws_by_itself_has_tours(name):
    environment = make(name)
    instances = environment.instances(50, 1)
    check_feasible(instances)
    key = "locs" if "locs" in instances else "job_weight"
    instances[key][37] = torch.nan
    with pytest.raises(LabError, match=f"^instance 37: {key} has entries that are no finite"):
        check_feasible(instances)


class Endless(TSPEnv):
    """No tour of an instance that begins at the origin is ever complete."""

    def _step(self, td):
        td = super()._step(td)
        never = (td["locs"][:, 0] == 0).all(-1)
        td["done"] = td["done"] & ~never
        td["action_mask"][:, 0] |= ~td["action_mask"].any(1)
        return td


def make_endless(**generator):
    return Endless(generator_params=generator, check_solution=False)


def test_decoding_ends_and_names_the_instance(monkeypatch):
    monkeypatch.setitem(sys.modules, "endless", sys.modules[__name__])
    environment = make("tsp", num_loc=4, env="endless:make_endless")
    policy, instances = environment.policy(0), environment.instances(5, 0)
    assert environment.rollout(policy, instances, 2, seed=0).rewards.shape == (5, 2)
    instances["locs"][3, 0] = 0
    for decode in (
        lambda: environment.rollout(policy, instances, 2, seed=0),
        lambda: environment.greedy(policy, instances),
    ):
        with pytest.raises(LabError, match=r"^instance 3: no tour is complete after 140 steps"):
            decode()
