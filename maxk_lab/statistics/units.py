"""The instances of a cell with their estimates and the errors of the estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from maxk_lab.fields import Count, Numbers, Recorded, Size, Sizes, check_lengths
from maxk_lab.statistics.deviations import (
    Deviation,
    Deviations,
    RecordedDeviations,
    as_numbers,
    instances_to_test,
    rounded,
)
from maxk_lab.statistics.estimates import Array as Array
from maxk_lab.statistics.estimates import Sample, Stratum

FIELDS = ("m2", "mean_square", "inner", "truth")
# The columns that depend on the probabilities of groups.
BY_GROUPS = ("carrying", "rare", "rare_alone")
# Groups with a lower expected count are absent from more than 5 % of pools: exp(−3).
LEAST_DRAWN = 3.0
# A variance below this share of E‖ĝ‖² is rounding error.
ROUNDING = 1e-12
# Two formulas of one estimator differ by at most this share.
EQUAL = 1e-9


class _Columns(Recorded):
    m2: Numbers
    mean_square: Numbers
    inner: Numbers
    truth: Numbers


class _Bias(Recorded):
    squared: list[Size]
    off_direction: list[Size]


class RecordedUnits(Recorded):
    """The units in a record, each with `replicates` groups of n; 0 if all groups are listed."""

    units: _Columns
    replicates: Count
    within: dict[str, list[Numbers]] = Field(default_factory=dict)
    deviations: RecordedDeviations | None = None
    carrying: Sizes | None = None
    rare: Sizes | None = None
    rare_alone: Sizes | None = None
    # mean_{j ≠ i} ⟨E ĝ_i, E ĝ_j⟩ of each instance i, unbiased; absent in old records.
    cross_products: Numbers | None = None
    measures: dict[str, Numbers] = Field(default_factory=dict)
    errors: dict[str, Sizes] = Field(default_factory=dict)
    # Present if every group was enumerated.
    bias: _Bias | None = None
    tolerance: Size | None = None

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        count = len(self.units.m2)
        columns = {name: getattr(self.units, name) for name in FIELDS}
        within = {f"within.{name}": blocks for name, blocks in self.within.items()}
        bias = {} if self.bias is None else vars(self.bias)
        by_name = {name: getattr(self, name) for name in (*BY_GROUPS, "cross_products")}
        groups = {name: column for name, column in by_name.items() if column is not None}
        for parts in (columns, groups, self.measures, self.errors, within, bias):
            check_lengths(count, parts)
        if len({len(blocks) for column in self.within.values() for blocks in column}) > 1:
            raise ValueError("within has units of different numbers of blocks")
        if self.deviations is not None:
            self.deviations.check_count(count)
        if (self.bias is None) != (self.tolerance is None):
            raise ValueError("bias and tolerance are there together or not at all")
        return self


@dataclass(frozen=True)
class Units:
    """Unbiased estimates of every unit, all [U]: the moments of ĝ, and further measures.

    A unit is one problem instance. A stratum has the instances of one seed, which is one frozen
    policy. The moments are E‖ĝ‖² (`m2`), ‖E ĝ‖² (`mean_square`), ⟨E ĝ, ∇J⟩ (`inner`) and ‖∇J‖²
    (`truth`). `measures` are NaN on units where they are undefined; `errors` are their standard
    errors on each unit. `cross_products` are mean_{j ≠ i} ⟨E ĝ_i, E ĝ_j⟩ over the other instances j
    of unit i's stratum, or NaN if they were not measured. `between_instances` computes a variance
    from them.

    If groups were drawn, `within` [4, U, B] has the distances of B independent blocks from their
    unit in each moment. `deviations` are the input of the verdict on bias, and `groups` is the
    total number of independent groups of n. `carrying` is the number of draws expected to carry
    the estimate. `rare` is the part of E‖ĝ‖² from groups too rare for all pools together;
    `rare_alone` is the part from groups too rare for the pool of the instance.

    If every group was enumerated, the moments are exact. Then ‖E ĝ − ∇J‖²
    (`squared_bias`) and its minimum over multiples of ∇J (`off_direction`), both [U], are exact,
    too, and a relative bias up to `tolerance` is rounding error. Attributes that do not apply are
    None.
    """

    stratum: Stratum
    m2: Array
    mean_square: Array
    inner: Array
    truth: Array
    within: Array | None = None
    deviations: Deviations | None = None
    carrying: Array | None = None
    rare: Array | None = None
    rare_alone: Array | None = None
    squared_bias: Array | None = None
    off_direction: Array | None = None
    tolerance: float | None = None
    measures: Mapping[str, Array] = field(default_factory=dict)
    errors: Mapping[str, Array] = field(default_factory=dict)
    groups: int | None = None
    cross_products: Array | None = None

    @classmethod
    def from_metrics(cls, metrics: Mapping[str, Any]) -> Units:
        """Return the units in the metrics of a finished cell."""
        return cls.of(RecordedUnits.model_validate(metrics))

    @classmethod
    def of(cls, recorded: RecordedUnits) -> Units:
        """Return the units of a record."""
        count, bias, cross = len(recorded.units.m2), recorded.bias, recorded.cross_products
        units = cls(
            np.zeros(count, dtype=np.int64),
            m2=_array(recorded.units.m2),
            mean_square=_array(recorded.units.mean_square),
            inner=_array(recorded.units.inner),
            truth=_array(recorded.units.truth),
            measures={name: _array(values) for name, values in recorded.measures.items()},
            errors={name: _array(values) for name, values in recorded.errors.items()},
            cross_products=_array([None] * count if cross is None else cross),
        )
        if bias is not None:
            return replace(
                units,
                squared_bias=_array(bias.squared),
                off_direction=_array(bias.off_direction),
                tolerance=recorded.tolerance,
            )
        drawn, deviations = set(recorded.within) == set(FIELDS), recorded.deviations
        return replace(
            units,
            groups=count * recorded.replicates,
            deviations=None if deviations is None else Deviations.from_record(deviations),
            within=np.stack([_array(recorded.within[name]) for name in FIELDS]) if drawn else None,
            carrying=_optional(recorded.carrying),
            rare=_optional(recorded.rare),
            rare_alone=_optional(recorded.rare_alone),
        )

    def as_record(self) -> dict[str, Any]:
        """Return the units as a record holds them, without `replicates`; undefined is None."""
        record: dict[str, Any] = {
            "units": {name: as_numbers(getattr(self, name)) for name in FIELDS},
            "measures": {name: as_numbers(values) for name, values in self.measures.items()},
        }
        if self.cross_products is not None:
            record["cross_products"] = as_numbers(self.cross_products)
        if self.squared_bias is not None and self.off_direction is not None:
            bias = {"squared": self.squared_bias, "off_direction": self.off_direction}
            record["bias"] = {name: values.tolist() for name, values in bias.items()}
            return record | {"tolerance": self.tolerance}
        record["errors"] = {
            name: as_numbers(rounded(errors)) for name, errors in self.errors.items()
        }
        if self.within is not None:
            record["within"] = {
                name: [as_numbers(blocks) for blocks in column]
                for name, column in zip(FIELDS, map(rounded, self.within), strict=True)
            }
        if self.deviations is not None:
            record["deviations"] = self.deviations.as_record()
        for name in BY_GROUPS:
            if (column := getattr(self, name)) is not None:
                record[name] = as_numbers(rounded(column))
        return record

    @staticmethod
    def pool(parts: Sequence[Units]) -> Units:
        """Return the units of several seeds together; strata of different parts stay separate.

        The result is enumerated if all parts are; it has a measure if all parts have it.
        """
        exact = all(units.tolerance is not None for units in parts)
        if not exact:
            counts = [units.within.shape[2] for units in parts if units.within is not None]
            most = max(counts, default=2)
            parts = [units if units.tolerance is None else units.as_drawn(most) for units in parts]
        offsets = np.cumsum([0, *(int(units.stratum.max()) + 1 for units in parts)])
        columns = np.concatenate([units.columns() for units in parts], axis=1)
        pooled = Units(
            np.concatenate([units.stratum + of for units, of in zip(parts, offsets, strict=False)]),
            **dict(zip(FIELDS, columns, strict=True)),
            measures=_together([units.measures for units in parts]),
            errors=_together([units.errors for units in parts]),
            cross_products=np.concatenate([units.known_cross_products for units in parts]),
        )
        if exact:
            return replace(
                pooled,
                squared_bias=np.concatenate([units.squared_bias for units in parts]),
                off_direction=np.concatenate([units.off_direction for units in parts]),
                tolerance=max(units.tolerance for units in parts if units.tolerance is not None),
            )
        drawn = [units.groups for units in parts if units.groups is not None]
        within = [units.within for units in parts if units.within is not None]
        deviations = [units.deviations for units in parts if units.deviations is not None]
        alike = len({blocks.shape[2] for blocks in within}) == 1
        return replace(
            pooled,
            groups=sum(drawn) if len(drawn) == len(parts) else None,
            within=np.concatenate(within, 1) if len(within) == len(parts) and alike else None,
            deviations=Deviations.pool(deviations) if len(deviations) == len(parts) else None,
            carrying=_joined([units.carrying for units in parts]),
            rare=_joined([units.rare for units in parts]),
            rare_alone=_joined([units.rare_alone for units in parts]),
        )

    def as_drawn(self, blocks: int) -> Units:
        """Enumerated units in the form of drawn units with errors 0, so that both can be pooled."""
        assert self.squared_bias is not None
        assert self.off_direction is not None
        total = self.truth.sum()
        # ‖E ĝ − scale ∇J‖² with one scale for all units: the minimum, at the unit's own scale `s`,
        # plus (s − scale)² ‖∇J‖².
        scale = self.inner.sum() / total if total > 0 else 1.0
        s = np.divide(self.inner, self.truth, out=np.zeros_like(self.inner), where=self.truth > 0)
        return replace(
            self,
            within=np.zeros((len(FIELDS), len(self.m2), blocks)),
            deviations=Deviations(
                along=Deviation.exact(self.inner - self.truth),
                anywhere=Deviation.exact(self.squared_bias),
                beside=Deviation.exact(self.off_direction + (s - scale) ** 2 * self.truth),
            ),
            carrying=np.full(len(self.m2), np.inf),
            rare=np.zeros(len(self.m2)),
            rare_alone=np.zeros(len(self.m2)),
            errors={name: np.zeros(len(values)) for name, values in self.measures.items()},
        )

    @property
    def tested(self) -> NDArray[np.bool_]:
        """The mask [U] of the instances that are tested for a bias; all without `carrying`."""
        if self.carrying is None:
            return np.ones(len(self.m2), dtype=bool)
        # An exact ∇J does not depend on the draw; an estimated ∇J is as noisy as ĝ.
        exact = self.within is not None and not self.within[FIELDS.index("truth")].any()
        return instances_to_test(self.truth if exact else self.m2, self.carrying)

    def columns(self) -> Array:
        """Return the moments [4, U] in the order of `FIELDS`."""
        return np.stack([self.m2, self.mean_square, self.inner, self.truth])

    @cached_property
    def sample(self) -> Sample:
        """Return the moments with their errors; an undefined moment is 0.

        An unknown error is NaN; the errors are 0 if every group was enumerated.
        """
        unknown = np.nan if self.tolerance is None else 0.0
        nothing = np.full((len(FIELDS), len(self.m2), 2), unknown)
        by_block = nothing if self.within is None else self.within
        return Sample(np.nan_to_num(self.columns()), by_block, self.stratum)

    def defined(self, *names: str) -> tuple[Array, Stratum]:
        """Return measures [F, U] on the units that have all of them, and the strata of these units.

        Both are empty if a stratum lacks such units.
        """
        return defined(np.stack([self.measures[name] for name in names]), self.stratum)

    @property
    def known_cross_products(self) -> Array:
        """The `cross_products` [U], NaN for units without, or with fewer than three a stratum."""
        crosses = np.nan if self.cross_products is None else self.cross_products
        return np.where(np.bincount(self.stratum)[self.stratum] < 3, np.nan, crosses)

    def between_instances(self) -> tuple[Array, Array]:
        """Return pseudo-values [U] of ‖mean E ĝ‖² and of V_between = tr Cov_i E ĝ_i.

        Their means over the units of a stratum are unbiased for new instances:
            ‖mean E ĝ‖² = mean_{i ≠ j} ⟨E ĝ_i, E ĝ_j⟩,   V_between = mean_i ‖E ĝ_i‖² − ‖mean E ĝ‖².

        A step of B rollouts has B/n groups, each of another instance. So the variance of its
        gradient is (n/B) (V_n + V_between), with V_n = m2 − mean_square of one group. The
        pseudo-values of the jackknife are mean c + 2 (U − 1)/(U − 2) (c_i − mean c), with c the
        `cross_products` of the U units of a stratum. Their spread gives an interval about new
        instances. An interval about fixed instances is not recorded. All units of a stratum are
        NaN if one unit has no cross product.
        """
        crosses = self.known_cross_products
        squares = np.empty_like(crosses)
        for stratum in np.unique(self.stratum):
            members = self.stratum == stratum
            number, mean = members.sum(), crosses[members].mean()
            factor = 2 * (number - 1) / max(1, number - 2)
            squares[members] = mean + factor * (crosses[members] - mean)
        return squares, self.mean_square - squares

    @property
    def no_between(self) -> str:
        """The reason why a stratum has no V_between; empty if all strata have it."""
        if not np.isnan(self.known_cross_products).any():
            return ""
        return (
            "no products of the instances' gradients: an earlier record, fewer than 3 instances a "
            "seed, forced starts, a behaviour policy, or an estimate biased in direction"
        )

    def effective_instances(self) -> dict[str, float]:
        """The effective numbers of instances behind the mean variance and the gradient's norm.

        The gradient is ∇J or the reference; without a reference it is the mean estimate.
        """
        judged = not np.isnan(self.truth).any()
        of = {"variance": (1.0, -1.0, 0.0, 0.0), "gradient": (0.0, 1.0 - judged, 0.0, 1.0 * judged)}
        return {name: self.sample.effective_instances(np.array(row)) for name, row in of.items()}

    @cached_property
    def no_signal(self) -> str:
        """The reason why the drawn groups show no variance at all; empty if they do."""
        alike = np.abs(self.m2 - self.mean_square) <= ROUNDING * self.m2
        if self.tolerance is not None or not alike.all():
            return ""
        dead = self.measures.get("dead_gradient_rate", np.zeros(1))
        had = "had weight 0" if (dead == 1).all() else "gave the same estimate"
        return f"no signal: every group {had}"


def defined(values: Array, stratum: Stratum) -> tuple[Array, Stratum]:
    """The columns of values [F, U] without NaN, and their strata; none if a stratum is empty."""
    complete = np.flatnonzero(~np.isnan(values).any(0))
    if len(complete) < len(stratum) and len(np.unique(stratum[complete])) < len(np.unique(stratum)):
        complete = complete[:0]
    return values[:, complete], stratum[complete]


def _array(values: Any) -> Array:
    """Return the numbers of a record; None becomes NaN."""
    return np.asarray(values, dtype=float)


def _optional(values: Any) -> Array | None:
    return None if values is None else _array(values)


def _joined(columns: Sequence[Array | None]) -> Array | None:
    """Return all columns as one; None if a part has no column."""
    present = [column for column in columns if column is not None]
    return np.concatenate(present) if len(present) == len(columns) else None


def _together(parts: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    return {
        name: np.concatenate([units[name] for units in parts])
        for name in parts[0]
        if all(name in units for units in parts)
    }
