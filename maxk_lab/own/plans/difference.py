"""The difference of two logs in Max@K at every K, with a band that covers all K together.

P prompts, K from 1 to the samples of the smallest group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from maxk_lab.errors import LabError, count
from maxk_lab.estimators import maxk_curve
from maxk_lab.own.log import Log, read_log
from maxk_lab.statistics.bands import difference_band, ranges
from maxk_lab.statistics.estimates import Array


@dataclass(frozen=True)
class LogDifference:
    """Max@K of a log less that of another log.

    readings: how both were read. curve [k, first, second, difference, low, high, sign, prompts]:
    the band is simultaneous; `sign` is 1 or -1 where it leaves 0; `prompts` are the prompts at
    which it would, if the difference were as measured. A K without band has NaN there. paired: the
    prompts are the same in both. notes: which prompts were compared. binary: all rewards are 0
    or 1.
    """

    readings: tuple[str, str]
    curve: pd.DataFrame
    paired: bool
    notes: tuple[str, ...]
    binary: bool

    @property
    def verdict(self) -> str:
        """Return the K where the sign is settled, and the prompts that the rest needs."""
        value = "pass@K" if self.binary else "Max@K"
        signs = {1: f"{value} is higher in the first log", -1: f"{value} is lower", 0: "open"}
        with_band = self.curve[self.curve.low.notna()]
        without = self.curve[self.curve.low.isna()]
        parts = []
        for sign, words in signs.items():
            rows = with_band[with_band.sign == sign]
            if len(rows):
                parts.append(f"{words} at K = {ranges([*rows.k])}")
        if len(without):
            why = "all differences are equal, or too few prompts differ"
            parts.append(f"no band at K = {ranges([*without.k])}: {why}")
        rest = with_band[with_band.sign == 0].prompts
        finite = rest[np.isfinite(rest)]
        if len(finite):
            more = f"{finite.min():,.0f} prompts would settle one more K"
            if finite.max() > finite.min():
                more += f", and {finite.max():,.0f} all open K with a difference"
            parts.append(f"if the differences are as measured, {more}")
        return "; ".join(parts)


def compare_logs(
    paths: Sequence[Path | str], others: Sequence[Path | str], columns: Mapping[str, str | None]
) -> LogDifference:
    """Return Max@K of a log less that of another, over prompts.

    Prompts of both logs are compared in pairs, others are left out; without any common prompt the
    logs are independent samples. A prompt counts with the mean over its groups. `columns` name the
    roles as for `read_log`. Raises `LabError` for fewer than two prompts.
    """
    logs = [read_log([*map(Path, each)], columns) for each in (paths, others)]
    for log in logs:
        if log.table.empty:
            raise LabError(f"no sample: {', '.join([log.reading, *log.left_out])}")
    size = min(_groups(log).size().min() for log in logs)
    values = [_prompt_values(log, int(size)) for log in logs]
    common = values[0].index.intersection(values[1].index)
    paired = len(common) > 0
    sizes = [len(each) for each in values]
    notes = [f"{sizes[0]:,} and {sizes[1]:,} prompts, none in both: independent samples"]
    if paired:
        values = [each.loc[common] for each in values]
        left_out = [each - len(common) for each in sizes]
        notes = [f"{count(len(common), 'prompt')} in both logs, compared in pairs"]
        if any(left_out):
            notes.append(f"left out, in one log only: {left_out[0]:,} and {left_out[1]:,}")
    if min(map(len, values)) < 2:
        raise LabError(f"two prompts at least are needed: {notes[0]}")
    first, second = (each.to_numpy() for each in values)
    samples: list[Array] = [first - second] if paired else [first, second]
    band = difference_band(samples)
    columns_of = {
        "k": np.arange(1, int(size) + 1),
        "first": first.mean(0),
        "second": second.mean(0),
        "difference": band.mean,
        "low": band.low,
        "high": band.high,
        "sign": band.settled.astype(int),
        "prompts": band.needed,
    }
    readings = (logs[0].reading, logs[1].reading)
    binary = all(bool(log.table.reward.isin((0, 1)).all()) for log in logs)
    return LogDifference(readings, pd.DataFrame(columns_of), paired, tuple(notes), binary)


def _groups(log: Log) -> Any:
    """Return the groups of a log: the samples of a prompt in a step."""
    by = [name for name in ("step", "group") if name in log.table]
    return log.table.groupby(by, sort=False)


def _prompt_values(log: Log, largest: int) -> pd.DataFrame:
    """Return Max@K for K up to `largest` of each prompt, the mean over its groups."""
    number, sizes = _groups(log).ngroup(), _groups(log).reward.transform("size")
    table = log.table.assign(number=number).sort_values("number", kind="stable")
    parts = []
    for n, rows in table.groupby(sizes.loc[table.index].to_numpy()):
        rewards = torch.from_numpy(rows.reward.to_numpy(dtype=float, copy=True))
        curves = maxk_curve(rewards.view(-1, int(n)))[:, :largest].numpy()
        parts.append(pd.DataFrame(curves, index=rows.group.to_numpy()[:: int(n)]))
    return pd.concat(parts).groupby(level=0, sort=False).mean()
