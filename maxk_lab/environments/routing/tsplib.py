"""One problem of a TSPLIB or CVRPLIB file: its fields and sections, its nodes by their ids."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError

Array = NDArray[np.float64]
# What a problem of RL4CO has; any other field or section may change the problem.
_USED = ("TYPE", "DIMENSION", "EDGE_WEIGHT_TYPE", "NODE_COORD_SECTION")
_USED_BY_CVRP = ("CAPACITY", "DEMAND_SECTION", "DEPOT_SECTION")
_IGNORED = {"NAME", "COMMENT", "AUTHOR", "SOURCE", "BEST_KNOWN", "OPTIMAL_VALUE", "TOUR_SECTION"}
_IGNORED |= {"NODE_COORD_TYPE", "EDGE_WEIGHT_FORMAT", "DISPLAY_DATA_TYPE", "DISPLAY_DATA_SECTION"}
# These limit nothing where they are 0.
_LIMITS = ("DISTANCE", "SERVICE_TIME", "DROP_TIME")


def read_problem(name: str, path: Path) -> dict[str, Array]:
    """Return the problem of a file in the form of RL4CO's generators, a batch of 1.

    It has `locs` [1, n, 2]; for cvrp `depot` [1, 2] and `demand` [1, n] as well. Nodes are in the
    order of their ids. Coordinates are moved to the origin and divided by one factor, the longer
    side of the smallest rectangle around all points, so no angle changes. Rewards are lengths in
    these units; times the factor they are about the published lengths, which are rounded. Demand is
    divided by the capacity. Raises `LabError` for a problem that RL4CO does not have.
    """
    fields, sections = _parse(path)
    kind = (fields.get("TYPE", "").upper().split() or ["none"])[0]
    _check(path, kind == name.upper(), f"TYPE must be {name.upper()}, got {kind}")
    weights = fields.get("EDGE_WEIGHT_TYPE", "none").upper()
    _check(path, weights == "EUC_2D", f"EDGE_WEIGHT_TYPE must be EUC_2D, got {weights}")
    used = _USED + _USED_BY_CVRP * (name == "cvrp")
    keys = fields.keys() | sections.keys()
    for key in sorted(keys - _IGNORED - {*used}):
        also = did_you_mean(key, [each for each in used if each not in keys])
        unknown = f"{key} may change the problem, and {name} does not have it{also}"
        _check(path, key in _LIMITS and not fields.get(key, "x").strip("0."), unknown)
    nodes = _numbers_of(path, "NODE_COORD_SECTION", sections, columns=2)
    ids = sorted(nodes)
    dimension = fields.get("DIMENSION", f"{len(ids)}")
    counted = f"DIMENSION is {dimension}, but there are {len(ids)} nodes"
    _check(path, dimension == f"{len(ids)}", counted)
    points = np.array([nodes[node] for node in ids])
    points -= points.min(0)
    _check(path, points.max() > 0, "all nodes are at one place")
    points /= points.max()
    if name == "tsp":
        return {"locs": points[None]}
    depot = _depot(path, sections, ids)
    demands = _numbers_of(path, "DEMAND_SECTION", sections, columns=1)
    missing = ", ".join(f"{node}" for node in sorted(nodes.keys() ^ demands.keys()))
    _check(path, not missing, f"DEMAND_SECTION must have one demand a node; not so for {missing}")
    capacity = _number(path, "CAPACITY", fields.get("CAPACITY", "nan"))
    stated = f"CAPACITY must be a positive number, got {fields.get('CAPACITY', 'none')}"
    _check(path, 0 < capacity < np.inf, stated)
    _check(path, demands[depot] == [0], f"the depot {depot} must have the demand 0")
    customers = [node for node in ids if node != depot]
    for node in customers:
        fits = 0 <= demands[node][0] <= capacity
        rule = f"the demand of node {node} must be between 0 and the capacity {capacity:g}"
        _check(path, fits, f"{rule}, got {demands[node][0]:g}")
    demand = np.array([demands[node][0] for node in customers]) / capacity
    rows = np.isin(ids, customers)
    return {"locs": points[rows][None], "depot": points[~rows], "demand": demand[None]}


def _parse(path: Path) -> tuple[dict[str, str], dict[str, list[list[str]]]]:
    """Return the fields of a file, and the rows of its sections."""
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    fields: dict[str, str] = {}
    sections: dict[str, list[list[str]]] = {}
    rows: list[list[str]] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        match = re.match(r"\s*([A-Za-z]\w*)\s*:?\s*(.*?)\s*$", line)
        if match is None and words:
            if rows is None:
                raise LabError(f"{path}, line {number}: not in a section: {line.strip()[:40]}")
            rows.append(words)
        elif match is not None:
            key, value = match[1].upper(), match[2]
            if key == "EOF" and not value:
                break
            repeated = key in sections or fields.get(key, value) != value
            _check(path, key == "COMMENT" or not repeated, f"{key} is there twice")
            if value or (":" in line and not key.endswith("SECTION")):
                fields[key], rows = value, None
            else:
                rows = sections[key] = []
    return fields, sections


def _numbers_of(
    path: Path, section: str, sections: Mapping[str, Sequence[Sequence[str]]], columns: int
) -> dict[int, list[float]]:
    """Return the numbers of each node of a section."""
    _check(path, section in sections, f"{section} is missing")
    numbers: dict[int, list[float]] = {}
    for words in sections[section]:
        shape = f"{section} must have an id and {columns} numbers a row, got {' '.join(words)}"
        _check(path, len(words) == columns + 1 and words[0].isdecimal(), shape)
        node = int(words[0])
        _check(path, node not in numbers, f"{section} has node {node} twice")
        numbers[node] = [_number(path, f"node {node} of {section}", word) for word in words[1:]]
    return numbers


def _depot(path: Path, sections: Mapping[str, Any], ids: Sequence[int]) -> int:
    """Return the id of the one depot."""
    _check(path, "DEPOT_SECTION" in sections, "DEPOT_SECTION is missing")
    words = [word for row in sections["DEPOT_SECTION"] for word in row]
    words = words[: words.index("-1")] if "-1" in words else words
    named = len(words) == 1 and words[0].isdecimal() and int(words[0]) in ids
    _check(
        path, named, f"DEPOT_SECTION must name one of the nodes, got {' '.join(words) or 'none'}"
    )
    return int(words[0])


def _number(path: Path, what: str, word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        raise LabError(f"{path}: {what} must be a number, got {word}") from None
    finite = bool(np.isfinite(number)) or what == "CAPACITY"
    _check(path, finite, f"{what} must be a finite number, got {word}")
    return number


def _check(path: Path, holds: bool, message: str) -> None:
    if not holds:
        raise LabError(f"{path}: {message}")
