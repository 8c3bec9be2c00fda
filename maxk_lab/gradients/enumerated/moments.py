"""Mean and trace variance of an estimator over every group of n, enumerated: no sampling.

A group's weights depend on its rewards, trajectory weights and importance ratios only, and treat
equal arguments alike. So trajectories that share all of them form a class, and a sum over all A^n
groups becomes one over the multisets of n classes, with multinomial probabilities. Where weights
depend on the order of drawing, too, it is one over all ordered groups of n classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from maxk_lab.gradients.enumerated.multisets import multisets, ordered_groups

# More groups than this are not enumerated, nor more members of all of them together.
MULTISETS = 400_000
MEMBERS = 2**25
# Elements of the largest tensor held at a time, and the groups handled together whatever their
# size. Tensors of 2 MB stay in the cache and in the process; larger ones are asked of the system
# and given back every time, which took a third of an enumeration.
CHUNK_ELEMENTS = 2**18
LEAST_CHUNK = 64

# rewards [S, n], trajectory weights g [S, n] (or None), importance ratios [S, n] (or None) →
# weights w [S, n].
Weigh = Callable[[Tensor, Tensor | None, Tensor | None], Tensor]
# weights a, b [S, n] → E⟨Σ a_i ψ_i, Σ b_i ψ_i⟩ [S] of groups whose classes are known.
Form = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Outcomes:
    """The trajectories of one instance: probabilities, rewards, g (or None), gram [A, A]; float64.

    All but gram are [A]. probabilities and gram are those of the policy π. Where another policy
    draws the trajectories: `behaviour` [A] are its probabilities and `ratios` [A] those of π over
    them; else both are None.
    """

    probabilities: Tensor
    rewards: Tensor
    g: Tensor | None
    gram: Tensor
    ratios: Tensor | None = None
    behaviour: Tensor | None = None

    @classmethod
    def of(
        cls,
        probabilities: Tensor,
        rewards: Tensor,
        g: Tensor | None,
        gram: Tensor,
        ratios: Tensor | None = None,
        behaviour: Tensor | None = None,
    ) -> Outcomes:
        """Return the outcomes that can be drawn; probabilities are made to sum to one exactly."""
        (kept,) = (probabilities if behaviour is None else behaviour).nonzero(as_tuple=True)
        p = probabilities[kept]
        b = None if behaviour is None else behaviour[kept]
        return cls(
            p / p.sum(),
            rewards[kept],
            None if g is None else g[kept],
            gram[kept][:, kept],
            None if ratios is None else ratios[kept],
            None if b is None else b / b.sum(),
        )

    @property
    def drawn(self) -> Tensor:
        """The probabilities [A] with which trajectories are drawn."""
        return self.probabilities if self.behaviour is None else self.behaviour

    def classes(self) -> tuple[Tensor, Tensor]:
        """Return the classes that no weight can tell apart, and the class of each trajectory [A].

        A class is its (reward, g, ratio), as far as there are such: [C, 1 to 3].
        """
        return self._classes

    @cached_property
    def _classes(self) -> tuple[Tensor, Tensor]:
        columns = [column for column in (self.rewards, self.g, self.ratios) if column is not None]
        kinds, label = torch.unique(torch.stack(columns, 1), dim=0, return_inverse=True)
        return kinds, label

    @cached_property
    def table(self) -> Classes:
        """The table of the classes that enumeration reads."""
        return Classes.of(self)

    def multisets(self, n: int) -> int:
        """The number of multisets of n classes."""
        return math.comb(len(self.classes()[0]) + n - 1, n)

    def enumerable(self, n: int, *, ordered: bool = False) -> bool:
        """Whether the groups of n (all ordered ones if `ordered`) are few enough to enumerate."""
        count = len(self.classes()[0]) ** n if ordered else self.multisets(n)
        return count <= MULTISETS and count * n <= MEMBERS

    def centred(self, coefficients: Tensor) -> Tensor:
        """The coefficients c [..., A] of Σ_a c_a ψ_a that sum to zero.

        Σ_a p_a ψ_a = 0, so c may be moved along p: a constant added to all rewards then leaves no
        rounding behind.
        """
        return coefficients - coefficients.sum(-1, keepdim=True) * self.probabilities

    def inner(self, a: Tensor, b: Tensor) -> float:
        """⟨Σ_a a_a ψ_a, Σ_a b_a ψ_a⟩ of coefficients [A]."""
        return float(a @ self.gram @ b)


@dataclass(frozen=True)
class Classes:
    """The C classes of an instance's trajectories.

    rewards, g, ratios [C] (the latter two or None); mass [C], the probability of each to be drawn;
    label [A], the class of each trajectory, and within [A], its probability inside it; products [C,
    C], ⟨μ_c, μ_d⟩ of the mean scores; spread [C], E‖ψ − μ_c‖² inside the class.
    """

    rewards: Tensor
    g: Tensor | None
    ratios: Tensor | None
    mass: Tensor
    label: Tensor
    within: Tensor
    products: Tensor
    spread: Tensor

    @classmethod
    def of(cls, outcomes: Outcomes) -> Classes:
        """The classes of `outcomes`."""
        kinds, label = outcomes.classes()
        mass = torch.zeros(len(kinds), dtype=torch.float64).index_add_(0, label, outcomes.drawn)
        within = outcomes.drawn / mass[label]
        share = torch.zeros(len(kinds), len(label), dtype=torch.float64)
        share[label, torch.arange(len(label))] = within
        products = share @ outcomes.gram @ share.T
        spread = share @ outcomes.gram.diagonal() - products.diagonal()
        columns = iter(kinds.unbind(1))
        rewards = next(columns)
        g = None if outcomes.g is None else next(columns)
        ratios = None if outcomes.ratios is None else next(columns)
        return cls(rewards, g, ratios, mass, label, within, products, spread)

    def __len__(self) -> int:
        return len(self.mass)

    def groups(self, n: int, *, ordered: bool = False) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield (classes [S, n], probability [S]) of chunks of all groups of n.

        Groups are multisets, or all ordered ones if `ordered`.
        """
        members, log_count = ordered_groups(len(self), n) if ordered else multisets(len(self), n)
        size = max(LEAST_CHUNK, CHUNK_ELEMENTS // n**2)
        for i in range(0, len(members), size):
            rows, count = members[i : i + size], log_count[i : i + size]
            chance = (count + self.mass.log()[rows].sum(1)).exp()
            possible = chance > 0  # beyond what floats can tell from zero, not worth the time
            yield (rows, chance) if possible.all() else (rows[possible], chance[possible])

    def arguments(self, rows: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return the arguments of `Weigh` for groups of classes [S, n]."""
        g = None if self.g is None else self.g[rows]
        return self.rewards[rows], g, None if self.ratios is None else self.ratios[rows]

    def by_class(self, rows: Tensor, weights: Tensor) -> Tensor:
        """The sum of the weights [S, n] of the members of each class: [S, C]."""
        return weights.new_zeros(len(weights), len(self)).scatter_add_(1, rows, weights)

    def centred(self, coefficients: Tensor) -> Tensor:
        """Return `Outcomes.centred` of the coefficients c [..., C] of Σ_c c_c μ_c."""
        # E ψ is zero under π; a class has one ratio.
        null = self.mass if self.ratios is None else self.mass * self.ratios
        return coefficients - coefficients.sum(-1, keepdim=True) * (null / null.sum())

    def forms(self, rows: Tensor) -> Form:
        """a, b [S, n] → E⟨Σ a_i ψ_i, Σ b_i ψ_i⟩ [S] of each group, given its classes `rows` [S, n].

        Given their classes the scores are independent: Σ_ij a_i b_j ⟨μ_i, μ_j⟩ + Σ_i a_i b_i E‖ψ_i
        − μ_i‖².
        """
        spread = self.spread[rows]
        few = rows.shape[1] <= len(self)
        pairs = self.products[rows.unsqueeze(2), rows.unsqueeze(1)] if few else None

        def form(a: Tensor, b: Tensor) -> Tensor:
            if pairs is not None:
                means = ((pairs @ a.unsqueeze(2)).squeeze(2) * b).sum(1)
            else:
                sums = self.by_class(rows, a)
                means = ((sums @ self.products) * (sums if b is a else self.by_class(rows, b))).sum(
                    1
                )
            return means + ((a * b) * spread).sum(1)

        return form


@dataclass(frozen=True)
class CompleteMoments:
    """E‖ĝ‖² (`second`) and the coefficients c [A] with E ĝ = Σ_a c_a ψ_a."""

    second: float
    coefficients: Tensor


class MomentSums:
    """The moments of ĝ = Σ_i w_i ψ_i, summed up over groups."""

    def __init__(self, classes: Classes) -> None:
        self._classes = classes
        self._totals, self._second = torch.zeros_like(classes.mass), 0.0

    def add(self, rows: Tensor, chance: Tensor, weights: Tensor, form: Form) -> None:
        """Add groups of classes [S, n] of probability [S] with their weights [S, n] and `forms`."""
        self._totals.index_add_(0, rows.flatten(), (chance.unsqueeze(1) * weights).flatten())
        self._second += float(chance @ form(weights, weights))

    def moments(self) -> CompleteMoments:
        """Return the moments. All groups must have been added first."""
        return CompleteMoments(
            self._second, self._totals[self._classes.label] * self._classes.within
        )


def complete_moments(
    outcomes: Outcomes, n: int, weigh: Weigh, *, ordered: bool = False
) -> CompleteMoments:
    """Return the first two moments of ĝ = Σ_i w_i ψ_i over groups of n i.i.d. trajectories.

    `ordered`: the weights depend on the order of drawing, too.
    """
    classes = outcomes.table
    sums = MomentSums(classes)
    for rows, chance in classes.groups(n, ordered=ordered):
        sums.add(rows, chance, weigh(*classes.arguments(rows)).double(), classes.forms(rows))
    return sums.moments()
