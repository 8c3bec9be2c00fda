"""The rows of estimators and baselines, their parameters, and the decorators that make them.

A row says what holds for its function, where it runs and who published it; what it takes, the
function's signature says. Imports no torch before weights are computed.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field

from maxk_lab.catalogue import MOST, Row, did_you_mean
from maxk_lab.errors import LabError, shown
from maxk_lab.settings import Setting

if TYPE_CHECKING:
    from torch import Tensor

    from maxk_lab.estimators.lines import Line
    from maxk_lab.estimators.objectives import Objective

# The positive numbers per trajectory that a baseline may weight by, and what each is.
TRAJECTORY_WEIGHTS = {
    "uniform": "1",
    "length": "the number of tokens or decisions",
    "logit_proxy": "the sum over t of 1 - 2 pi_t + sum_a pi_t(a)^2",
    "grad_norm": "the exact squared norm of grad log pi",
}
# The first words of `biased` where nothing is derived.
NOT_DERIVED = "not known"
PKPO = "Walder and Karkhanis 2025 (PKPO), arXiv 2505.15201"
RowType = TypeVar("RowType", bound="MethodRow")
# What the decorators take as `where`.
WHERE = "a function of n and K, such as lambda n, k: 1 <= k < n"


def up_to_n(n: int, k: int) -> bool:
    """1 <= K <= n"""
    return 1 <= k <= n


def below_n(n: int, k: int) -> bool:
    """1 <= K < n"""
    return 1 <= k < n


def two_up_to_n(n: int, k: int) -> bool:
    """2 <= K <= n"""
    return 2 <= k <= n


def two_samples_up_to_n(n: int, k: int) -> bool:
    """1 <= K <= n and n >= 2"""
    return 1 <= k <= n and n >= 2


def two_samples(n: int, k: int) -> bool:
    """n >= 2"""
    return n >= 2


@dataclass(frozen=True, kw_only=True, eq=False)
class MethodRow(Row):
    """The facts of estimators and baselines alike: objective, bias, and (n, K) allowed.

    `where(n, k)` is whether the row runs, and `constraint` says it in words, by default those of
    its docstring. A row is unbiased under `condition` unless `biased` says why it is not. Its
    methods take the parameter by its name; a parameter that is not passed has its default.
    """

    function: Callable[..., Any]
    formula: str = ""
    where: Callable[[int, int], bool] = up_to_n
    constraint: str = ""
    objective: str = "J_K"
    biased: str = ""
    condition: str = "the n samples are i.i.d."
    shift_invariant: bool = False
    parameter: Setting | None = None
    # Whether the row is defined for rewards 0 and 1 only.
    binary_rewards: bool = False
    # Of a biased row, where E[estimate] = scale(n, K) * gradient; None if its direction is biased.
    scale: Callable[[int, int], float] | None = None
    # The scale as it is written.
    factor: str = ""
    # Values of the parameter at which bias or its absence is not as the row says in general.
    exceptions: tuple[Any, ...] = ()
    # Further spellings, with other values of the parameter, that `maxk-lab check` runs.
    examples: tuple[str, ...] = ()
    # Why the row cannot run at (n, k, **params), beyond `where`.
    refuse: Callable[..., str | None] | None = None

    def __post_init__(self) -> None:
        # The dataclass is frozen to all others.
        if not callable(self.where):
            raise LabError(f"{self.name}: where must be {WHERE}, got {shown(self.where)}")
        vars(self)["constraint"] = self.constraint or inspect.getdoc(self.where) or ""
        vars(self)["condition"] = self.biased or self.condition

    @property
    def unbiased(self) -> bool:
        """Whether the row is unbiased under its condition, `exceptions` apart."""
        return not self.biased

    @property
    def derived(self) -> bool:
        """Whether the bias of the row, or its absence, is derived."""
        return not self.biased.startswith(NOT_DERIVED)

    @property
    def estimand(self) -> str:
        """Return the mean of the estimate, as a multiple of the gradient if that is derived."""
        several = " " in self.objective and not self.objective.startswith("Σ")
        mean = "E[Σ w ∇log π]"
        gradient = f"∇({self.objective})" if several else f"∇{self.objective}"
        if not self.derived:
            return f"{mean} is not derived"
        if self.unbiased:
            return f"{mean} = {gradient}"
        if self.scale is not None:
            return f"{mean} = ({self.factor}) {gradient}"
        exact = "".join(f"; at {spell(value)} it is {gradient}" for value in self.exceptions)
        return f"{mean} is no fixed multiple of {gradient}{exact}"

    @cached_property
    def takes(self) -> frozenset[str]:
        """The names of the function's arguments."""
        return frozenset(inspect.signature(self.function).parameters)

    def value(self, params: dict[str, Any]) -> Any:
        """The value of the parameter; None of a row without one."""
        parameter = self.parameter
        return None if parameter is None else params.get(parameter.name, parameter.default)

    def refusal(self, n: int, k: int, **params: Any) -> str | None:
        """Why this row cannot run with n samples and subsets of K, or None."""
        if not self.where(n, k):
            if not self.constraint:
                return f"{self.name} does not run at K = {k} and n = {n}"
            return f"{self.name} needs {self.constraint}, got K = {k} and n = {n}"
        return None if self.refuse is None else self.refuse(n, k, **params)

    def is_unbiased(self, **params: Any) -> bool:
        """Whether the row is unbiased at this value of its parameter."""
        return (self.value(params) in self.exceptions) is not self.unbiased

    def expected_scale(self, n: int, k: int, **params: Any) -> float:
        """The estimate's mean over the gradient; NaN if its direction is biased, too."""
        if self.is_unbiased(**params):
            return 1.0
        return math.nan if self.unbiased or self.scale is None else self.scale(n, k)


@dataclass(frozen=True, kw_only=True, eq=False)
class BaselineRow(MethodRow):
    """A baseline: what gives the weights w = s - b. See `baseline` for its functions."""

    # The kind of number per trajectory that it takes as `g`; a `kind` of its own names it, too.
    trajectory_weight: str | None = None
    # Whether the weights of a group use the groups of other prompts, along the first dimension.
    across_prompts: bool = False
    # Whether the baseline exists for the estimators with importance ratios.
    off_policy: bool = False
    # The words of the parameter for coefficients that are fitted, and how many these are at K:
    # one number, or a vector where `dimension` says its length.
    fits: tuple[str, ...] = ()
    dimension: Callable[[int], int] | None = None
    # b_i over the importance ratio, from what `brute_force` enumerates in exact fractions.
    level: Callable[..., Fraction] | None = None

    def __call__(self, *args: Any, **values: Any) -> Any:
        """Call the function that was decorated."""
        return self.function(*args, **values)

    @property
    def any_objective(self) -> bool:
        """Whether the baseline exists for every L-statistic, not for the maximum alone."""
        return "objective" in self.takes

    def needs(self, **params: Any) -> str | None:
        """The trajectory weight it needs: length, logit_proxy or grad_norm; None for none."""
        if "g" not in self.takes or self.trajectory_weight is not None:
            return self.trajectory_weight
        kind = self.value(params)
        return None if kind == "uniform" else kind

    def fit(self, **params: Any) -> str | None:
        """The fit of the coefficients: cross_fit or oracle; None without one."""
        value = "oracle" if self.parameter is None else self.value(params)
        return value if value in self.fits else None

    def weights(self, rewards: Tensor, k: int, **values: Any) -> Tensor:
        """The weights w `[..., n]` of checked rewards `[..., n]` at a K that the row takes.

        `values` are the parameter, g, fitted coefficients and `objective`, an L-statistic in place
        of the maximum, as far as the function takes them.
        """
        weights: Tensor
        if "rewards" in self.takes:  # else the function gives a Line
            weights = self.function(rewards, k, **values)
            return weights
        from maxk_lab.estimators.ranked import apply_line, apply_lines

        if "coefficients" not in values:
            return apply_line(self.function(rewards.shape[-1], k, **values), rewards)
        start, *directions = _family(self, rewards.shape[-1], k)
        fitted = values["coefficients"].split(1, -1)
        # What is the same for all samples is added to the line, before anything is rounded.
        level = sum(c * move.constant for c, move in zip(fitted, directions, strict=True))
        moves = [replace(move, constant=0.0) for move in directions]
        terms = apply_lines([start + level, *moves], rewards)
        weights = terms[..., 0] + (terms[..., 1:] * values["coefficients"].unsqueeze(-2)).sum(-1)
        return weights

    def terms(self, rewards: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The weights as start + directions @ coefficients: `[..., n]` and `[..., n, D]`, float64.

        As the line is linear in its parameter, the start is the line at 0 and each direction what
        a coefficient of 1 adds to it.
        """
        from maxk_lab.estimators.ranked import apply_lines

        terms = apply_lines(_family(self, rewards.shape[-1], k), rewards)
        return terms[..., 0], terms[..., 1:]

    def coefficients(self, n: int, k: int) -> int:
        """How many fitted coefficients the baseline has; as many as samples where b is fitted."""
        if "coefficients" in self.takes:
            return n
        return 1 if self.dimension is None else self.dimension(k)


@lru_cache(maxsize=64)
def _family(row: BaselineRow, n: int, k: int) -> list[Line]:
    """The line at coefficients of 0, and what each of them adds to it."""
    assert row.parameter is not None
    points: list[Any] = [0.0, 1.0]
    if row.dimension is not None:
        size = row.dimension(k)
        points = [tuple(float(i == j) for j in range(size)) for i in range(-1, size)]
    start, *ends = (row.function(n, k, **{row.parameter.name: point}) for point in points)
    return [start, *(end - start for end in ends)]


@dataclass(frozen=True, kw_only=True, eq=False)
class EstimatorRow(MethodRow):
    """An estimator: of an objective, or of weights of its own. See `estimator`."""

    condition: str = "the n samples are i.i.d. and the baseline is unbiased"
    # The K that counts, whatever is asked for.
    fixed_k: int | None = None
    # The objective at (n, K, **params) of weights that aim at another one than the maximum of K.
    aim: Callable[..., Objective] | None = None

    @property
    def has_objective(self) -> bool:
        """Whether the function gives the objective, and the baseline the weights."""
        return "rewards" not in self.takes

    @property
    def takes_baseline(self) -> bool:
        """Whether the estimator takes a baseline other than `none`."""
        return self.has_objective or bool(self.takes & {"baseline_weights", "baseline_name"})

    @property
    def needs_ratios(self) -> bool:
        """Whether it is for samples of another policy, with their importance ratios."""
        return "ratios" in self.takes

    @property
    def default_baseline(self) -> str:
        """The baseline where none is asked for: the estimator's built-in one, else `centred`."""
        return "centred" if self.takes_baseline else "none"


def baseline(
    formula: str = "",
    *,
    where: Callable[[int, int], bool] = up_to_n,
    source: str = "",
    **facts: Any,
) -> Callable[[Callable[..., Any]], BaselineRow]:
    """Make a baseline's function its row in the catalogue; the docstring says what it subtracts.

    The function is one of two kinds. From `rewards` `[..., n]`, checked, and `k` it gives the
    weights w = s - b, `[..., n]`, in any floating type; or from `n` and `k` a `Line` on the gaps of
    sorted rewards, computed once, as the sums in `lines` are. By name it also takes what it
    needs of: its parameter; `objective`, the L-statistic in place of the maximum, None for that;
    `g`, numbers per trajectory of the kind `trajectory_weight`, float64 `[..., n]`, relative to the
    group's largest; `coefficients`, `[..., n]`, fitted to every group.

    `formula` and `source` are for the reader, `where(n, k)` is whether it runs, and `facts` are the
    other fields of `BaselineRow`.
    """
    return _maker(BaselineRow, formula=formula, where=where, citation=source, **facts)


def estimator(
    formula: str = "",
    *,
    where: Callable[[int, int], bool] = up_to_n,
    source: str = "",
    **facts: Any,
) -> Callable[[Callable[..., Any]], EstimatorRow]:
    """Make an estimator's function its row in the catalogue; the docstring says what it is for.

    From `k` and its parameter the function gives the `Objective` whose gradient is wanted: the
    weights are then the baseline's. Or from `rewards` `[..., n]` and `k` it gives the weights
    itself, `[..., n]`. By name it may also take `baseline_weights`, the baseline as a function of
    rewards and K, or `baseline_name`; and `ratios`, importance ratios, float64 `[..., n]`.

    The rest is as in `baseline`, for the fields of `EstimatorRow`.
    """
    return _maker(EstimatorRow, formula=formula, where=where, citation=source, **facts)


def _maker(kind: type[RowType], *, name: str = "", **facts: Any) -> Callable[..., RowType]:
    def make(function: Callable[..., Any]) -> RowType:
        called = name or function.__name__
        is_line = "rewards" not in inspect.signature(function).parameters
        # The first paragraph of the docstring in a line, without its capital and its full stop.
        paragraph = (inspect.getdoc(function) or "").partition("\n\n")[0]
        text = " ".join(paragraph.split()).removesuffix(".")
        is_word = re.match(r"[A-Z][a-z]*(?![\w@(])", text)
        return kind(
            name=called,
            meaning=text[:1].lower() + text[1:] if is_word else text,
            implementation=f"{function.__module__}:{called}",
            function=lru_cache(64)(function) if is_line and kind is BaselineRow else function,
            **facts,
        )

    return make


def rows_of(kind: type[RowType], *modules: ModuleType) -> list[RowType]:
    """The rows that modules make, in their order there."""
    rows = [(module.__name__, row) for module in modules for row in vars(module).values()]
    return [
        row
        for module, row in rows
        if isinstance(row, kind) and row.implementation.startswith(f"{module}:")
    ]


def spell(value: Any) -> str:
    """The one spelling of a parsed value: `0.5`, `cross_fit`, or `0.25 0.75` for several."""
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def number_or_word(
    name: str, default: Any, meaning: str, words: tuple[str, ...] = (), *, several: bool = False
) -> Setting:
    """A parameter that is a finite number, or one of `words`.

    With `several` it is a tuple of such numbers; they are written with blanks or commas between.
    """
    number = Setting("", Annotated[float, Field(ge=-MOST, le=MOST)], 0.0)

    def read_one(written: Any) -> float:
        value = number.parse(written)
        return 0.0 if value == 0 else float(value)  # -0 would have a second spelling

    def read(written: Any) -> Any:
        if written in words:
            return written
        try:
            if not several:
                return read_one(written)
            entries = written.replace(",", " ").split() if isinstance(written, str) else written
            if not isinstance(entries, list | tuple) or not entries:
                raise LabError(f"must be numbers, got {shown(written)}")
            return tuple(map(read_one, entries))
        except LabError as error:
            also = f"; or one of {', '.join(words)}{did_you_mean(written, words)}" if words else ""
            raise ValueError(f"{str(error).strip()}{also}") from None

    kinds = ["numbers" if several else "number", *words]
    reader = Annotated[Any, BeforeValidator(read)]
    return Setting(name, reader, default, meaning, spelling=" or ".join(kinds))
