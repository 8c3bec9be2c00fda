"""The check of a user's function: the gradient it estimates, the row it equals, the laws it breaks.

A function of a metric is checked in the same way: an unbiased one equals the mean over all subsets.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from maxk_lab.errors import LabError
from maxk_lab.own.evidence import SIZES, Evidence, Fit, LateError, is_close, show_numbers, tensor
from maxk_lab.own.functions import Caller
from maxk_lab.own.laws import AT_K, check_laws
from maxk_lab.own.metric import check_metric
from maxk_lab.own.rows import factor_name, row_of
from maxk_lab.own.verdict import Bias, Law, Verdict

# Seconds after which a check ends with what was seen.
LIMIT = 30.0
LARGEST_K = 32
# A variance above this multiple of the best row's is worth a remark.
_LARGE = 2.0
# What to change about a row that a function equals, and where a law is broken.
_CHANGES = {
    "sample_loo": "subtract K/n times the baseline: the weights have the scale K/n of the value",
    "pkpo_sloo": "subtract K/n times the baseline, not K/(n - 1) times",
    "group_mean": "multiply by n/(n - K), or leave the sample itself out of the mean",
    "whole": "turn the rewards into floats before anything is made like them",
    "the order": "let weights depend on the rewards alone",
    "rewards equal": "divide by nothing that is 0 up to rounding",
    "rewards near": "subtract the mean before squares are summed",
    "a second call": "draw nothing at random: sum over all subsets, as maxk_lab.advantages does",
    "groups of a batch": "take means and deviations within each group",
}


def check(
    function: Callable[..., Any],
    *,
    k: int = 4,
    signature: str = "rewards",
    binary: bool = False,
    metric: bool = False,
    name: str = "",
    values: Mapping[str, Any] | None = None,
    limit: float = LIMIT,
) -> Verdict:
    """Check a function of advantages, or with `metric` an estimate of pass@k or Max@k, for K = k.

    `signature` is rewards for f(rewards) with k and n by name, flat for f(rewards [B n],
    num_generations), or verl. A metric takes (rewards, k) or the counts (n, c, k). `binary` tries
    rewards of 0 and 1 only, `values` are further arguments by name. The check ends after `limit`
    seconds, between two calls. Raises `LabError` for an unknown signature and a k out of range.
    """
    *_, verdict = check_steps(function, k, signature, binary, metric, name, values, limit)
    return verdict


def check_steps(
    function: Callable[..., Any],
    k: int = 4,
    signature: str = "rewards",
    binary: bool = False,
    metric: bool = False,
    name: str = "",
    values: Mapping[str, Any] | None = None,
    limit: float = LIMIT,
) -> Iterator[Verdict]:
    """Yield the verdict of `check` whenever more groups were seen."""
    if not 1 <= k <= LARGEST_K:
        raise LabError(f"k must be at least 1 and at most {LARGEST_K}, got {k}")
    title = name or getattr(function, "__name__", "the function")
    if metric:
        yield from check_metric(function, k, title, binary, values, limit)
        return
    evidence = Evidence(Caller(function, k, signature, values), k, binary, limit)
    laws, bias = tuple[Law, ...](), tuple[Bias, ...]()
    try:
        evidence.caller.weigh(tensor([0.0, 1.0] * k))
    except LabError as error:
        yield Verdict(title, k, f"does not run: it {error}")
        return
    try:
        for n in evidence.sizes:
            evidence.add_grid(n)
        laws, bias = tuple(check_laws(evidence)), tuple(evidence.enumerate_bias())
        last = -math.inf
        for n in (n for n in SIZES if n >= k):
            if time.monotonic() > last + 5:
                yield _judge(title, evidence, laws, bias)
                last = time.monotonic()
            evidence.add_drawn(n)
    except LateError:
        evidence.is_slow = True
    yield _judge(title, evidence, laws, bias)


def _judge(name: str, evidence: Evidence, laws: tuple[Law, ...], bias: tuple[Bias, ...]) -> Verdict:
    """Return the verdict on all that was seen so far."""
    k, fit = evidence.k, evidence.fit(evidence.k)
    broken = [law for law in laws if law.needed and not law.holds]
    row, factors = row_of(k, evidence.binary, evidence.blocks(), evidence.rounding, False)
    where = "" if row else "on rewards of 0 and 1 "
    if not row:
        row, factors = row_of(k, True, evidence.blocks(binary=True), evidence.rounding, False)
    factor = factor_name(factors, k, evidence.rounding) if row else ""
    objective, short, example, change = f"J_{k}", False, "", ""
    if fit.is_right:
        scale = factor_name(fit.factors, k, evidence.rounding)
        # Most factors without a name shrink with n - K.
        nothing = any(law.name == AT_K and "w = " in law.detail for law in laws)
        short = nothing and ("n - K" in scale or "1 - K" in scale or " at n = " in scale)
        line = f"unbiased for the gradient of J_{k}, times {scale}".removesuffix(", times 1")
        worst = max(bias, key=lambda each: each.variance, default=None)
        if short:
            line = f"right in direction for J_{k}, short by {scale}: nothing is left at n = K"
            change = _CHANGES["group_mean"]
        elif worst is not None and worst.variance > _LARGE:
            line += f"; at n = {worst.n} its variance is {worst.variance:.3g} times the best row's"
            change = next((text for key, text in _CHANGES.items() if key in row), _use(k))
        if change and not broken:
            names = (AT_K, "groups of equal rewards have weight 0")
            details = (law.detail for law in laws if law.name in names)
            example = next(filter(None, details), "")
    elif objective := _objective(evidence):
        what = {"J_1": "the mean", "J_n": "the best of all n samples"}.get(objective, "fewer")
        line, change = f"it is for {objective}, {what}, not for J_{k}", _use(k)
    else:
        line, example, change = _biased(evidence, fit, bias)
    if broken:
        line += "; but it does not hold that " + ", nor that ".join(law.name for law in broken)
        example = example or broken[0].detail
        hints = [text for key, text in _CHANGES.items() if broken[0].name.startswith(key)]
        change = next(iter(hints), change) if change in ("", _use(k)) else change
    right = fit.is_right and not short
    times = f"{row} times {factor}" if factor not in ("", "1") else row
    line = f"{where}it is {times}: {line}" if row else line
    seen, ok = _seen(evidence, fit), right and not broken
    return Verdict(
        name, k, line, seen, right, ok, objective, row, factor, example, change, bias, laws
    )


def _objective(evidence: Evidence) -> str:
    """Return the name of the other J whose gradient the pairs fit."""
    objectives = {"J_1": 1, "J_n": None, **{f"J_{j}": j for j in range(2, 9)}}
    return next((name for name, k in objectives.items() if evidence.fit(k).is_right), "")


def _biased(evidence: Evidence, fit: Fit, bias: Sequence[Bias]) -> tuple[str, str, str]:
    """Return the line, the counterexample and the change of a function that is biased for J_K."""
    k, change = evidence.k, _advice(evidence)
    if not fit.wrong and not all(fit.factors.values()):
        return "nothing: the mean of its estimate is 0", evidence.show(evidence.small()[0]), change
    if not fit.wrong:
        scale = factor_name({n: -c for n, c in fit.factors.items()}, k)
        return f"reversed: -1 times the gradient of J_{k}, times {scale}", "", "change the sign"
    first, n = fit.wrong[0], len(fit.wrong[0].before)
    finite = [pair for pair in fit.wrong if math.isfinite(pair.moved)]
    again = evidence.again(first.before)
    if finite and again != evidence.weigh(first.before):
        example = f"{evidence.show(first.before)}\nagain w = {show_numbers(again)}"
        line = f"random at n = {n}: two calls with the same rewards differ"
        return line, example, _CHANGES["a second call"]
    what = "biased" if finite else "not finite"
    families = dict.fromkeys(pair.family for pair in fit.wrong)
    smaller = [size for size in fit.factors if size < n]
    worst = min(bias, key=lambda each: each.cosine, default=Bias(n, (math.nan, math.nan), 0.0, 0.0))
    low, high = worst.factor
    if not families.keys() & {"whole numbers", "distinct rewards"}:
        line = f"{what} for {' and '.join(families)}, unbiased for J_{k} on all others"
    elif smaller and n > max(evidence.sizes):
        line = f"unbiased for J_{k} up to n = {max(smaller)}, and {what} from n = {n:,}"
        if not finite:
            change = "binomials overflow: take ratios of them, or maxk_lab.advantages"
    elif not finite:
        line = "undefined: its weights are not finite"
    elif high - low < 0.01 * high:
        line = f"biased for the gradient of J_{k}, near {low:.4g} times it at n = {worst.n}"
    elif worst.cosine > 0.999:
        line = f"biased for the gradient of J_{k}: {low:.4g} to {high:.4g} times it"
        line += f" at n = {worst.n}"
    else:
        line = f"biased for the gradient of J_{k}: cosine {worst.cosine:.3g} at n = {worst.n}"
    failed = next((g for g in (first.before, first.after) if g in evidence.errors), first.before)
    return line, _counterexample(evidence, fit) if finite else evidence.show(failed), change


def _counterexample(evidence: Evidence, fit: Fit) -> str:
    """Return two moves of a reward whose weights do not move in proportion to the score weights."""
    wrong = fit.wrong[0]
    n, ratio = len(wrong.before), wrong.moved / (fit.needed[wrong] or math.nan)
    pairs = [p for p in evidence.pairs[n] if math.isfinite(p.moved)]
    reference = [
        p
        for p in pairs
        if abs(fit.needed[p]) > 0.1 * evidence.k / n * max(map(abs, p.before))
        and not math.isclose(p.moved / fit.needed[p], ratio, rel_tol=1e-3)
    ]
    lines = []
    for pair in (*reference[:1], wrong):
        rest = [*pair.before]
        rest.remove(pair.low)
        times = f": {pair.moved / fit.needed[pair]:.4g} times" if fit.needed[pair] else ""
        lines.append(
            f"beside {show_numbers(rest)}, reward {pair.low:.4g} to {pair.high:.4g} moves the "
            f"weight by {pair.moved:.4g}, and J_{evidence.k} needs {fit.needed[pair]:.4g}{times}"
        )
    return "\n".join(lines)


def _advice(evidence: Evidence) -> str:
    """Return what to change, by the cause as far as the weights show it."""
    use, groups = _use(evidence.k), evidence.small()
    if all(is_close(evidence.weigh(g), evidence.weigh(g)[:1] * len(g)) for g in groups):
        return f"give each sample a weight of its own: {use}"
    for group in groups:
        size, double, moved = (
            evidence.calls.get(tuple(factor * reward + shift for reward in group), ())
            for factor, shift in ((1, 0), (2, 0), (1, 7))
        )
        if double and moved and any(size) and is_close(double, size, 0.05):
            if is_close(moved, size):
                return f"do not divide by the spread of the group, which bends the direction: {use}"
            return f"do not divide by the mean of the group, which can be 0 or negative: {use}"
    return use


def _use(k: int) -> str:
    baseline = "centred" if k == 1 else "subloo"
    return f'maxk_lab.advantages(rewards, k={k}, baseline="{baseline}") is unbiased'


def _seen(evidence: Evidence, fit: Fit) -> str:
    """Return the groups that a verdict rests on, and the rounding of the weights."""
    sizes = sorted(n for n, pairs in evidence.pairs.items() if pairs)
    rewards = [reward for group in evidence.calls for reward in group]
    upto = [n for n in sizes if n <= 64]
    text = f"{len(evidence.calls):,} groups: n = {sizes[0]} to {upto[-1]}"
    text += "".join(f" and {n:,}" for n in sizes if n > 64)
    text += f", rewards in [{min(rewards):.0e}, {max(rewards):.0e}], "
    dtype, error = str(evidence.dtype).removeprefix("torch."), max(fit.errors)
    text += dtype + (f", up to rounding ({error:.0e})" if fit.is_right and error > 1e-9 else "")
    return text + ("; its calls take too long for larger groups" if evidence.is_slow else "")
