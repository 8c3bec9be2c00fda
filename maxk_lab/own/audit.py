"""The audit of a log: its Max@K curve, groups without signal, and the method of its advantages.

Variances need gradients, but logs have none. The scores of samples are therefore assumed to be
orthogonal with equal norms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from maxk_lab.errors import LabError, shown
from maxk_lab.estimators import maxk_curve
from maxk_lab.estimators.method import Method
from maxk_lab.own.arrays import SUFFIXES, numbers_of, read_arrays, score_products
from maxk_lab.own.log import Log, read_log, step_order
from maxk_lab.own.plans.coherence import Coherence, coherences
from maxk_lab.own.plans.products import score_products_by_rank
from maxk_lab.own.plans.steps import BASELINES, plan, recommendations
from maxk_lab.own.rows import factor_name, row_of
from maxk_lab.ranges import ANYWHERE, SHARES
from maxk_lab.statistics.bands import ranges
from maxk_lab.statistics.seeds import skewed_mean

LEVEL = 0.95
# The most groups for the comparison of advantages with catalogue rows, and the largest K.
_COMPARED, _LARGEST_K = 200, 64
# A K keeps the signal if this share of the groups with a signal at K = 1 has one at K.
_KEEPS = 0.9
_ROUNDING = 1e-3  # logs may have few digits
_EQUAL = 1e-12  # weights of equal samples differ by rounding


@dataclass(frozen=True)
class Audit:
    """The findings of an audit.

    reading: how the log was read. notes: what could not be measured. curve [step, k, value, low,
    high, groups, reason]: the unbiased Max@K with intervals over prompts, or the reason why it is
    undefined; the step None is all steps together. plan [source, ...]: the steps of a budget, with
    the columns of `plans.steps.plan`. `use` has a line for each source and K, and `assumption`
    names the source of each K's gradients. rows [baseline, k, signal, noise, relative]: the share
    of the groups with a signal, the mean of Σ w², and this mean over the lowest at the same K.
    trained: the catalogue row that equals the logged advantages, with its K and the factor; None if
    no row does. sizes: the smallest and the largest group. constant: the share of groups with equal
    rewards. binary: whether all rewards are 0 or 1.
    """

    reading: str
    notes: tuple[str, ...]
    curve: pd.DataFrame
    rows: pd.DataFrame
    trained: tuple[str, int, str] | None
    samples: int
    groups: int
    steps: int
    sizes: tuple[int, int]
    constant: float
    binary: bool
    advice: str
    plan: pd.DataFrame = field(default_factory=pd.DataFrame)
    use: tuple[str, ...] = ()
    assumption: str = ""


@dataclass(frozen=True)
class Measured:
    """Rewards [P, M] of a file, products of scores [P, M, M], and scores if they are present."""

    rewards: Tensor
    products: Tensor
    scores: Tensor | None


def audit(
    *paths: Path | str,
    reward: str | None = None,
    group: str | None = None,
    step: str | None = None,
    advantage: str | None = None,
    ks: Sequence[int] = (),
    budget: int | None = None,
    by: str | None = None,
) -> Audit:
    """Audit a log of rewards: JSON, CSV or Parquet files, or folders of them.

    With a `budget` of rollouts per step, `plan` compares every n and baseline, for each value of
    the column `by`. A file of `rewards` with `scores` or `gram`, as for `measure`, adds the
    coherence of the scores. Such a file alone is the log, too.

    The other arguments name columns that differ from `log.FORMATS`: the reward of a sample (`a+b`
    adds two columns), its group (samples of one prompt in one step), its step, and its advantage in
    training. Rows may be in any order. `ks` are the K of the curve, by default the powers of 2.
    Raises `LabError` if nothing can be read or measured.
    """
    files = [Path(path) for path in paths]
    arrays = [path for path in files if path.suffix.lower() in SUFFIXES]
    logs = [path for path in files if path not in arrays]
    measured = _measured(arrays) if arrays else None
    columns = {"reward": reward, "group": group, "step": step, "advantage": advantage, "by": by}
    if not logs and measured is not None:
        if named := [role for role, name in columns.items() if name is not None]:
            raise LabError(f"{arrays[0]} has no columns: leave out {', '.join(named)}")
        return audit_log(_log_of(measured.rewards), ks, budget, measured)
    return audit_log(read_log(logs, columns), ks, budget, measured)


def _measured(paths: Sequence[Path]) -> Measured:
    """Return the measured scores of a file. Raises `LabError` for several files, or no scores."""
    if len(paths) > 1:
        raise LabError(f"one file of scores at most: {', '.join(map(str, paths))}")
    arrays = read_arrays(paths[0])
    rewards = numbers_of(arrays["rewards"], "rewards", 2)
    if len(arrays) < 2:
        raise LabError(f"{paths[0]} has no scores and no gram: maxk-lab measure audits its rewards")
    scores = numbers_of(arrays["scores"], "scores", 3) if "scores" in arrays else None
    return Measured(rewards, score_products(rewards, scores, arrays.get("gram")), scores)


def _log_of(rewards: Tensor) -> Log:
    """Return the log of the rewards of samples of prompts, [P, M]."""
    prompts, samples = rewards.shape
    table = {"group": np.repeat(np.arange(prompts), samples), "reward": rewards.flatten().numpy()}
    return Log(pd.DataFrame(table), "reward = rewards, group = prompt")


def audit_rewards(rewards: Tensor, *, ks: Sequence[int] = ()) -> Audit:
    """Audit the rewards of samples of prompts, [P, M]."""
    return audit_log(_log_of(rewards), ks)


def audit_log(
    log: Log,
    ks: Sequence[int] = (),
    budget: int | None = None,
    measured: Measured | None = None,
) -> Audit:
    """Audit a log that was read, and plan its steps if there is a budget."""
    if min(ks, default=1) < 1:
        raise LabError(f"K must be at least 1, got {min(ks)}")
    by = [name for name in ("step", "group") if name in log.table]
    number = log.table.groupby(by, sort=False).ngroup().rename("number")
    n = number.groupby(number).transform("size").rename("n")
    table = pd.concat([log.table, number, n], axis=1).sort_values("number", kind="stable")
    groups, sizes = number.nunique(), (int(n.min() if len(n) else 0), int(n.max() if len(n) else 0))
    counts = f"{len(table):,} samples in {groups:,} group{'s' * (groups != 1)}"
    reading = ", ".join([f"{log.reading}; {counts}", *log.left_out])
    if sizes[1] < 2:
        raise LabError(f"no group of two samples: {reading}")
    binary = bool(table.reward.isin((0, 1)).all())
    too_large = sorted({k for k in ks if k > sizes[1]})
    ks = sorted({*(ks or (2**power for power in range(sizes[1].bit_length())))} - {*too_large})
    notes = [
        f"{'pass' if binary else 'Max'}@{k} needs at least {k} samples a prompt; groups have "
        f"{range_of(sizes)}"
        for k in too_large
    ]
    if not ks:
        raise LabError(f"{'; '.join(notes)} ({reading})")
    blocks = [(int(str(n)), rows) for n, rows in table.groupby("n")]
    values = pd.concat(
        [_values(rows, n, ks) for n, rows in blocks if min(ks) <= n], ignore_index=True
    )
    notes += [
        f"K = {k}: {count:,} of {groups:,} groups have at least {k} samples"
        for k, count in values.k.value_counts().sort_index().items()
        if count < groups
    ]
    blocks = [(n, rows) for n, rows in blocks if n > 1]
    rewards = [_matrix(rows.reward, n) for n, rows in blocks]
    advantages = [_matrix(rows.advantage, n) for n, rows in blocks if "advantage" in rows]
    rows = _baselines(rewards, ks)
    equal = torch.cat([(each == each[:, :1]).all(1) for each in rewards])
    planned, reason = pd.DataFrame(), "all groups have equal rewards"
    if budget is not None and not bool(equal.all()):
        planned = _planned(table, ks, budget, measured, notes)
        reason = f"no possible n divides the budget of {budget:,}"
        if measured is not None:
            reason += ", or K is not below half of the samples of a prompt with scores"
    if budget is not None and planned.empty:
        notes.append(f"no plan: {reason}")
    return Audit(
        reading,
        tuple(notes),
        _curve(values, binary),
        rows,
        _trained_with([*zip(rewards, advantages, strict=False)]),
        len(table),
        groups,
        table.step.nunique() if "step" in table else 0,
        sizes,
        float(equal.double().mean()),
        binary,
        _advice(rows, bool(equal.all())),
        planned,
        tuple(recommendations(planned)) if len(planned) else (),
        _assumption(planned) if len(planned) else "",
    )


def _planned(
    table: pd.DataFrame,
    ks: Sequence[int],
    budget: int,
    measured: Measured | None,
    notes: list[str],
) -> pd.DataFrame:
    """Return the plan of every source; a source without groups of two samples gets a note."""
    coherence, products, by_rank = dict[int, Coherence](), None, None
    if measured is not None:
        by_rank = score_products_by_rank(measured.rewards, measured.products)
        coherence = coherences(measured.rewards, measured.products, measured.scores, ks)
        same = table.reward.to_numpy().shape == (measured.rewards.numel(),)
        alone = same and "step" not in table and "by" not in table
        if alone and np.array_equal(table.reward, measured.rewards.flatten().numpy()):
            products = measured.products
    sources = {"all": table}
    if "by" in table:
        several = table.groupby("number").by.nunique() > 1
        if several.any():
            group = table.group[table.number == several.idxmax()].iloc[0]
            raise LabError(f"group {shown(group)} has several values of `by`: it must have one")
        if "all" in table.by.to_numpy():
            raise LabError("`by` has the value 'all', which names the whole log: rename it")
        sources |= {f"{name}": rows for name, rows in table.groupby("by", sort=True)}
    plans = []
    for name, rows in sources.items():
        blocks = [(int(str(n)), block) for n, block in rows.groupby("n") if int(str(n)) > 1]
        if not blocks:
            notes.append(f"{name} has no plan: it has no group of two samples")
            continue
        prompts = pd.Series(pd.factorize(rows.group)[0], rows.index)
        groups = [_matrix(block.reward, n) for n, block in blocks]
        numbers = [prompts[block.index].to_numpy()[::n] for n, block in blocks]
        frame = plan(groups, numbers, budget, ks, coherence, products, by_rank)
        frame.insert(0, "source", name)
        plans.append(frame)
    return pd.concat(plans, ignore_index=True)


def _assumption(plan: pd.DataFrame) -> str:
    """Return how a plan knows the gradients of each K."""
    ks = plan.groupby("gradients", sort=False).k.unique()
    if len(ks) == 1:
        return f"{ks.index[0]}"
    return "; ".join(f"K = {ranges(sorted(each))}: {text}" for text, each in ks.items())


def range_of(sizes: tuple[int, int]) -> str:
    """Return the sizes of groups as text: `4`, or `2 to 4`."""
    return f"{sizes[0]}" if sizes[0] == sizes[1] else f"{sizes[0]} to {sizes[1]}"


def _matrix(column: pd.Series[Any], n: int) -> Tensor:
    """Return a column of groups of n samples, in their order, as [groups, n]."""
    return torch.from_numpy(column.to_numpy(dtype=float, copy=True)).view(-1, n)


def _values(rows: pd.DataFrame, n: int, ks: Sequence[int]) -> pd.DataFrame:
    """Return the Max@K of every group of n samples: columns [step], group, k, value."""
    curve = maxk_curve(_matrix(rows.reward, n)).numpy()
    first = rows.iloc[::n].drop(columns=["reward", "advantage"], errors="ignore")
    return pd.concat([first.assign(k=k, value=curve[:, k - 1]) for k in ks if k <= n])


def _curve(values: pd.DataFrame, binary: bool) -> pd.DataFrame:
    """Return the curve of all steps together, and of each step."""
    steps = [*values.groupby(["step", "k"], sort=False)] if "step" in values else []
    steps.sort(key=lambda each: (step_order(each[0][0]), each[0][1]))
    lines = []
    for (step, k), groups in [*(((None, k), groups) for k, groups in values.groupby("k")), *steps]:
        shares = groups.value
        if step is None:  # a prompt's share of the mean, as if all prompts had equally many groups
            prompts, value = groups.groupby("group").value.agg(["sum", "count"]), shares.mean()
            shares = value + (prompts["sum"] - value * prompts["count"]) / prompts["count"].mean()
        within = SHARES if binary and SHARES.holds(shares) else ANYWHERE
        mean = skewed_mean(shares, LEVEL, within=within, of="prompts")
        lines.append((step, k, mean.value, mean.low, mean.high, len(groups), mean.reason))
    columns = ["step", "k", "value", "low", "high", "groups", "reason"]
    curve = pd.DataFrame(lines, columns=columns)
    return curve.assign(step=pd.Series([step for step, *_ in lines], dtype=object))


def _baselines(blocks: Sequence[Tensor], ks: Sequence[int]) -> pd.DataFrame:
    """Return signal and noise of every baseline and K over blocks of groups [groups, n]."""
    lines = []
    # In units of the largest reward, squares of weights neither overflow nor vanish.
    unit = max(float(rewards.abs().max()) for rewards in blocks) or 1.0
    for k, baseline in product(ks, sorted(BASELINES)):
        method = Method.parse("maxk", baseline, k)
        defined = [each for each in blocks if method.refusal(each.shape[-1]) is None]
        if weights := [method.weights(rewards / unit) for rewards in defined]:
            # A weight that all samples share has mean 0.
            spreads = [(w - w.mean(1, keepdim=True)).abs().amax(1) for w in weights]
            signal = (torch.cat(spreads) > _EQUAL).double().mean()
            noise = torch.cat([w.square().sum(1) for w in weights]).mean()
            lines.append((baseline, k, float(signal), float(noise)))
    rows = pd.DataFrame(lines, columns=["baseline", "k", "signal", "noise"])
    lowest = rows.groupby("k").noise.transform("min")
    relative = rows.noise.where(lowest > 0) / lowest
    return rows.assign(noise=rows.noise * unit**2, relative=relative)


def _trained_with(blocks: Sequence[tuple[Tensor, Tensor]]) -> tuple[str, int, str] | None:
    """Return the catalogue row that equals all logged advantages, its K, and the factor."""
    informative = []
    for rewards, advantages in blocks:
        rows = advantages.isfinite().all(1) & (rewards != rewards[:, :1]).any(1)
        if bool(rows.any()):
            informative.append((rewards[rows][:_COMPARED], advantages[rows][:_COMPARED]))
    smallest = min((float(values.abs().max()) for _, values in informative), default=0.0)
    if not smallest:
        return None
    binary = all(bool(((rewards == 0) | (rewards == 1)).all()) for rewards, _ in informative)
    digits = (
        d for d in (2, 3) if all(bool((x.round(decimals=d) == x).all()) for _, x in informative)
    )
    rounding = max(_ROUNDING, 10 ** -next(digits, 9) / smallest)
    few = [(rewards[:2], values[:2]) for rewards, values in informative]
    largest = max(rewards.shape[-1] for rewards, _ in informative)
    for k in range(1, min(largest, _LARGEST_K) + 1):
        if row_of(k, binary, few, rounding)[0]:
            name, factors = row_of(k, binary, informative, rounding)
            if name:
                return name, k, factor_name(factors, k, rounding)
    return None


def _advice(rows: pd.DataFrame, constant: bool) -> str:
    """Return the largest K that keeps the signal, and the baseline with the least noise there."""
    if constant:
        return "no K has a signal: all samples of a prompt have the same reward"
    best = rows[rows.signal > 0].sort_values("noise", kind="stable").groupby("k").first()
    if best.empty:
        return f"no baseline has a signal at K = {', '.join(map(str, sorted(set(rows.k))))}"
    signal_at_one = rows[rows.k == rows.k.min()].signal.max()
    k = max(
        (int(k) for k in best.index if best.signal[k] >= _KEEPS * signal_at_one),
        default=best.index[0],
    )
    share, baseline = f"{best.signal[k]:.0%}", best.baseline[k]
    return (
        f"K = {k} with {baseline}: {share} of the groups have a signal, and no unbiased baseline "
        "has less noise there"
    )
