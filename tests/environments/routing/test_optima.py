"""Optima: every method against complete search, RL4CO's own rewards, and where there is none."""

import numpy as np
import pytest
import torch
from small_environments import make

from maxk_lab.environments import environment as listing
from maxk_lab.environments.catalogue import optimum_refusal
from maxk_lab.environments.environment import method_for, optima
from maxk_lab.environments.routing.optima import OneTour, best_tour
from maxk_lab.errors import LabError


def test_two_nodes_and_nobody_else_is_a_tour_there_and_back():
    points = np.array([[0, 0], [1, 0], [5, 0]])
    assert best_tour(OneTour(points[:2], np.full(2, np.inf))) == [0, 1]
    assert best_tour(OneTour(points, np.array([0, 3.0, 3.0]))) == [0, 1]
    far = np.array([0, 3.0, 9.0])
    assert sorted(best_tour(OneTour(points, far, longest=10))) == [0, 1, 2]
    assert best_tour(OneTour(points, far, longest=9)) == [0, 1]
    assert best_tour(OneTour(points, far, longest=1)) == [0]


@pytest.mark.parametrize(
    ("name", "size", "methods"),
    [
        ("tsp", 3, ["milp"]),
        ("tsp", 6, ["pyvrp"]),
        ("tsp", 8, ["milp"]),
        ("op", 6, ["milp"]),
        ("pctsp", 5, ["milp"]),
        ("spctsp", 5, ["milp"]),
        ("cvrp", 4, ["pyvrp"]),
        ("cvrptw", 4, ["pyvrp"]),
        ("pdp", 6, ["pyvrp"]),
    ],
)
def test_every_method_finds_what_enumeration_finds(name, size, methods, monkeypatch):
    environment = make(name, num_loc=size)
    instances = environment.instances(6, 1)
    every = optima(environment, instances, "enumeration")
    assert every.exact
    for method in methods:
        if method == "pyvrp":
            pytest.importorskip("pyvrp")
            monkeypatch.setattr(
                "maxk_lab.environments.routing.optima.best_known.__defaults__", (100,)
            )
        found = optima(environment, instances, method)
        assert found.kind == method
        assert found.exact == (method != "pyvrp")
        assert found.values.dtype == torch.float64
        torch.testing.assert_close(found.values, every.values, rtol=0, atol=1e-9)


def test_a_load_that_is_exactly_the_capacity_is_feasible_in_single_precision():
    """Ten times 0.1 is more than 1 in single precision; one route is enough all the same."""
    pytest.importorskip("pyvrp")
    environment = make("cvrp", "float32", num_loc=10)
    instances = environment.instances(1, 0)
    instances["demand"] = torch.full((1, 10), 0.1)
    cities = make("tsp", "float64", num_loc=11)
    tour = cities.instances(1, 0)
    tour["locs"] = instances["locs"].double()
    found = optima(environment, instances, "pyvrp").values
    torch.testing.assert_close(found, optima(cities, tour, "milp").values, rtol=0, atol=1e-9)


class Listed:
    """An environment of known rewards, of which some cannot be scored."""

    enumerable = True

    def enumerate(self, instances):
        return torch.arange(instances.shape[1]).unsqueeze(1), instances[0]


def test_trajectories_that_cannot_be_scored_are_no_optimum():
    instances = torch.tensor([[1.0, torch.nan, 3.0], [torch.nan, torch.nan, torch.nan]])
    assert torch.equal(
        optima(Listed(), instances, "enumeration").values.nan_to_num(-9),
        torch.tensor([3.0, -9.0]).double(),
    )


def test_auto_lists_only_what_takes_a_moment(monkeypatch):
    instances = torch.ones(4, 5)
    assert method_for(Listed(), instances, "auto") == "enumeration"
    monkeypatch.setattr(listing, "AUTO_TRAJECTORIES", 19)
    with pytest.raises(LabError, match="many to list: ask for exact"):
        method_for(Listed(), instances, "auto")
    assert method_for(Listed(), instances, "exact") == "enumeration"


@pytest.mark.parametrize(
    ("name", "size", "reference", "expected"),
    [
        ("tsp", 8, "auto", "milp"),
        ("tsp", 12, "exact", "milp"),
        ("tsp", 13, "auto", "takes more than a moment: ask for exact or pyvrp"),
        ("tsp", 13, "exact", "milp"),
        ("op", 6, "auto", "enumeration"),
        ("op", 20, "exact", "milp"),
        ("cvrp", 20, "auto", "takes more than a moment: ask for pyvrp"),
        ("cvrp", 20, "exact", "no optimum is known"),
        ("sdvrp", 20, "auto", "no optimum is known"),
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


def test_refusals_before_a_run(monkeypatch):
    assert optimum_refusal("cvrp", {"num_loc": 20}, "auto") is None
    assert optimum_refusal("gaussian", {}, "none") is None
    assert optimum_refusal("tsp", {"num_loc": 50}, "exact") is None
    assert optimum_refusal("cvrp", {"num_loc": 4}, "exact") is None
    assert "has no exact optimum here" in optimum_refusal("cvrp", {"num_loc": 20}, "exact")
    assert "pyvrp solves tsp, cvrp, pdp, cvrptw, not op" in optimum_refusal(
        "op", {"num_loc": 20}, "pyvrp"
    )
    monkeypatch.setattr("maxk_lab.environments.routing.rows.find_spec", lambda name: None)
    assert "pip install 'maxk-lab[solvers]'" in optimum_refusal("tsp", {"num_loc": 20}, "pyvrp")


def test_a_solver_that_is_not_installed_is_asked_for(monkeypatch):
    def import_module(name):
        raise ImportError(name)

    monkeypatch.setattr("maxk_lab.environments.routing.optima.import_module", import_module)
    environment = make("tsp", num_loc=5)
    with pytest.raises(LabError, match=r"pip install 'maxk-lab\[solvers\]'"):
        optima(environment, environment.instances(1, 0), "pyvrp")
