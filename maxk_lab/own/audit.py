"""The audit of a log: the Max@K curve that was reached, groups without signal, what was trained on.

Rewards of groups of samples, drawn from the same prompt, say all of it but for the gradient itself:
for variances, the scores of samples are taken to be orthogonal, with the norms that were logged or
else with equal ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from maxk_lab.errors import LabError
from maxk_lab.estimators import maxk_curve
from maxk_lab.estimators.method import Method
from maxk_lab.own.check import factor_name, row_of
from maxk_lab.own.log import Log, open_log
from maxk_lab.ranges import ANYWHERE, SHARES
from maxk_lab.statistics.seeds import instance_mean

LEVEL = 0.95
# Prompts fall into so many clusters, by their hash: memory does not grow with the log.
_CLUSTERS = 4096
# Groups whose advantages are compared with the rows of the catalogue, at the most.
_COMPARED = 200
# Rows whose groups without signal and variances are told, and at which K.
_BASELINES = ("none", "sample_loo", "centred", "subloo")
# A K keeps the signal where so large a share of the groups has one that has it at K = 1.
_KEPT = 0.9
_CURVE = ["step", "k", "value", "low", "high", "groups"]
_ROUNDING = 1e-3  # logs may be written with few digits


@dataclass(frozen=True)
class Audit:
    """The findings of an audit.

    `curve` [step, k, value, low, high, groups]: the unbiased Max@K, with intervals over prompts;
    step -1 is all steps together. `rows` [baseline, k, signal, noise, relative, effective]: the
    share of the groups with a signal, the mean of Σ w²‖ψ‖², that over the lowest at this K, and how
    many samples carry the weight of a group with a signal, (Σ|w|)²/Σw². `trained` is the row of the
    catalogue that logged advantages are, its K and the factor; None if they are none.
    """

    curve: pd.DataFrame
    rows: pd.DataFrame
    trained: tuple[str, int, str] | None
    samples: int
    groups: int
    missing: int
    damaged: int
    steps: int
    sizes: tuple[int, int]
    constant: float
    binary: bool
    equal_norms: bool
    advice: str


def audit(
    *paths: Path | str,
    reward: str | None = None,
    group: str | None = None,
    step: str | None = None,
    advantage: str | None = None,
    norm: str | None = None,
    ks: Sequence[int] = (),
) -> Audit:
    """Audit a log of rewards: JSON lines, CSV or Parquet files, or folders of them.

    The other arguments name its columns where they are not as in `log.NAMES`: the reward of a
    sample, its group (samples of one prompt in one step), its step, the advantage that it was
    trained with, and its squared score norm. Rows of a step need not be in order, but steps do;
    without steps, the rows of a group are next to each other. `ks` are the K that are told, by
    default the powers of 2. Raises `LabError` where nothing can be read.
    """
    asked = {"reward": reward, "group": group, "step": step, "advantage": advantage, "norm": norm}
    log = open_log([Path(path) for path in paths], asked)
    sums = _Sums(tuple(ks))
    for rows in _whole_steps(log):
        sums.add(rows)
    if not sums.groups:
        raise LabError(f"{paths[0]} has no group of two samples with rewards")
    return sums.result(damaged=log.damaged)


def audit_rewards(rewards: Tensor, *, ks: Sequence[int] = ()) -> Audit:
    """Audit the rewards of samples of prompts, [P, M]."""
    prompts, samples = rewards.shape
    table = {"group": np.repeat(np.arange(prompts), samples), "reward": rewards.flatten().numpy()}
    sums = _Sums(tuple(ks))
    sums.add(pd.DataFrame(table))
    if not sums.groups:
        raise LabError(f"every prompt needs two samples at least, got {samples}")
    return sums.result(damaged=0)


def _whole_steps(log: Log) -> Iterator[pd.DataFrame]:
    """The rows of a log with all rows of a step, or of a group where there are no steps."""
    key = "step" if "step" in log.columns else "group"
    rest = pd.DataFrame()
    for table in log:
        table = pd.concat([rest, table], ignore_index=True) if len(rest) else table
        if table.empty:
            continue
        last = table[key].iloc[-1]
        begins = int((table[key] != last).to_numpy().nonzero()[0].max(initial=-1)) + 1
        if begins:
            yield table.iloc[:begins]
        rest = table.iloc[begins:]
    if len(rest):
        yield rest


class _Sums:
    """The sums of a log, which do not grow with it but for a line per step and K."""

    def __init__(self, ks: tuple[int, ...]) -> None:
        self.ks = ks
        self.samples = self.groups = self.missing = self.constant = 0
        self.binary = self.equal_norms = True
        self.sizes = 10**9, 0
        self.curve: list[tuple[Any, ...]] = []
        self.steps = 0
        self.values: dict[int, np.ndarray[Any, Any]] = {}  # [clusters, 2] by K: sums and counts
        self.rows: dict[tuple[str, int], np.ndarray[Any, Any]] = {}  # groups, with signal, noise
        self.compared: list[tuple[Tensor, Tensor]] = []

    def add(self, table: pd.DataFrame) -> None:
        """Add the rows of whole steps."""
        self.missing += int(table.reward.isna().sum())
        rows = table[table.reward.notna()]
        keys = [name for name in ("step", "group") if name in rows]
        group = rows.groupby(keys, sort=False).ngroup()
        rows = rows.assign(size=group.groupby(group).transform("size"), at=group)
        curves = []
        for n, groups in rows[rows["size"] > 1].sort_values("at", kind="stable").groupby("size"):
            curves += list(self._add(int(str(n)), groups))
        if "step" in table and curves:
            by_step = pd.concat(curves, ignore_index=True).groupby(["step", "k"], sort=False).value
            self.curve += [(*place, *self._mean(values)) for place, values in by_step]
            self.steps += int(rows.step.nunique())

    def _mean(self, values: Any) -> tuple[float, float, float, int]:
        """The mean of values of prompts, and its interval; NaN where too few of them vary."""
        within = SHARES if self.binary and SHARES.holds(values) else ANYWHERE
        found = instance_mean(list(values), LEVEL, within)
        return found.value, found.low, found.high, len(values)

    def _add(self, n: int, rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
        """Add groups of n samples, whose rows are in order; their Max@K by step."""

        def by_group(name: str) -> Tensor:
            return torch.from_numpy(rows[name].to_numpy(copy=True)).view(-1, n)

        rewards, first = by_group("reward"), rows.iloc[::n]
        self.samples += rewards.numel()
        self.groups += len(rewards)
        self.constant += int((rewards == rewards[:, :1]).all(1).sum())
        self.binary &= bool(((rewards == 0) | (rewards == 1)).all())
        self.sizes = min(self.sizes[0], n), max(self.sizes[1], n)
        prompts = first.group.astype(str).to_numpy().astype(object)
        cluster = pd.util.hash_array(prompts) % _CLUSTERS
        ks = [k for k in self.ks or (2**power for power in range(n.bit_length())) if k <= n]
        curve = maxk_curve(rewards).numpy()
        for k in ks:
            sums = self.values.setdefault(k, np.zeros((_CLUSTERS, 2)))
            np.add.at(sums, cluster, np.stack([curve[:, k - 1], np.ones(len(curve))], 1))
            if "step" in rows:
                values = {"step": first.step.to_numpy(), "k": k, "value": curve[:, k - 1]}
                yield pd.DataFrame(values)
        norms = torch.ones_like(rewards)
        if "norm" in rows and not rows.norm.isna().any():
            norms, self.equal_norms = by_group("norm"), False
        for k in ks:
            for baseline in _BASELINES:
                self._weigh(Method.parse("maxk", baseline, k), rewards, norms)
        room = _COMPARED - sum(len(one) for one, _ in self.compared)
        if "advantage" in rows and room > 0:
            self.compared.append((rewards[:room], by_group("advantage")[:room]))

    def _weigh(self, method: Method, rewards: Tensor, norms: Tensor) -> None:
        if method.refusal(rewards.shape[-1]) is not None:
            return
        weights = method.weights(rewards)
        # What all samples share moves nothing in the mean.
        signal = (weights - weights.mean(1, keepdim=True)).abs().amax(1) > 1e-12
        noise = float((weights.square() * norms).sum())
        key = method.baseline.name, method.k
        size = weights.abs().sum(1).square() / weights.square().sum(1).clamp(min=1e-300)
        sums = self.rows.setdefault(key, np.zeros(4))
        sums += [len(rewards), int(signal.sum()), noise, float(size[signal].sum())]

    def result(self, *, damaged: int) -> Audit:
        """The findings of all that was added."""
        whole = []
        for k, sums in sorted(self.values.items()):
            value, counts = sums[:, 0].sum() / sums[:, 1].sum(), sums[:, 1]
            # What a cluster of prompts adds to the mean, as if all had as many groups.
            far = (sums[:, 0] - value * counts) / counts[counts > 0].mean()
            _, low, high, _ = self._mean(value + far[counts > 0])
            whole.append((-1, k, value, low, high, int(counts.sum())))
        rows = pd.DataFrame(
            [
                (baseline, k, signal / count, noise / count, size / max(signal, 1))
                for (baseline, k), (count, signal, noise, size) in self.rows.items()
            ],
            columns=["baseline", "k", "signal", "noise", "effective"],
        ).sort_values(["k", "baseline"], kind="stable", ignore_index=True)
        rows["relative"] = rows.noise / rows.groupby("k").noise.transform("min")
        steps = sorted(self.curve, key=lambda line: line[:2])
        curve = pd.DataFrame([*whole, *steps], columns=_CURVE)
        return Audit(
            curve,
            rows,
            _trained_with(self.compared),
            self.samples,
            self.groups,
            self.missing,
            damaged,
            self.steps,
            self.sizes,
            self.constant / self.groups,
            self.binary,
            self.equal_norms,
            _advice(rows),
        )


def _trained_with(compared: Sequence[tuple[Tensor, Tensor]]) -> tuple[str, int, str] | None:
    """The row of the catalogue that all logged advantages are, its K, and their factor."""
    blocks = []
    for rewards, advantages in compared:
        telling = advantages.isfinite().all(1) & (rewards != rewards[:, :1]).any(1)
        if bool(telling.any()):
            blocks.append((rewards[telling], advantages[telling]))
    if not blocks:
        return None
    binary = all(bool(((rewards == 0) | (rewards == 1)).all()) for rewards, _ in blocks)
    for k in range(1, max(rewards.shape[-1] for rewards, _ in blocks) + 1):
        name, factors = row_of(k, binary, blocks, _ROUNDING)
        if name:
            return name, k, factor_name(factors, k)
    return None


def _advice(rows: pd.DataFrame) -> str:
    """The largest K that keeps the signal, and the baseline with the least noise there."""
    best = rows[rows.signal > 0].sort_values("noise", kind="stable").groupby("k").first()
    if best.empty:
        return "no group has a signal: all samples of a prompt have the same reward"
    at_one = rows[rows.k == rows.k.min()].signal.max()
    keeping = [int(k) for k in best.index if best.signal[k] >= _KEPT * at_one]
    k = max(keeping, default=int(best.index[0]))
    baseline, signal = best.baseline[k], best.signal[k]
    return (
        f"K = {k} with {baseline}: {signal:.0%} of the groups have a signal, and no unbiased "
        f"baseline has less noise there"
    )
