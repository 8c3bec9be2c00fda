"""The catalogue rows of the RL4CO environments and of the attention policy that solves them.

Imports no torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

from pydantic import create_model

from maxk_lab.environments.footprint import Footprint, of_attention
from maxk_lab.environments.rows import EnvironmentRow, FileFormat
from maxk_lab.ranges import NOT_NEGATIVE, NOT_POSITIVE, Range
from maxk_lab.settings import Settings, number, setting

# The most trajectories that are ever listed.
MAX_TRAJECTORIES = 50_000

FILES = (
    FileFormat(".npz", "an .npz file in RL4CO's format"),
    FileFormat(".tsp", "a TSPLIB .tsp file (tsp)", "a TSPLIB problem", only="tsp"),
    FileFormat(".vrp", "a CVRPLIB .vrp file (cvrp)", "a CVRPLIB problem", only="cvrp"),
)
CITIES, CUSTOMERS, PLACES = (
    f"with {{num_loc}} {what}" for what in ("cities", "customers", "places")
)
NEEDS_PYVRP = "the reference pyvrp needs the optional extra: pip install 'maxk-lab[solvers]'"

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

    `optima` are those of `maxk_lab.environments.routing.optima`: exact for one route with at most
    one visit to each node, pyvrp for what PyVRP can state in full. That is neither sdvrp (it splits
    no delivery) nor pctsp (it knows no least prize).
    """

    implementation: str = "maxk_lab.environments.routing.adapter:RL4COEnvironment"
    citation: str = "RL4CO, arXiv 2306.17100"
    policies: tuple[str, ...] = ("attention",)
    graded: bool = True
    # Minus a cost, but where a row says otherwise.
    rewards_within: Range = NOT_POSITIVE
    greedy: bool = True
    tempered: bool = True
    cuda: bool = True
    files: tuple[FileFormat, ...] = FILES
    multistart: bool = True
    shared_encoding: bool = True
    # 2 since the projections of the decoder are folded into its keys.
    version: int = 2

    def footprint(self, settings: Mapping[str, Any]) -> Footprint:
        nodes = float(settings[self.size_parameter])
        return of_attention(settings, nodes, self.decisions(settings))

    def lacks_solver(self, optimum: str) -> str | None:
        return NEEDS_PYVRP if optimum == "pyvrp" and find_spec("pyvrp") is None else None


@dataclass(frozen=True, kw_only=True)
class ChoiceRow(RoutingRow):
    """An environment whose trajectories are ordered choices.

    They are of `chosen` out of `size_parameter` things.
    """

    chosen: str

    def enumerable(self, parameters: Mapping[str, Any]) -> bool:
        size, chosen = parameters[self.size_parameter], parameters[self.chosen]
        # Orders of more are too many, and would take long to count.
        few = size <= MAX_TRAJECTORIES and chosen <= MAX_TRAJECTORIES.bit_length()
        return few and math.perm(size, chosen) <= MAX_TRAJECTORIES

    def decisions(self, parameters: Mapping[str, Any]) -> float:
        return float(parameters[self.chosen])

    def refusal(self, parameters: Mapping[str, Any], policy: Mapping[str, Any]) -> str | None:
        chosen, size = parameters[self.chosen], parameters[self.size_parameter]
        if chosen > size:
            return f"{self.chosen} must be at most {self.size_parameter} = {size}, got {chosen}"
        return RoutingRow.refusal(self, parameters, policy)


@dataclass(frozen=True, kw_only=True)
class PairedRow(RoutingRow):
    """An environment whose locations come in pairs."""

    def refusal(self, parameters: Mapping[str, Any], policy: Mapping[str, Any]) -> str | None:
        size = parameters[self.size_parameter]
        if size % 2:
            return f"{self.size_parameter} must be even, a delivery for every pickup, got {size}"
        return RoutingRow.refusal(self, parameters, policy)


# A setting of a row: its type, and its default with its bounds and its meaning.
Settable = tuple[Any, Any]


def _count(default: int, meaning: str, low: int = 1) -> Settable:
    return int, number(default, meaning, low=low)


def _size(meaning: str = "size of an instance", low: int = 2) -> Settable:
    return _count(20, meaning, low)


def _model(settings: Mapping[str, Settable]) -> type[Settings]:
    fields: dict[str, Any] = dict(settings)
    return create_model("RoutingSettings", __base__=Settings, **fields)


def _row(
    name: str,
    meaning: str,
    reward: str = "minus the total length",
    *,
    plain: tuple[str, ...],
    up_to: int = 0,
    settings: Mapping[str, Settable] | None = None,
    small: Mapping[str, Any] | None = None,
    kind: type[RoutingRow] = RoutingRow,
    **others: Any,
) -> RoutingRow:
    """A row of RL4CO's environment `name`; the first of its settings is its size."""
    settings = settings or {"num_loc": _size()}
    size = next(iter(settings))
    return kind(
        name=name,
        meaning=f"{meaning} (RL4CO), attention model, i.i.d. sampling",
        reward=reward,
        settings=_model(settings),
        plain=plain,
        small={size: up_to} | dict(small or {}),
        size_parameter=size,
        enumerable_up_to=up_to,
        **{"exact_when": f"{size} ≤ {up_to}"} | others,
    )


def _choices(
    name: str,
    meaning: str,
    reward: str,
    chosen: str,
    settings: Mapping[str, Settable],
    *,
    plain: tuple[str, ...],
    within: Range = NOT_POSITIVE,
    **small: int,
) -> RoutingRow:
    """A row whose trajectories choose `chosen` things in order, without a shared encoding."""
    size = next(iter(settings))
    return _row(
        name,
        meaning,
        reward,
        settings=settings,
        plain=plain,
        small=small,
        kind=ChoiceRow,
        chosen=chosen,
        exact_when=f"at most {MAX_TRAJECTORIES} ordered choices of {chosen} out of {size}",
        shared_encoding=False,
        rewards_within=within,
    )


ROUTING: tuple[RoutingRow, ...] = (
    _row(
        "tsp",
        "travelling salesman on uniform random points",
        "minus the tour length",
        settings={"num_loc": _size("number of cities", low=3)},
        plain=("TSP", CITIES),
        citation="Kool et al. 2019, arXiv 1803.08475; RL4CO, arXiv 2306.17100",
        up_to=8,
        small={"num_loc": 6},
        optima=("exact", "pyvrp"),
    ),
    _row(
        "cvrp",
        "capacitated vehicle routing",
        plain=("capacitated vehicle routing", CUSTOMERS),
        up_to=5,
        optima=("pyvrp",),
    ),
    _row(
        "sdvrp",
        "split-delivery vehicle routing",
        plain=("split-delivery vehicle routing", CUSTOMERS),
        up_to=4,
    ),
    # RL4CO's forced starts may be out of reach: no multistart.
    _row(
        "op",
        "orienteering",
        "the prize collected",
        plain=("orienteering", PLACES),
        up_to=6,
        multistart=False,
        optima=("exact",),
        rewards_within=NOT_NEGATIVE,
    ),
    _row(
        "pctsp",
        "prize-collecting TSP",
        "minus length and penalties",
        plain=("prize-collecting TSP", CITIES),
        up_to=5,
        optima=("exact",),
    ),
    _row(
        "pdp",
        "pickup and delivery",
        "minus the tour length",
        plain=("pickup and delivery", PLACES),
        up_to=6,
        kind=PairedRow,
        optima=("pyvrp",),
    ),
    # RL4CO's forced starts run past the last job: no multistart.
    _row(
        "smtwtp",
        "single-machine total weighted tardiness",
        "minus the weighted tardiness",
        settings={"num_job": _count(10, "size of an instance", low=2)},
        plain=("weighted tardiness", "of {num_job} jobs"),
        up_to=6,
        multistart=False,
    ),
    _row(
        "spctsp",
        "prize-collecting TSP whose prizes are known when collected",
        "minus length and penalties",
        plain=("stochastic prize-collecting TSP", CITIES),
        up_to=6,
        small={"num_loc": 5},
        optima=("exact",),
    ),
    _row(
        "cvrptw",
        "capacitated vehicle routing with time windows",
        plain=("vehicle routing with time windows", "and {num_loc} customers"),
        settings={
            "num_loc": _size("number of customers"),
            "scale": (
                bool,
                setting(True, "coordinates and times within [0, 1] instead of 150 and 480"),
            ),
        },
        up_to=5,
        optima=("pyvrp",),
    ),
    _row(
        "mtvrp",
        "multi-task vehicle routing",
        settings={
            "num_loc": _size("number of customers"),
            "variant_preset": (
                MTVRP_PRESETS,
                setting(
                    "cvrp",
                    "the variant of every instance; all, single_feat and single_feat_otw mix "
                    "several",
                ),
            ),
        },
        plain=("multi-task vehicle routing", "({variant_preset})", CUSTOMERS),
        citation="Berto et al. 2024 (RouteFinder), arXiv 2406.15007; RL4CO, arXiv 2306.17100",
        up_to=5,
        small={"num_loc": 4},
    ),
    _row(
        "mtsp",
        "travelling salesmen from one depot, the longest tour counts",
        "minus the length of the longest tour",
        settings={
            "num_loc": _size("number of locations, the depot among them", low=3),
            "num_agents": _count(5, "the most salesmen that may be sent"),
        },
        plain=("TSP of several salesmen", CITIES),
        up_to=7,
        small={"num_loc": 5, "num_agents": 2},
        shared_encoding=False,
    ),
    _choices(
        "flp",
        "facility location",
        "minus the sum of the distances to the nearest facility",
        "to_choose",
        {
            "num_loc": _size("number of locations"),
            "to_choose": _count(5, "facilities to open"),
        },
        plain=("facility location", PLACES),
        num_loc=6,
        to_choose=3,
    ),
    _choices(
        "mcp",
        "maximum coverage",
        "the weight of the items covered",
        "n_sets_to_choose",
        {
            "num_sets": _count(20, "number of sets", low=2),
            "num_items": _count(40, "items that the sets of 5 to 15 cover"),
            "n_sets_to_choose": _count(5, "sets to choose"),
        },
        plain=("maximum coverage", "with {num_sets} sets"),
        within=NOT_NEGATIVE,
        num_sets=6,
        num_items=20,
        n_sets_to_choose=3,
    ),
)
