"""A problem of a TSPLIB or CVRPLIB file: its fields, its sections, and its nodes by id."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError

Sections = Mapping[str, Sequence[Sequence[str]]]
# The fields and sections of RL4CO's problems; any other may change the problem.
_USED = ("TYPE", "DIMENSION", "EDGE_WEIGHT_TYPE", "NODE_COORD_SECTION")
_USED_BY_CVRP = ("CAPACITY", "DEMAND_SECTION", "DEPOT_SECTION")
_IGNORED = {"NAME", "COMMENT", "AUTHOR", "SOURCE", "BEST_KNOWN", "OPTIMAL_VALUE", "TOUR_SECTION"}
_IGNORED |= {"NODE_COORD_TYPE", "EDGE_WEIGHT_FORMAT", "DISPLAY_DATA_TYPE", "DISPLAY_DATA_SECTION"}
# These limit nothing if they are 0.
_LIMITS = ("DISTANCE", "SERVICE_TIME", "DROP_TIME")


def read_problem(name: str, path: Path) -> dict[str, NDArray[np.float64]]:
    """Return the problem of a file in the form of RL4CO's generators, a batch of 1.

    It has `locs` [1, n, 2]; for cvrp `depot` [1, 2] and `demand` [1, n] as well. Nodes are in the
    order of their ids. Coordinates are moved to the origin and divided by one factor, the longer
    side of the smallest rectangle around all points, so no angle changes. Rewards are lengths in
    these units; times the factor they are about the published lengths, which are rounded. Demand is
    divided by the capacity. Raises `LabError` for a problem that RL4CO does not have.
    """
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    fields, sections = _parse(text)
    kind = (fields.get("TYPE", "").upper().split() or ["none"])[0]
    check(kind == name.upper(), f"TYPE must be {name.upper()}, got {kind}")
    weights = fields.get("EDGE_WEIGHT_TYPE", "none").upper()
    check(weights == "EUC_2D", f"EDGE_WEIGHT_TYPE must be EUC_2D, got {weights}")
    used, keys = _USED + _USED_BY_CVRP * (name == "cvrp"), {*fields, *sections}
    for key in sorted(keys - _IGNORED - {*used}):
        also = did_you_mean(key, [each for each in used if each not in keys])
        unknown = f"{key} may change the problem, and {name} does not have it{also}"
        check(key in _LIMITS and not fields.get(key, "x").strip("0."), unknown)
    nodes = _table(sections, "NODE_COORD_SECTION", columns=2)
    dimension, points = fields.get("DIMENSION", f"{len(nodes)}"), nodes.to_numpy()
    counted = f"DIMENSION is {dimension}, but there are {len(nodes)} nodes"
    check(dimension == f"{len(nodes)}", counted)
    points = points - points.min(0)
    check(points.max() > 0, "all nodes are at one place")
    points = points / points.max()
    if name == "tsp":
        return {"locs": points[None]}
    depot, demand = _demand(fields, sections, nodes.index)
    is_depot = nodes.index == depot
    return {"locs": points[~is_depot][None], "depot": points[is_depot], "demand": demand[None]}


def _parse(text: str) -> tuple[dict[str, str], dict[str, list[list[str]]]]:
    """Return the fields of a file, and the rows of its sections."""
    fields: dict[str, str] = {}
    sections: dict[str, list[list[str]]] = {}
    rows: list[list[str]] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        match = re.match(r"\s*([A-Za-z]\w*)\s*:?\s*(.*?)\s*$", line)
        if match is None and words:
            if rows is None:
                raise LabError(f"line {number} is not in a section: {line.strip()[:40]}")
            rows.append(words)
        elif match is not None:
            key, value = match[1].upper(), match[2]
            if key == "EOF" and not value:
                break
            repeated = key in sections or fields.get(key, value) != value
            check(key == "COMMENT" or not repeated, f"{key} is there twice")
            if value or (":" in line and not key.endswith("SECTION")):
                fields[key], rows = value, None
            else:
                rows = sections[key] = []
    return fields, sections


def _table(sections: Sections, section: str, columns: int) -> pd.DataFrame:
    """Return the numbers of each node of a section, in the order of the ids."""
    check(section in sections, f"{section} is missing")
    table: dict[int, list[float]] = {}
    for words in sections[section]:
        numbers = [_number(word) for word in words[1:]]
        is_row = (
            len(numbers) == columns and words[0].isdecimal() and all(map(math.isfinite, numbers))
        )
        rule = f"{section} must have an id and {columns} finite numbers a row"
        check(is_row, f"{rule}, got {' '.join(words)}")
        check(int(words[0]) not in table, f"{section} has node {words[0]} twice")
        table[int(words[0])] = numbers
    check(bool(table), f"{section} is empty")
    return pd.DataFrame.from_dict(table, orient="index").sort_index()


def _demand(
    fields: Mapping[str, str], sections: Sections, nodes: pd.Index[Any]
) -> tuple[int, NDArray[np.float64]]:
    """Return the id of the depot, and the demand of the customers per capacity."""
    demand = _table(sections, "DEMAND_SECTION", columns=1)[0]
    missing = ", ".join(map(str, nodes.symmetric_difference(demand.index)))
    check(not missing, f"DEMAND_SECTION must have one demand a node; not so for {missing}")
    check("DEPOT_SECTION" in sections, "DEPOT_SECTION is missing")
    words = [word for row in sections["DEPOT_SECTION"] for word in row]
    words = words[: words.index("-1")] if "-1" in words else words
    is_node = len(words) == 1 and words[0].isdecimal() and int(words[0]) in nodes
    check(is_node, f"DEPOT_SECTION must name one of the nodes, got {' '.join(words) or 'none'}")
    depot = int(words[0])
    check(bool(demand[depot] == 0), f"the depot {depot} must have the demand 0")
    stated = fields.get("CAPACITY", "none")
    capacity, customers = _number(stated), demand.drop(depot)
    check(0 < capacity < np.inf, f"CAPACITY must be a positive number, got {stated}")
    return depot, customers.to_numpy() / capacity


def _number(word: str) -> float:
    with suppress(ValueError):
        return float(word.replace("_", "?"))  # Python reads 1_0 as 10
    return np.nan


def check(holds: bool, message: str) -> None:
    """Raise `LabError` with the message unless a rule holds."""
    if not holds:
        raise LabError(message)
