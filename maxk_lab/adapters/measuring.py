"""Measurements during a training: which estimator and baseline suit it best."""

from __future__ import annotations

import math
import re
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from maxk_lab.api import RunReport, measure
from maxk_lab.errors import LabError, LabWarning
from maxk_lab.estimators.method import Method
from maxk_lab.own.audit import Audit
from maxk_lab.own.measure import BASELINES
from maxk_lab.own.sketch import GradientSketch, matching

# The logged measures of a gradient study.
_MEASURES = ("relative_variance", "snr")


@dataclass
class Measuring:
    """Measures the groups of a training step, every `every` steps.

    parameters: a regular expression for the names of the measured parameters; few layers are
    enough. Without it only rewards are measured. k: the values of K, by default 1 and the trained
    K. n: the size of the measured groups, by default half of the trainer's; two must fit into a
    group of the trainer. dimension: numbers of a gradient sketch per sample. Each trainer needs its
    own `Measuring`.

    `report` is the last report: an `Audit` without gradients, None before the first. Raises
    `LabError` at construction for numbers below 1, unknown names and an invalid expression.
    """

    every: int = 50
    parameters: str | None = None
    k: int | Sequence[int] = ()
    n: int | None = None
    estimators: Sequence[str] = ("maxk",)
    baselines: Sequence[str] = BASELINES
    dimension: int = 1024
    prompts: int = 16
    report: RunReport | Audit | None = field(default=None, init=False)
    _sketch: GradientSketch | None = field(default=None, init=False, repr=False)
    _ks: tuple[int, ...] = field(default=(), init=False, repr=False)
    _last: int = field(default=-1, init=False, repr=False)
    _ended: float = field(default=math.nan, init=False, repr=False)

    def __post_init__(self) -> None:
        ks = (self.k,) if isinstance(self.k, int) else tuple(self.k)
        counts = {"every": self.every, "dimension": self.dimension, "prompts": self.prompts}
        counts |= {"n": 1 if self.n is None else self.n}
        for name, count in (*counts.items(), *(("k", k) for k in ks)):
            if not isinstance(count, int) or count < 1:
                raise LabError(f"{name} must be a whole number of at least 1, got {count!r}")
        for estimator, baseline in product(self.estimators, self.baselines):
            Method.parse(estimator, baseline)
        try:
            re.compile(self.parameters or "")
        except re.error as error:
            raise LabError(f"parameters is not a regular expression: {error}") from None

    def begin(self, size: int, k: int) -> None:
        """Start with a trainer that has groups of `size` samples and trains for K.

        Raises `LabError` if two groups of n do not fit into a group of the trainer, or nothing can
        be measured. Warns of pairs that cannot be measured.
        """
        self._sketch, self._last, self._ended, self.report = None, -1, math.nan, None
        ks = (self.k,) if isinstance(self.k, int) else tuple(self.k)
        self._ks = ks or tuple(sorted({1, k}))
        words = ", ".join(map(str, self._ks))
        if self.parameters is None:
            if size < 2 or min(self._ks) > size:
                raise LabError(f"groups of n = {size} are too small to measure K = {words}")
            return
        n = size // 2 if self.n is None else self.n
        if not 1 <= n <= size // 2:
            raise LabError(
                f"two groups of n = {n} must fit into the trainer's groups of {size} samples"
            )
        lacking, measurable = [], False
        for estimator, baseline, at in product(self.estimators, self.baselines, self._ks):
            method = Method.parse(estimator, baseline, at)
            # No warning for a pair that fits no group size.
            if method.needs_rewards_alone and method.refusal(n) is None:
                measurable = True
            elif method.needs_rewards_alone and method.refusal(4 * n + at) is None:
                lacking.append(f"{baseline} at K = {at}")
        if not measurable:
            raise LabError(f"no pair can be measured in groups of n = {n} at K = {words}")
        if lacking:
            warnings.warn(
                f"groups of n = {n} are too small to measure {', '.join(lacking)}; "
                "use larger groups in the trainer, or a smaller K",
                LabWarning,
                stacklevel=3,
            )

    def due(self, step: int) -> bool:
        """Return whether to measure the groups of this step; True once for a step."""
        if step < self._last:  # a new training
            self._last = -1
        measures = step // self.every > self._last // self.every
        self._last = step
        return measures

    def sketch(self, model: nn.Module) -> GradientSketch | None:
        """Return the sketch of the chosen layers, the same at every step; None without layers."""
        if self._sketch is None and self.parameters is not None:
            self._sketch = GradientSketch(
                model, parameters=self.parameters, dimension=self.dimension
            )
        return self._sketch

    def measure_trainer(
        self, accelerator: Any, model: nn.Module, rewards: Tensor, chunks: Iterator[Tensor] | None
    ) -> dict[str, float]:
        """Return the numbers of the groups `[P, M]` of all processes to log, on the main process.

        chunks: the log-probabilities of this process's samples, `[n]` per pass, or None. The model
        is in evaluation mode meanwhile, because dropout makes log π random.
        """
        begun, scores = time.perf_counter(), None
        model = accelerator.unwrap_model(model)
        sketch, was_training = self.sketch(model), model.training
        if sketch is not None and chunks is not None:
            model.eval()
            try:
                with torch.enable_grad(), sketch:
                    sketched = [sketch.scores(chunk, keep_graph=False) for chunk in chunks]
            finally:
                model.train(was_training)
            scores = accelerator.gather(torch.cat(sketched)).view(*rewards.shape, -1)
        return (
            self.metrics(rewards, begun=begun, scores=scores) if accelerator.is_main_process else {}
        )

    def metrics(
        self,
        rewards: Tensor,
        *,
        begun: float,
        scores: Tensor | None = None,
        log_probs: Tensor | None = None,
        model: nn.Module | None = None,
    ) -> dict[str, float]:
        """Return the numbers of groups `[P, M]` to log.

        scores `[P, M, D]` or None. Instead of scores: `log_probs` `[P, M]` with a graph, and the
        `model` of the parameters; this takes a backward pass for each sample of the first `prompts`
        groups. begun: the start, of `time.perf_counter`. Groups with a missing reward (NaN) and
        undefined numbers are left out.

        `no_signal/BASELINE@K`: the share of groups with equal weights. With scores, for each pair:
        `relative_variance`, tr Cov ĝ / ‖E ĝ‖²; `snr`, its inverse; `variance_over_lowest`, the
        ratio to the lowest variance of the unbiased pairs at this K. `seconds`: the duration.
        `share_of_time`: its share in the time since the last measurement ended.
        """
        complete = rewards.isfinite().all(1).nonzero().flatten()
        if not len(complete):
            return {}
        rewards = rewards.detach().double().cpu()
        ks = [k for k in self._ks if k <= rewards.shape[1]]
        audit = self.report = measure(rewards[complete.cpu()], k=ks)
        assert isinstance(audit, Audit)
        logged: dict[str, float] = {}
        for baseline, at, signal in zip(
            audit.rows.baseline, audit.rows.k, audit.rows.signal, strict=True
        ):
            logged[f"no_signal/{baseline}@{at}"] = 1.0 - signal
        gradients: dict[str, Any] = {}
        if scores is not None:
            gradients = {"scores": scores[complete.to(scores.device)]}
        elif log_probs is not None and model is not None and self.parameters is not None:
            complete = complete[: self.prompts]
            chosen = matching(model, self.parameters)
            gradients = {"log_probs": log_probs[complete], "parameters": [*chosen.values()]}
        if gradients:
            self.report = measure(
                rewards[complete.cpu()],
                **gradients,
                n=rewards.shape[1] // 2 if self.n is None else self.n,
                k=list(self._ks),
                estimators=self.estimators,
                baselines=self.baselines,
            )
            assert isinstance(self.report, RunReport)
            logged.update(_pair_measures(self.report))
        now = time.perf_counter()
        logged |= {"seconds": now - begun, "share_of_time": (now - begun) / (now - self._ended)}
        self._ended = now
        return {f"maxk/{name}": float(x) for name, x in logged.items() if math.isfinite(x)}


def _pair_measures(report: RunReport) -> Iterator[tuple[str, float]]:
    """Yield the names in a log and the measures of every pair."""
    rows: Any = report._report.studies["gradient"].rows
    lowest: dict[int, float] = {}
    unbiased = [row for row in rows if row.catalogued_unbiased]
    for row in unbiased:
        variance = row.intervals["variance"].value
        lowest[row.key.k] = min(variance, lowest.get(row.key.k, math.inf))
    for row in rows:
        key = row.key
        pair = key.baseline if key.estimator == "maxk" else f"{key.estimator} {key.baseline}"
        # Both numbers are undefined if the gradient is not significantly above 0.
        if math.isfinite(row.intervals["relative_variance"].value):
            for name in _MEASURES:
                yield f"{name}/{pair}@{key.k}", row.intervals[name].value
        # A biased estimate can have less variance because it is shorter.
        if row in unbiased and lowest[key.k] > 0:
            ratio = row.intervals["variance"].value / lowest[key.k]
            yield f"variance_over_lowest/{pair}@{key.k}", ratio
