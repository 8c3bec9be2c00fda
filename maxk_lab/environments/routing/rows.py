"""The catalogue rows of the RL4CO environments. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import create_model

from maxk_lab.environments.functions import check_function
from maxk_lab.environments.rows import EnvironmentRow, FileFormat, Footprint, attention_footprint
from maxk_lab.errors import LabError
from maxk_lab.ranges import ANYWHERE, NOT_NEGATIVE, NOT_POSITIVE, Range
from maxk_lab.settings import Settings, number, setting

# The most trajectories that are ever listed.
MAX_TRAJECTORIES = 50_000

FILES = (
    FileFormat(".npz", "an .npz file in RL4CO's format"),
    FileFormat(".tsp", "a TSPLIB .tsp file (tsp)", "a TSPLIB problem", only="tsp"),
    FileFormat(".vrp", "a CVRPLIB .vrp file (cvrp)", "a CVRPLIB problem", only="cvrp"),
)
ABLE = frozenset({"greedy", "tempered", "cuda", "multistart", "shared_encoding"})

# The variants that RL4CO's multi-task VRP mixes: open routes (o), backhauls (b), length limits (l)
# and time windows (tw).
MTVRP_PRESETS: Any = Literal[
    *("all", "single_feat", "single_feat_otw", "cvrp", "ovrp", "vrpb", "vrpl", "vrptw", "ovrptw"),
    *("ovrpb", "ovrpl", "vrpbl", "vrpbtw", "vrpltw", "ovrpbl", "ovrpbtw", "ovrpltw", "vrpbltw"),
    "ovrpbltw",
]


@dataclass(frozen=True, kw_only=True)
class RoutingRow(EnvironmentRow):
    """An environment of RL4CO, `name` as RL4CO has it; what the adapter makes all of them able to.

    Trajectories are ordered choices of `chosen` out of `size_parameter` things where that is named.
    """

    implementation: str = "maxk_lab.environments.routing.adapter:RL4COEnvironment"
    citation: str = "RL4CO, arXiv 2306.17100"
    policies: tuple[str, ...] = ("attention",)
    graded: bool = True
    # Minus a cost, but where a row says otherwise.
    rewards_within: Range = NOT_POSITIVE
    supports: frozenset[str] = ABLE
    files: tuple[FileFormat, ...] = FILES
    chosen: str = ""
    # 2 since the projections of the decoder are folded into its keys.
    version: int = 2

    def enumerable(self, parameters: Mapping[str, Any]) -> bool:
        if parameters.get("env"):  # nothing is known of it
            return False
        if not self.chosen:
            return EnvironmentRow.enumerable(self, parameters)
        size, chosen = parameters[self.size_parameter], parameters[self.chosen]
        # Orders of more are too many, and would take long to count.
        few = size <= MAX_TRAJECTORIES and chosen <= MAX_TRAJECTORIES.bit_length()
        return few and math.perm(size, chosen) <= MAX_TRAJECTORIES

    def decisions(self, parameters: Mapping[str, Any]) -> float:
        return float(parameters[self.chosen or self.size_parameter])

    def footprint(self, settings: Mapping[str, Any]) -> Footprint:
        nodes = float(settings[self.size_parameter])
        return attention_footprint(settings, nodes, self.decisions(settings))

    def reward_range(self, parameters: Mapping[str, Any]) -> Range:
        return ANYWHERE if parameters.get("env") else self.rewards_within

    def problems(self, parameters: Mapping[str, Any]) -> Iterator[str]:
        if parameters.get("env"):
            try:
                check_function(parameters["env"], None, "env")
            except LabError as error:
                yield str(error)
        size = parameters[self.size_parameter]
        if self.chosen and (chosen := parameters[self.chosen]) > size:
            yield f"{self.chosen} must be at most {self.size_parameter} = {size}, got {chosen}"
        if self.name == "pdp" and size % 2:
            yield f"{self.size_parameter} must be even, a delivery for every pickup, got {size}"


# A setting of a row: its type, and its default with its bounds and its meaning.
Settable = tuple[Any, Any]


def _count(default: int, meaning: str = "size of an instance", low: int = 1) -> Settable:
    return int, number(default, meaning, low=low)


# Settings of all rows that stand for what is the user's own.
OWN: dict[str, Settable] = {
    "generator": (
        dict[str, int | float | str],
        setting({}, "more arguments of RL4CO's generator, as {capacity: 40}", later=True),
    ),
    "env": (
        str,
        setting("", "function package.module:name of (**generator) that makes the env", later=True),
    ),
}


def _row(
    name: str,
    meaning: str,
    reward: str,
    *plain: str,
    up_to: int = 0,
    small: Mapping[str, Any] | None = None,
    also: Mapping[str, Any] | None = None,
    **settings: Settable,
) -> RoutingRow:
    """A row of RL4CO's environment `name`, and what else it says; the first setting is its size."""
    fields: dict[str, Any] = (settings or {"num_loc": _count(20, low=2)}) | OWN
    size, others = next(iter(fields)), dict(also or {})
    exact_when = f"{size} ≤ {up_to}"
    if chosen := others.get("chosen"):
        exact_when = f"at most {MAX_TRAJECTORIES} ordered choices of {chosen} out of {size}"
    return RoutingRow(
        name=name,
        meaning=f"{meaning} (RL4CO), attention model, i.i.d. sampling",
        reward=reward,
        settings=create_model("RoutingSettings", __base__=Settings, **fields),
        plain=plain,
        exact_when=exact_when,
        small=small or {size: up_to},
        size_parameter=size,
        enumerable_up_to=up_to,
        **others,
    )


LENGTH, TOUR = "minus the total length", "minus the tour length"
PENALISED = "minus length and penalties"
CITIES, CUSTOMERS, PLACES = (
    f"with {{num_loc}} {what}" for what in ("cities", "customers", "places")
)
SCALE = "coordinates and times within [0, 1] instead of 150 and 480"
PRESET = "the variant of every instance; all, single_feat and single_feat_otw mix several"
# RL4CO's forced starts may be out of reach (op), or run past the last job (smtwtp).
NO_STARTS = ABLE - {"multistart"}
APART = ABLE - {"shared_encoding"}
KOOL = "Kool et al. 2019, arXiv 1803.08475; RL4CO, arXiv 2306.17100"
BERTO = "Berto et al. 2024 (RouteFinder), arXiv 2406.15007; RL4CO, arXiv 2306.17100"

ROUTING: tuple[RoutingRow, ...] = (
    _row(
        *("tsp", "travelling salesman on uniform random points", TOUR, "TSP", CITIES),
        up_to=8,
        small={"num_loc": 6},
        also={"solves_any_size": True, "citation": KOOL},
        num_loc=_count(20, "number of cities", low=3),
    ),
    _row(
        *("cvrp", "capacitated vehicle routing", LENGTH),
        *("capacitated vehicle routing", CUSTOMERS),
        up_to=5,
    ),
    _row(
        *("sdvrp", "split-delivery vehicle routing", LENGTH),
        *("split-delivery vehicle routing", CUSTOMERS),
        up_to=4,
    ),
    _row(
        *("op", "orienteering", "the prize collected", "orienteering", PLACES),
        up_to=6,
        also={"supports": NO_STARTS, "rewards_within": NOT_NEGATIVE},
    ),
    _row(
        *("pctsp", "prize-collecting TSP", PENALISED, "prize-collecting TSP", CITIES),
        up_to=5,
    ),
    _row(
        *("pdp", "pickup and delivery", TOUR, "pickup and delivery", PLACES),
        up_to=6,
    ),
    _row(
        *("smtwtp", "single-machine total weighted tardiness", "minus the weighted tardiness"),
        *("weighted tardiness", "of {num_job} jobs"),
        up_to=6,
        also={"supports": NO_STARTS},
        num_job=_count(10, low=2),
    ),
    _row(
        *("spctsp", "prize-collecting TSP whose prizes are known when collected", PENALISED),
        *("stochastic prize-collecting TSP", CITIES),
        up_to=6,
        small={"num_loc": 5},
    ),
    _row(
        *("cvrptw", "capacitated vehicle routing with time windows", LENGTH),
        *("vehicle routing with time windows", "and {num_loc} customers"),
        up_to=5,
        num_loc=_count(20, "number of customers", low=2),
        scale=(bool, setting(True, SCALE)),
    ),
    _row(
        *("mtvrp", "multi-task vehicle routing", LENGTH),
        *("multi-task vehicle routing", "({variant_preset})", CUSTOMERS),
        up_to=5,
        small={"num_loc": 4},
        also={"citation": BERTO},
        num_loc=_count(20, "number of customers", low=2),
        variant_preset=(MTVRP_PRESETS, setting("cvrp", PRESET)),
    ),
    _row(
        *("mtsp", "travelling salesmen from one depot, the longest tour counts"),
        *("minus the length of the longest tour", "TSP of several salesmen", CITIES),
        up_to=7,
        small={"num_loc": 5, "num_agents": 2},
        also={"supports": APART},
        num_loc=_count(20, "number of locations, the depot among them", low=3),
        num_agents=_count(5, "the most salesmen that may be sent"),
    ),
    _row(
        *("flp", "facility location", "minus the sum of the distances to the nearest facility"),
        *("facility location", PLACES),
        small={"num_loc": 6, "to_choose": 3},
        also={"supports": APART, "chosen": "to_choose"},
        num_loc=_count(20, "number of locations", low=2),
        to_choose=_count(5, "facilities to open"),
    ),
    _row(
        *("mcp", "maximum coverage", "the weight of the items covered"),
        *("maximum coverage", "with {num_sets} sets"),
        small={"num_sets": 6, "num_items": 20, "n_sets_to_choose": 3},
        also={"supports": APART, "chosen": "n_sets_to_choose", "rewards_within": NOT_NEGATIVE},
        num_sets=_count(20, "number of sets", low=2),
        num_items=_count(40, "items that the sets of 5 to 15 cover"),
        n_sets_to_choose=_count(5, "sets to choose"),
    ),
)
