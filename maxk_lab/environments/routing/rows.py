"""The catalogue rows of the RL4CO environments. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import create_model

from maxk_lab.environments.functions import check_function
from maxk_lab.environments.rows import MOST_NODES, EnvironmentRow, FileFormat
from maxk_lab.errors import LabError
from maxk_lab.ranges import ANYWHERE, NOT_NEGATIVE, NOT_POSITIVE, Range
from maxk_lab.settings import Settings, number, setting

FILES = (
    FileFormat(".npz", "an .npz file in RL4CO's format"),
    FileFormat(".tsp", "a TSPLIB .tsp file (tsp)", "a TSPLIB problem", only="tsp"),
    FileFormat(".vrp", "a CVRPLIB .vrp file (cvrp)", "a CVRPLIB problem", only="cvrp"),
)
ABLE = frozenset({"greedy", "tempered", "cuda", "multistart"})


@dataclass(frozen=True, kw_only=True)
class RoutingRow(EnvironmentRow):
    """An environment of RL4CO with RL4CO's `name`, and the adapter's options for it."""

    implementation: str = "maxk_lab.environments.routing.adapter:RL4COEnvironment"
    citation: str = "RL4CO, arXiv 2306.17100"
    policies: tuple[str, ...] = ("attention",)
    graded: bool = True
    # Minus a cost, unless a row says otherwise.
    rewards_within: Range = NOT_POSITIVE
    supports: frozenset[str] = ABLE
    files: tuple[FileFormat, ...] = FILES
    # Version 2: the projections of the decoder are folded into its keys.
    version: int = 2

    def in_words(self, parameters: Mapping[str, Any]) -> str:
        # The words of the row do not describe a user's environment.
        return "" if parameters.get("env") else super().in_words(parameters)

    def enumerable(self, parameters: Mapping[str, Any]) -> bool:
        return not parameters.get("env") and super().enumerable(parameters)

    def reward_range(self, parameters: Mapping[str, Any]) -> Range:
        return ANYWHERE if parameters.get("env") else self.rewards_within

    def problems(self, parameters: Mapping[str, Any]) -> Iterator[str]:
        if parameters.get("env"):
            try:
                check_function(parameters["env"], None, "env")
            except LabError as error:
                yield str(error)
        if self.size_parameter in parameters.get("generator", {}):
            yield f"{self.size_parameter} is in generator: write it as a separate setting"
        size = parameters[self.size_parameter]
        if self.name == "pdp" and size % 2:
            yield f"{self.size_parameter} must be even, a delivery for every pickup, got {size}"


# A setting of a row: its type, and its default with its bounds and its meaning.
Settable = tuple[Any, Any]


def _count(default: int, meaning: str = "size of an instance", low: int = 1) -> Settable:
    return int, number(default, meaning, low=low, high=MOST_NODES)


# Settings of all rows that name the user's own code or files.
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
    *label: str,
    enumerable: tuple[int, int],
    size: tuple[str, Settable] = ("num_loc", _count(20, low=2)),
    facts: Mapping[str, Any] | None = None,
) -> RoutingRow:
    """Return the row of RL4CO's environment `name`.

    enumerable: the largest size for enumeration, and a size that takes a moment. size: the
    parameter and its setting. facts: other fields of the row.
    """
    (parameter, settable), (largest, small) = size, enumerable
    fields: dict[str, Any] = {parameter: settable} | OWN
    return RoutingRow(
        name=name,
        meaning=f"{meaning} (RL4CO), attention model, i.i.d. sampling",
        reward=reward,
        settings=create_model("RoutingSettings", __base__=Settings, **fields),
        label=label,
        exact_when=f"{parameter} ≤ {largest}",
        small={parameter: small},
        size_parameter=parameter,
        enumerable_up_to=largest,
        **(facts or {}),
    )


LENGTH, TOUR = "minus the total length", "minus the tour length"
PENALISED = "minus length and penalties"
CITIES, CUSTOMERS, PLACES = (
    f"with {{num_loc}} {what}" for what in ("cities", "customers", "places")
)
# RL4CO's forced starts may be unreachable (op), or run past the last job (smtwtp).
NO_STARTS = ABLE - {"multistart"}
KOOL = "Kool et al. 2019, arXiv 1803.08475; RL4CO, arXiv 2306.17100"

ROUTING: tuple[RoutingRow, ...] = (
    _row(
        *("tsp", "travelling salesman on uniform random points", TOUR, "TSP", CITIES),
        enumerable=(8, 6),
        size=("num_loc", _count(20, "number of cities", low=3)),
        facts={"citation": KOOL, "solves_any_size": True},
    ),
    _row(
        *("cvrp", "capacitated vehicle routing", LENGTH, "capacitated vehicle routing", CUSTOMERS),
        enumerable=(5, 5),
    ),
    _row(
        *("sdvrp", "split-delivery vehicle routing", LENGTH),
        *("split-delivery vehicle routing", CUSTOMERS),
        enumerable=(4, 4),
    ),
    _row(
        *("op", "orienteering", "the prize collected", "orienteering", PLACES),
        enumerable=(6, 6),
        facts={"supports": NO_STARTS, "rewards_within": NOT_NEGATIVE},
    ),
    _row(
        *("pctsp", "prize-collecting TSP", PENALISED, "prize-collecting TSP", CITIES),
        enumerable=(5, 5),
    ),
    _row(
        *("pdp", "pickup and delivery", TOUR, "pickup and delivery", PLACES),
        enumerable=(6, 6),
    ),
    _row(
        *("smtwtp", "single-machine total weighted tardiness", "minus the weighted tardiness"),
        *("weighted tardiness", "of {num_job} jobs"),
        enumerable=(6, 6),
        size=("num_job", _count(10, low=2)),
        facts={"supports": NO_STARTS},
    ),
    _row(
        *("spctsp", "prize-collecting TSP whose prizes are known when collected", PENALISED),
        *("stochastic prize-collecting TSP", CITIES),
        enumerable=(6, 5),
    ),
)
