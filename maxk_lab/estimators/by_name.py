"""The functions of any pair of the catalogue by its names, in one call each: see `Method`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from maxk_lab.errors import LabError, shown
from maxk_lab.estimators.catalogue import choose_estimator
from maxk_lab.estimators.method import Method
from maxk_lab.estimators.objectives import Objective

if TYPE_CHECKING:
    from torch import Tensor

    from maxk_lab.estimators.given import Numbers


def advantages(
    rewards: Numbers,
    *,
    estimator: str = "maxk",
    baseline: str | None = None,
    k: int | None = None,
    usable: Numbers | None = None,
    stable_sort: bool = True,
    trajectory_weights: Mapping[str, Numbers] | None = None,
    weight_normalization: str = "none",
    min_gap_scale: float | None = None,
    ratios: Numbers | None = None,
    coefficients: Numbers | None = None,
) -> Tensor:
    """The weights w of the gradient estimate sum_i w_i grad log pi(tau_i), as a tensor.

    It is a sum: w carries the factor 1/n, so that the loss of a group is -(w * log_probs).sum().
    n w is what GRPO and others call advantages.

    rewards: `[..., n]`, i.i.d. along n, higher is better; a tensor, a NumPy array, or lists, whose
    numbers count as float64. Returns `[..., n]` on their device, in their floating type (float64
    for whole numbers and booleans), without a gradient.

    `estimator` and `baseline` are names that `maxk-lab list estimators` and `maxk-lab list
    baselines` print, with a parameter in brackets where the row has one (`affine[0.5]`). Without
    `baseline` it is `centred`, or `none` for an estimator that takes none, as `grpo`. `k` is the K
    of J_K = E[max of K rewards], the number of samples of which the best will be kept. Only an
    estimator that has a K of its own, as `reinforce` has 1, goes without.

    None in place of a reward, in a list, says that the trajectory has none, as one that could not
    be scored; so does False in `usable`, `[..., n]`. Of each group the m others are weighted as a
    group of m, and these have weight 0; so have all where m samples are too few for the pair. NaN
    is no reward: it is refused (on a GPU, where a look would cost time, its group becomes NaN).

    The other arguments are those of `Method.weights`. Raises `LabError` for an unknown name, a
    missing `k` or one that the pair does not take at this n, for rewards that are not finite, and
    for whatever else of its arguments cannot be used.
    """
    from maxk_lab.estimators.given import as_rewards, as_tensor

    if not isinstance(stable_sort, bool):
        raise LabError(f"stable_sort must be True or False, got {shown(stable_sort)}")
    if not isinstance(trajectory_weights, Mapping | None):
        raise LabError(
            f"trajectory_weights must be a mapping from names, got {shown(trajectory_weights)}"
        )
    row = choose_estimator(estimator).row
    baseline = row.default_baseline if baseline is None else baseline
    method = Method.parse(estimator, baseline, 1 if k is None else k)
    if k is None and row.fixed_k is None:
        raise LabError(
            f"estimator {estimator} needs k, the number of samples of which the best is kept: give "
            'k=8 or the like; k=1 is the plain policy gradient, and so is estimator="reinforce"'
        )
    values, there = as_rewards(rewards)
    if usable is not None:
        chosen = as_tensor(usable, "usable")
        # On a GPU a look would cost time.
        if not chosen.is_cuda and bool(((chosen != 0) & (chosen != 1)).any()):
            raise LabError(f"usable must be True and False, or 1 and 0, got {shown(usable)}")
        chosen = chosen.bool().to(values.device)
        if chosen.shape != values.shape:
            raise LabError(
                f"usable must have the shape of rewards {list(values.shape)}, "
                f"got {list(chosen.shape)}"
            )
        there = chosen if there is None else chosen & there.to(values.device)

    def tensor(given: Numbers | None, name: str) -> Tensor | None:
        return None if given is None else as_tensor(given, name).to(values.device)

    options: dict[str, Any] = {
        "stable_sort": stable_sort,
        "trajectory_weights": {
            name: tensor(g, f"trajectory_weights[{name!r}]")
            for name, g in (trajectory_weights or {}).items()
        },
        "weight_normalization": weight_normalization,
        "min_gap_scale": min_gap_scale,
        "ratios": tensor(ratios, "ratios"),
        "coefficients": tensor(coefficients, "coefficients"),
    }
    try:
        if there is None:
            return method.weights(values, **options)
        return _among_usable(method, values, there, options)
    except LabError as error:
        if there is None and bool(values.isnan().any()):
            raise LabError(
                f"{error}: where a trajectory has no reward, say so, with None in a list or with "
                "usable=~rewards.isnan()"
            ) from None
        raise


def _among_usable(
    method: Method, rewards: Tensor, usable: Tensor, options: Mapping[str, Any]
) -> Tensor:
    """The weights where some samples are unusable: see `usable_weights`."""
    from maxk_lab.estimators.ranks.gaps import result_dtype
    from maxk_lab.estimators.usable import usable_weights
    from maxk_lab.estimators.validation import check_k, check_rewards

    n = check_rewards(rewards)
    check_k(method.k, n)
    problem = method.refusal(n)
    if problem is not None:
        raise LabError(problem)

    def flat(given: Tensor) -> Tensor:
        return given.expand(*rewards.shape[:-1], given.shape[-1]).reshape(-1, given.shape[-1])

    own: dict[str, Any] = {
        name: None if options[name] is None else flat(options[name])
        for name in ("ratios", "coefficients")
    }
    own["trajectory_weights"] = {name: flat(g) for name, g in options["trajectory_weights"].items()}
    groups = rewards.to(result_dtype(rewards)).reshape(-1, n)
    weights, _ = usable_weights(method, groups, usable.reshape(-1, n), **{**options, **own})
    return weights.reshape(rewards.shape)


def objective(estimator: str, k: int) -> Objective:
    """The objective of the estimator at `k`, as `Method.objective`."""
    return Method.parse(estimator, k=k).objective


def needed_weight(estimator: str, baseline: str) -> str | None:
    """The trajectory weight that the pair needs, as `Method.needed_weight`."""
    return Method.parse(estimator, baseline).needed_weight


def needs_ratios(estimator: str) -> bool:
    """Whether the estimator needs importance ratios, as `Method.needs_ratios`."""
    return Method.parse(estimator).needs_ratios


def fit_of(estimator: str, baseline: str) -> str | None:
    """The way the pair's coefficients are fitted, as `Method.fit`."""
    return Method.parse(estimator, baseline).fit


def is_token_level(baseline: str) -> bool:
    """Whether the baseline gives one weight per token, as `Method.is_token_level`."""
    return Method.parse("maxk", baseline).is_token_level
