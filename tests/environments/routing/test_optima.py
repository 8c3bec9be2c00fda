"""Optima: every method against complete search, RL4CO's own rewards, and where there is none."""

import numpy as np
import pytest
import torch
from small_environments import make

from maxk_lab.environments import environment as listing
from maxk_lab.environments.catalogue import optimum_refusal
from maxk_lab.environments.environment import method_for, optima
from maxk_lab.environments.routing.optima import best_tour
from maxk_lab.errors import LabError


def test_two_far_clusters_make_one_tour():
    """The degree constraints alone are cheapest with one tour in each cluster."""
    cluster = np.array([[0.0, 0], [0.01, 0], [0, 0.01]])
    tour = best_tour(np.concatenate([cluster, cluster + 1]))
    assert sorted(tour) == [0, 1, 2, 3, 4, 5]
    assert sum((tour[i] < 3) != (tour[i - 1] < 3) for i in range(6)) == 2


@pytest.mark.parametrize("size", [3, 4, 8])
def test_the_integer_program_finds_what_enumeration_finds(size):
    environment = make("tsp", num_loc=size)
    instances = environment.instances(6, 1)
    solved = optima(environment, instances, "milp")
    assert (solved.kind, solved.exact, solved.values.dtype) == ("milp", True, torch.float64)
    every = optima(environment, instances, "enumeration")
    torch.testing.assert_close(solved.values, every.values, rtol=0, atol=1e-9)


class Listed:
    """An environment of known rewards, some of them missing."""

    enumerable = True

    def enumerate(self, instances):
        return torch.arange(instances.shape[1]).unsqueeze(1), instances[0]


def test_missing_rewards_are_no_optimum_and_auto_lists_few_trajectories(monkeypatch):
    instances = torch.tensor([[1.0, torch.nan, 3.0], [torch.nan, torch.nan, torch.nan]])
    best = optima(Listed(), instances, "enumeration").values
    assert best.nan_to_num(-9).tolist() == [3.0, -9.0]
    assert method_for(Listed(), instances, "auto") == "enumeration"
    monkeypatch.setattr(listing, "AUTO_TRAJECTORIES", 5)
    with pytest.raises(LabError, match="many to list: use exact"):
        method_for(Listed(), instances, "auto")
    assert method_for(Listed(), instances, "exact") == "enumeration"


@pytest.mark.parametrize(
    ("name", "size", "reference", "expected"),
    [
        ("tsp", 12, "auto", "milp"),
        ("tsp", 13, "auto", "takes more than a moment: use exact"),
        ("tsp", 13, "exact", "milp"),
        ("op", 6, "auto", "enumeration"),
        ("cvrp", 20, "auto", "no optimum is known"),
        ("op", 20, "exact", "no optimum is known"),
    ],
)
def test_the_method_for_a_reference(name, size, reference, expected):
    environment = make(name, num_loc=size)
    instances = environment.instances(2, 0)
    if " " in expected:
        with pytest.raises(LabError, match=expected):
            method_for(environment, instances, reference)
    else:
        assert method_for(environment, instances, reference) == expected


def test_larger_instances_than_those_of_the_settings_are_not_listed():
    large = make("cvrp", num_loc=6).instances(1, 0)
    with pytest.raises(LabError, match="too many trajectories to enumerate"):
        method_for(make("cvrp", num_loc=5), large, "auto")


def test_refusals_before_a_run():
    for name, parameters, reference in (
        ("gaussian", {}, "none"),
        ("cvrp", {"num_loc": 20}, "auto"),
        ("cvrp", {"num_loc": 4}, "exact"),
        ("tsp", {"num_loc": 50}, "exact"),
    ):
        assert optimum_refusal(name, parameters, reference) is None
    refusal = optimum_refusal("cvrp", {"num_loc": 20}, "exact")
    assert "cvrp of this size has no exact optimum" in refusal
