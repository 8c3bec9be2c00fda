"""The catalogue of estimators and baselines: formula, objective, bias, limits and source of each.

Imports no torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast

from maxk_lab.catalogue import Catalogue
from maxk_lab.errors import LabError, shown
from maxk_lab.estimators.baselines import leave_one_out, weighted_means
from maxk_lab.estimators.in_place import row_in_place, row_of_function
from maxk_lab.estimators.methods import off_policy, on_policy
from maxk_lab.estimators.rows import BaselineRow, EstimatorRow, MethodRow, rows_of, spell
from maxk_lab.installed import is_function_path

ESTIMATORS: Catalogue[EstimatorRow] = Catalogue(
    "estimator", rows_of(EstimatorRow, on_policy, off_policy), "maxk_lab.estimators"
)
BASELINES: Catalogue[BaselineRow] = Catalogue(
    "baseline", rows_of(BaselineRow, leave_one_out, weighted_means), "maxk_lab.baselines"
)

MethodType = TypeVar("MethodType", bound=MethodRow)
_SPELLING = re.compile(r"(?P<name>[^\[\]]+)(?:\[(?P<value>[^\[\]]*)\])?")


@dataclass(frozen=True)
class Choice(Generic[MethodType]):
    """A row with its parameter bound; `name` is its one spelling, such as `affine[0.5]`."""

    row: MethodType
    name: str
    params: Mapping[str, Any] = field(default_factory=dict)


def choose_baseline(spelling: str | Callable[..., Any]) -> Choice[BaselineRow]:
    """The baseline that `name` or `name[value]` means, or `module:name`, or a function itself.

    Raises `LabError` with what is allowed.
    """
    if callable(spelling):
        row = row_of_function(BaselineRow, spelling)
        return Choice(row, row.name)
    return _choose(BASELINES, spelling)


def choose_estimator(spelling: str) -> Choice[EstimatorRow]:
    """The estimator that `name` or `name[value]` means. Raises `LabError` with what is allowed.

    Of a baseline it says with which estimator it makes a pair.
    """
    try:
        return _choose(ESTIMATORS, spelling)
    except LabError as error:
        try:
            row = choose_baseline(spelling).row
        except LabError:
            raise error from None
        estimator, name = "reinforce" if row.objective == "J_1" else "maxk", spelling.strip()
        raise LabError(
            f"unknown estimator {shown(spelling)}: {name} is a baseline; take estimator "
            f"{estimator} with baseline {name}"
        ) from None


def _choose(catalogue: Catalogue[MethodType], spelling: str) -> Choice[MethodType]:
    if not isinstance(spelling, str):
        raise LabError(f"{catalogue.kind} must be a name or name[value], got {shown(spelling)}")
    return cast("Choice[MethodType]", _chosen(catalogue, spelling))


# A plan asks for the same few names once per grid point.
@lru_cache(maxsize=512)
def _chosen(catalogue: Catalogue[Any], spelling: str) -> Choice[Any]:
    match = _SPELLING.fullmatch(spelling.strip())
    if match is None:
        raise LabError(f"{catalogue.kind} must be a name or name[value], got {shown(spelling)}")
    name = match["name"].strip()
    kind: Any = EstimatorRow if catalogue is ESTIMATORS else BaselineRow
    row = row_in_place(kind, name) if is_function_path(name) else catalogue.get(name)
    if row.parameter is None:
        if match["value"] is not None:
            raise LabError(f"{catalogue.kind} {row.name} takes no parameter, got {shown(spelling)}")
        return Choice(row, row.name)
    written = row.parameter.default if match["value"] is None else match["value"].strip()
    value = row.parameter.parse(written)
    if value == 0 and isinstance(value, float):
        value = 0.0  # not -0.0, which would be a second spelling
    return Choice(row, f"{row.name}[{spell(value)}]", {row.parameter.name: value})
