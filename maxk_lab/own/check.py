"""The check of a user's function: the gradient it estimates, its equal row, and broken laws.

A metric is checked in the same way: an unbiased estimate equals the mean over all subsets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from maxk_lab.errors import LabError
from maxk_lab.own.evidence import SIZES, Evidence, Fit, Pair, is_close, show_numbers, tensor
from maxk_lab.own.functions import Caller
from maxk_lab.own.laws import AT_K, SECOND, check_laws
from maxk_lab.own.metric import judge_metric, metric_evidence, metric_steps
from maxk_lab.own.rows import factor_name, row_of
from maxk_lab.own.verdict import Bias, Law, Verdict, judge_steps

# Seconds after which a check ends with a partial verdict.
LIMIT = 30.0
LARGEST_K = 32
# A variance above this multiple of the best row's gets a remark.
_LARGE = 2.0
# The advice for a row that a function equals, and for a broken law or a failing family of rewards.
_CHANGES = {
    "sample_loo": "subtract K/n times the baseline: the weights have the scale K/n of the value",
    "pkpo_sloo": "subtract K/n times the baseline, not K/(n - 1) times",
    "group_mean": "multiply by n/(n - K), or leave the sample itself out of the mean",
    "whole": "turn the rewards into floats before anything is made like them",
    "the order": "let weights depend on the rewards alone",
    "rewards equal": "do not divide by numbers that are 0 up to rounding",
    "rewards near": "subtract the mean before squares are summed",
    "a second call": "do not draw at random: sum over all subsets, as maxk_lab.advantages does",
    "groups of a batch": "take means, deviations and scales within each group",
    "large rewards": "treat large rewards as small ones: do not clip or rescale them",
    "tiny rewards": "treat tiny rewards as others: do not round them, or add to their divisor",
    "overflow": "binomials overflow: take ratios of them, or maxk_lab.advantages",
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
    """The verdict on a function of advantages, or with `metric` on an estimate of pass@k or Max@k.

    `signature` is rewards for f(rewards) with k and n by name, flat for f(rewards [B n],
    num_generations), or verl. A metric takes (rewards, k) or the counts (n, c, k). `binary`
    restricts the rewards to 0 and 1; `values` are further arguments by name. The check ends after
    `limit` seconds, between two calls. Raises `LabError` for an unknown signature and a k out of
    range.
    """
    *_, judge = check_steps(function, k, signature, binary, metric, name, values, limit)
    return judge()


def check_steps(
    function: Callable[..., Any],
    k: int = 4,
    signature: str = "rewards",
    binary: bool = False,
    metric: bool = False,
    name: str = "",
    values: Mapping[str, Any] | None = None,
    limit: float = LIMIT,
) -> Iterator[Callable[[], Verdict]]:
    """Yield a function that returns the verdict of `check`, whenever more groups were checked."""
    if not 1 <= k <= LARGEST_K:
        raise LabError(f"k must be at least 1 and at most {LARGEST_K}, got {k}")
    title = name or getattr(function, "__name__", "the function")
    if metric:
        evidence = metric_evidence(function, k, binary, values, limit)
    else:
        evidence = Evidence(Caller(function, k, signature, values), k, binary, limit)
    laws, bias = list[Law](), list[Bias]()
    try:
        evidence.caller.weigh(tensor([0.0, 1.0] * k))
    except LabError as error:
        verdict = Verdict(title, k, f"does not run: it {error}")
        yield lambda: verdict
        return
    if metric:
        steps = metric_steps(evidence, laws)
    else:
        steps = [
            *(partial(evidence.add_grid, n) for n in evidence.sizes),
            lambda: laws.extend([*check_laws(evidence)]),
            lambda: bias.extend(evidence.enumerate_bias()),
            *(partial(evidence.add_drawn, n) for n in SIZES if n >= k),
        ]

    def judge() -> Verdict:
        if not evidence.calls:
            return Verdict(title, k, "no answer: its first calls take too long")
        if metric:
            return judge_metric(title, evidence, laws)
        return _judge(title, evidence, laws, bias)

    yield from judge_steps(steps, judge)


def _judge(name: str, evidence: Evidence, laws: Sequence[Law], bias: Sequence[Bias]) -> Verdict:
    """Return the verdict on the groups so far."""
    k, fit = evidence.k, evidence.fit(evidence.k)
    error, dtype = max(fit.errors), str(evidence.dtype).removeprefix("torch.")
    rounding = f", up to rounding ({error:.0e})" if fit.is_right and error > 1e-9 else ""
    seen = evidence.seen(f", {dtype}{rounding}")
    if not fit.factors:
        return Verdict(name, k, "no answer: its calls take too long for groups of n > K", seen)
    broken = [law for law in laws if law.needed and not law.holds]
    row, factors = row_of(k, evidence.binary, evidence.blocks(), evidence.rounding, False)
    where = "" if row else "on rewards of 0 and 1 "
    if not row:
        row, factors = row_of(k, True, evidence.blocks(binary=True), evidence.rounding, False)
    factor = factor_name(factors, k, 4 * evidence.rounding) if row else ""
    objective, example, change = f"J_{k}", "", ""
    if fit.is_right:
        line, change = _unbiased(evidence, fit, bias, laws, row)
        if change and not broken:
            names = (AT_K, "groups of equal rewards have weight 0")
            example = next((law.detail for law in laws if law.name in names and law.detail), "")
    elif objective := _objective(evidence):
        what = {"J_1": " (the mean)", "J_n": " (the best of all n samples)"}.get(objective, "")
        line, change = f"the gradient of {objective}{what}, not of J_{k}", _use(k)
    else:
        line, example, change = _biased(evidence, fit, bias, laws)
    if broken and not line.startswith("random"):
        line += "; it breaks: " + ", ".join(law.name for law in broken)
        example = example or broken[0].detail
        hints = [text for key, text in _CHANGES.items() if broken[0].name.startswith(key)]
        change = next(iter(hints), change) if change in ("", _use(k)) else change
    right = fit.is_right and line.startswith("unbiased")
    times = f"{row} times {factor}" if factor not in ("", "1") else row
    line = f"{where}it equals {times}: {line}" if row else line
    line, ok = line if laws else f"so far {line}", right and bool(laws) and not broken
    return Verdict(
        *(name, k, line, seen, right, ok, objective, row, factor, example, change),
        *(tuple(bias), tuple(laws)),
    )


def _unbiased(
    evidence: Evidence, fit: Fit, bias: Sequence[Bias], laws: Sequence[Law], row: str
) -> tuple[str, str]:
    """Return the sentence and the advice for a function whose factors for J_K are positive."""
    k, scale = evidence.k, factor_name(fit.factors, evidence.k, 4 * evidence.rounding)
    # Most factors without a name shrink with n - K.
    nothing = any(law.name == AT_K and "w = " in law.detail for law in laws)
    if nothing and ("n - K" in scale or "1 - K" in scale or " at n = " in scale):
        line = f"right in direction for J_{k}, short by {scale}: nothing is left at n = K"
        return line, _CHANGES["group_mean"]
    line = f"unbiased for the gradient of J_{k}, times {scale}".removesuffix(", times 1")
    worst = max(bias, key=lambda each: each.variance, default=None)
    if worst is None or worst.variance <= _LARGE:
        return line, ""
    line += f"; at n = {worst.n} its variance is {worst.variance:.3g} times the best row's"
    return line, next((text for key, text in _CHANGES.items() if key in row), _use(k))


def _objective(evidence: Evidence) -> str:
    """Return the name of another J whose gradient the pairs fit."""
    objectives = {"J_1": 1, "J_n": None, **{f"J_{j}": j for j in range(2, 9)}}
    return next((name for name, k in objectives.items() if evidence.fit(k, False).is_right), "")


def _biased(
    evidence: Evidence, fit: Fit, bias: Sequence[Bias], laws: Sequence[Law]
) -> tuple[str, str, str]:
    """The sentence, the counterexample and the advice for a function that is biased for J_K."""
    k, change = evidence.k, _advice(evidence)
    if not fit.wrong:
        return _unlike(evidence, fit)
    first, n = fit.wrong[0], len(fit.wrong[0].before)
    finite = [pair for pair in fit.wrong if math.isfinite(pair.moved)]
    changed = next((law.detail for law in laws if law.name == SECOND), "")
    again = evidence.again(first.before)
    if not changed and not is_close(again, evidence.weigh(first.before), 0.0):
        changed = f"{evidence.show(first.before)}, then w = {show_numbers(again)}"
    if finite and changed:
        line = f"random at n = {n}: two calls with the same rewards differ"
        return line, changed, _CHANGES["a second call"]
    what = "biased" if finite else "not finite"
    wrong = dict.fromkeys(pair.family for pair in fit.wrong)
    every = dict.fromkeys(pair.family for pairs in evidence.pairs.values() for pair in pairs)
    right = [family for family in every if family not in wrong]
    smaller = [size for size in fit.factors if size < n]
    worst = min(bias, key=lambda each: each.cosine, default=None)
    if not wrong.keys() & {"whole numbers", "distinct rewards"}:
        line = f"{what} for {_join(wrong)}, unbiased for J_{k} on all others"
        change = _CHANGES.get(_join(wrong), change)
    elif smaller and n > max(evidence.sizes):
        line = f"unbiased for J_{k} up to n = {max(smaller)}, and {what} from n = {n:,}"
        change = change if finite else _CHANGES["overflow"]
    elif not finite:
        line = "undefined: its weights are not finite"
    elif worst and worst.cosine < 0.99:
        line = f"biased for the gradient of J_{k}: cosine {worst.cosine:.3g} at n = {worst.n}"
    elif worst and worst.factor[1] - worst.factor[0] > 0.01 * worst.factor[1]:
        times = " to ".join(f"{factor:.4g}" for factor in worst.factor)
        line = f"biased for the gradient of J_{k}: {times} times it at n = {worst.n}"
    else:
        line = f"unbiased for J_{k} on {_join(right)} only" if right else f"biased for J_{k}"
    failed = next((g for g in (first.before, first.after) if g in evidence.errors), first.before)
    return line, _counterexample(evidence, fit) if finite else evidence.show(failed), change


def _unlike(evidence: Evidence, fit: Fit) -> tuple[str, str, str]:
    """The result of `_biased` for pairs that fit J_K with factors that are not all positive."""
    k, change = evidence.k, _use(evidence.k)
    groups = [*evidence.small(), *evidence.calls]
    if not any(fit.factors.values()):
        return "nothing: the mean of its estimate is 0", evidence.show(groups[0]), _advice(evidence)
    if max(fit.factors.values()) < 0:
        scale = factor_name({n: -c for n, c in fit.factors.items()}, k)
        return f"reversed: -1 times the gradient of J_{k}, times {scale}", "", "change the sign"
    right, odd = (
        next(n for n, c in fit.factors.items() if (c > 0) is sign) for sign in (True, False)
    )
    line = f"unbiased for J_{k} at n = {right}, and {fit.factors[odd]:.4g} times it at n = {odd:,}"
    return line, evidence.show(evidence.pairs[odd][0].after), change


def _join(words: Iterable[str]) -> str:
    """Return words with commas, and `and` before the last."""
    *words, last = words
    return f"{', '.join(words)} and {last}" if words else last


def _counterexample(evidence: Evidence, fit: Fit) -> str:
    """Two changes of a reward that move the weights disproportionately to the score weights."""
    wrong, needed = fit.wrong[0], fit.needed
    n, ratio = len(wrong.before), wrong.moved / (needed[wrong] or math.nan)

    def is_clear(pair: Pair) -> bool:
        level = 0.1 * evidence.k / n * max(map(abs, pair.before))
        unlike = not math.isclose(pair.moved / (needed[pair] or math.nan), ratio, rel_tol=1e-3)
        return math.isfinite(pair.moved) and abs(needed[pair]) > level and unlike

    lines = []
    for pair in (*[pair for pair in evidence.pairs[n] if is_clear(pair)][:1], wrong):
        rest = [*pair.before]
        rest.remove(pair.low)
        times = f": {pair.moved / needed[pair]:.4g} times" if needed[pair] else ""
        lines.append(
            f"beside {show_numbers(rest)}, reward {pair.low:.4g} to {pair.high:.4g} moves the "
            f"weight by {pair.moved:.4g}, and J_{evidence.k} needs {needed[pair]:.4g}{times}"
        )
    return "\n".join(lines)


def _advice(evidence: Evidence) -> str:
    """Return the advice for the cause that the weights show."""
    use, groups, calls = _use(evidence.k), evidence.small(), evidence.calls
    if groups and all(is_close(evidence.weigh(g), evidence.weigh(g)[:1] * len(g)) for g in groups):
        return f"give each sample a weight of its own: {use}"

    def unmoved(factor: int, shift: int) -> bool:
        """Return whether most groups with weights keep their weights after a change of rewards."""
        pairs = [(calls[g], calls.get(tuple(factor * r + shift for r in g), ())) for g in groups]
        close = [is_close(a, b, 0.05) for a, b in pairs if b and any(a)]
        return sum(close) > len(close) / 2

    if not unmoved(2, 0):
        return use
    divisor = "spread of the group, which bends the direction"
    if not unmoved(1, 7):
        divisor = "mean of the group, which can be 0 or negative"
    return f"do not divide by the {divisor}: {use}"


def _use(k: int) -> str:
    baseline = "centred" if k == 1 else "subloo"
    return f'maxk_lab.advantages(rewards, k={k}, baseline="{baseline}") is unbiased'
