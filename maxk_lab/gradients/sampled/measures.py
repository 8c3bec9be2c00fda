"""The measures of a gradient estimator, as quadratic forms of its score weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective
from maxk_lab.gradients.enumerated.measures import Enumeration
from maxk_lab.gradients.fitting import SampledFits
from maxk_lab.gradients.sampled.blocks import (
    KEPT,
    Blocks,
    error_of_blocks,
    mean_of_blocks,
    together,
    trusted_by,
)
from maxk_lab.gradients.sampled.forms import grouped_forms
from maxk_lab.gradients.sampled.per_block import measures_by_block, values_of
from maxk_lab.gradients.sampled.stand_in import StandIn
from maxk_lab.gradients.sampled.testable import pool_to_test
from maxk_lab.gradients.scores.pool import ScorePool
from maxk_lab.gradients.scores.proxies import proxy_correlations
from maxk_lab.seeds import derive_seed
from maxk_lab.statistics.design import GROUPS_TO_SEE
from maxk_lab.statistics.deviations import plain
from maxk_lab.statistics.points import point_estimates
from maxk_lab.statistics.units import FIELDS, Array, Units

# Blocks of an instance: their spread tells how well these very instances are measured.
MOST_BLOCKS = 32
# With fewer groups than this every group is a block; else a block has at least two, so that several
# partitions differ, and there are as many blocks as it takes to know what a test could see.
FEW_GROUPS = 2 * GROUPS_TO_SEE


@dataclass(frozen=True)
class Layout:
    """The pool of every instance cut for one n into equal, disjoint blocks, each into groups of n.

    order [S, I, B, g, n]: for each of S random partitions, positions in the pool of the members of
    each group. Blocks share no trajectory under any partition, so they are independent.
    """

    order: Tensor

    @property
    def replicates(self) -> int:
        """The groups of an instance under one partition."""
        return int(self.order.shape[2] * self.order.shape[3])


def pool_layout(pool: ScorePool, n: int, partitions: int, seed: int) -> Layout:
    """Return random disjoint groups of n. Raises `ValueError` where there are fewer than two.

    The pool is i.i.d., so its blocks are cut in drawing order; only the grouping inside a block is
    random.
    """
    instances, size = pool.rewards.shape
    blocks, each = blocks_of(size // n, partitions)
    if blocks < 2:
        raise ValueError(f"a pool of {size} holds {blocks} group of n = {n}; at least 2 are needed")
    block_size = size // blocks
    generator = torch.Generator().manual_seed(derive_seed("partitions", seed, n))
    order = torch.stack(
        [
            torch.stack(
                [
                    torch.randperm(block_size, generator=generator)[: each * n] + b * block_size
                    for b in range(blocks)
                ]
            )
            for _ in range(partitions * instances)
        ]
    ).view(partitions, instances, blocks, each, n)
    return Layout(order)


def blocks_of(groups: int, partitions: int) -> tuple[int, int]:
    """Into how many blocks of how many groups each so many groups are cut.

    A record can average any of the numbers of blocks, and the one that leaves the fewest groups
    over is taken: the largest such, but none below half of the most or that a record keeps.
    """
    least = 1 if partitions == 1 or groups < FEW_GROUPS else 2
    possible = [
        blocks
        for blocks in range(2, MOST_BLOCKS + 1)
        if blocks % together(blocks) == 0 and groups // blocks >= least
    ]
    if not possible:
        return groups, 1
    most = possible[-1]
    enough = (blocks for blocks in possible if blocks >= max(min(most, KEPT), most / 2))
    blocks = max(enough, key=lambda blocks: (blocks * (groups // blocks), blocks))
    return blocks, groups // blocks


def measure_cells(
    pool: ScorePool, cells: Sequence[Mapping[str, Any]], *, seed: int
) -> Iterator[tuple[str, dict[str, Any] | Exception]]:
    """Yield (id, metrics) of every cell, or (id, exception) of one that failed.

    All cells of one n share groups and gathered products.
    """
    proxies = proxy_correlations(pool)

    @lru_cache(maxsize=1)
    def cut(n: int, partitions: int) -> CutPool:
        return CutPool(pool, n, partitions, seed)

    enumeration = Enumeration(pool, lambda n, partitions: cut(n, partitions).fits)
    for cell in sorted(cells, key=lambda cell: int(cell["n"])):
        try:
            metrics = enumeration.measure(cell) if cell.get("complete") else None
            if metrics is None:
                metrics = cut(cell["n"], cell["partitions"]).measure(cell)
            yield cell["id"], metrics | {"proxies": proxies}
        except Exception as error:
            yield cell["id"], error


@dataclass(frozen=True)
class _Checks:
    """The evidence on which instances the estimators of one gradient may be tested for a bias.

    Where trajectories are listed that is the size of the pool, `needed` [I]; elsewhere the blocks
    of the unbiased controls, and the second moment of the estimate without a baseline, `plain` [I].
    """

    trusted: NDArray[np.bool_] | None
    needed: Array | None
    controls: Sequence[Blocks]
    plain: Array | None

    def tested_from(self, blocks: Blocks) -> Array:
        """The pool from which on each instance is tested [I].

        Where trajectories are not listed, 0 where these blocks are enough and NaN where not.
        """
        if self.needed is not None:
            return self.needed
        tested = np.all([one.carried() for one in (blocks, *self.controls)], axis=0)
        if self.plain is not None:
            tested &= blocks.above_rounding_of(self.plain)
        return np.where(tested, 0.0, np.nan)


class CutPool:
    """A pool cut into blocks of groups of n; what its cells share is worked out once."""

    def __init__(self, pool: ScorePool, n: int, partitions: int, seed: int) -> None:
        self._pool, self._layout = pool, pool_layout(pool, n, partitions, seed)
        self._forms = [grouped_forms(pool, order) for order in self._layout.order]
        self._n = n
        self._checks = cache(self._checks_of)
        self._totals_of_stand_in = cache(self._totals_against)
        self.fits = SampledFits(self._forms)

    def measure(self, cell: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metrics of a cell of this n."""
        pool, forms = self._pool, self._forms
        method = Method.of(cell)
        wanted = method.objective
        position = pool.objectives.index(wanted.name) if pool.exact else None
        coefficients = self.fits.coefficients(cell["estimator"], cell["baseline"], cell["k"])
        weights = [
            form.weights(cell["estimator"], cell["baseline"], cell["k"], fitted)
            for form, fitted in zip(forms, coefficients, strict=True)
        ]
        blocks = self._blocks(weights, wanted)
        checks = self._checks(wanted)
        tested_from = checks.tested_from(blocks)
        tested = tested_from <= pool.rewards.shape[1]
        by_ratios = pool.off_policy and method.needs_ratios
        values = [values_of(form, wanted, by_ratios=by_ratios) for form in forms]
        measured = measures_by_block(pool, forms, weights, values, position)
        units = Units(
            stratum=np.zeros(len(pool.rewards), dtype=np.int64),
            **dict(zip(FIELDS, blocks.columns(), strict=True)),
            within=blocks.within(),
            deviations=blocks.deviations(checks.trusted, tested),
            measures={name: mean_of_blocks(column) for name, column in measured.items()},
            errors={name: error_of_blocks(column) for name, column in measured.items()},
            groups=len(pool.rewards) * self._layout.replicates,
        )
        stand_in = self._stand_in(wanted)
        undefined: dict[str, str] = {}
        metrics: dict[str, Any] = {
            "against": "exact" if stand_in is None else f"reference:{stand_in.name}",
            "is_reference": stand_in is not None
            and (cell["estimator"], cell["baseline"]) == (stand_in.estimator, stand_in.baseline),
            "replicates": self._layout.replicates,
            "tested_from": plain(tested_from),
            "value": float(torch.stack([value.mean() for value in values]).mean())
            if position is None
            else float(pool.value[:, position].mean()),
            "undefined": undefined,
        }
        if coefficients[0] is not None:
            by_instance = [fitted.mean((1, 2)) for fitted in coefficients if fitted is not None]
            metrics["coefficients"] = torch.stack(by_instance).mean(0).tolist()
        return metrics | units.as_record() | point_estimates(units, undefined)

    def _stand_in(self, wanted: Objective) -> StandIn | None:
        """The estimator that is judged against, None where the exact gradient is known."""
        if self._pool.exact:
            return None
        return StandIn.of(wanted, self._n, off_policy=self._pool.off_policy)

    def _checks_of(self, wanted: Objective) -> _Checks:
        """The evidence of the estimators that are unbiased by proof, on its instances."""
        found = StandIn.controls(wanted, self._n, off_policy=self._pool.off_policy)
        judge = self._stand_in(wanted)
        controls = [
            self._blocks(self._weights(one, wanted), wanted) for one in found if one != judge
        ]
        trusted = trusted_by(controls)
        if self._pool.listed:
            return _Checks(trusted, pool_to_test(self._pool, wanted), (), None)
        if not found:
            return _Checks(trusted, None, (), None)
        without = self._weights(StandIn(found[0].estimator, "none"), wanted)
        second_moment = self._blocks(without, wanted).columns()[0]
        return _Checks(trusted, None, controls, second_moment)

    def _weights(self, stand_in: StandIn, wanted: Objective) -> list[Tensor]:
        return [
            form.weights(stand_in.estimator, stand_in.baseline, wanted.k) for form in self._forms
        ]

    def _blocks(self, weights: Sequence[Tensor], wanted: Objective) -> Blocks:
        """The estimates of every block, means over the partitions."""
        parts = list(zip(self._forms, weights, strict=True))
        m2 = _mean([form.within(w, w) / form.replicates for form, w in parts])
        totals = [form.totals(w) for form, w in parts]
        total, form = _mean(totals), self._forms[0]
        square = form.across(total, total)
        if self._pool.exact:
            position = self._pool.objectives.index(wanted.name)
            toward = [
                form.toward(w, own, position) for (form, w), own in zip(parts, totals, strict=True)
            ]
            cross = _mean(toward).unsqueeze(2).expand_as(square)
            other = self._pool.norm[:, position].view(-1, 1, 1).expand_as(square)
        else:
            against, other = self._totals_of_stand_in(wanted)
            cross = form.across(total, against)
        arrays = [part.double().numpy() for part in (m2, square, cross, other)]
        return Blocks(*arrays, exact=self._pool.exact)

    def _totals_against(self, wanted: Objective) -> tuple[Tensor, Tensor]:
        """The totals of the estimator that is judged against, and their products."""
        stand_in = self._stand_in(wanted)
        assert stand_in is not None
        weights = self._weights(stand_in, wanted)
        total = _mean([form.totals(w) for form, w in zip(self._forms, weights, strict=True)])
        return total, self._forms[0].across(total, total)


def _mean(parts: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(parts)).mean(0)
