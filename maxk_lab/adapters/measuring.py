"""Measurements while a trainer trains: which estimator and baseline this run should have used."""

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

# The measures of a gradient study that are logged.
_MEASURES = ("relative_variance", "snr")


@dataclass
class Measuring:
    """Measures groups that a trainer has just trained on, every `every` steps.

    Of the parameters whose names match `parameters` (a regular expression; few layers are enough)
    gradients are sketched, in `dimension` numbers per sample, and each pair of `estimators` and
    `baselines` is measured at the Ks `k` (by default 1 and the trainer's own) in groups of `n`: two
    of them must fit into the trainer's groups, of whose size n is half by default. Without
    `parameters` only rewards are measured. A trainer begins it anew: each needs one of its own.

    `report` is the last report, an `Audit` without gradients. Raises `LabError` at construction for
    numbers below 1, unknown names and what is no regular expression.
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
        counts |= {"n": 1 if self.n is None else self.n, "k": min(ks, default=1)}
        for name, count in counts.items():
            if not isinstance(count, int) or count < 1:
                raise LabError(f"{name} must be a whole number of at least 1, got {count!r}")
        for estimator, baseline in product(self.estimators, self.baselines):
            Method.parse(estimator, baseline)
        try:
            re.compile(self.parameters or "")
        except re.error as error:
            raise LabError(f"parameters is no regular expression: {error}") from None

    def begin(self, size: int, k: int) -> None:
        """Begin anew with a trainer whose groups have `size` samples and that trains for K.

        Raises `LabError` where two groups of n do not fit into one of the trainer's or nothing can
        be measured, and warns of what of the Ks cannot.
        """
        self._sketch, self._last, self._ended, self.report = None, -1, math.nan, None
        ks = (self.k,) if isinstance(self.k, int) else tuple(self.k)
        self._ks = ks or tuple(sorted({1, k}))
        if self.parameters is None:
            return
        n = size // 2 if self.n is None else self.n
        if not 1 <= n <= size // 2:
            raise LabError(
                f"two groups of n = {n} must fit into the trainer's groups of {size} samples"
            )
        lacking, there = [], False
        for estimator, baseline, at in product(self.estimators, self.baselines, self._ks):
            method = Method.parse(estimator, baseline, at)
            # What a pair refuses at any size is no matter of this one.
            if method.needs_rewards_alone and method.refusal(n) is None:
                there = True
            elif method.needs_rewards_alone and method.refusal(4 * n + at) is None:
                lacking.append(f"{baseline} at K = {at}")
        if not there:
            raise LabError(f"no pair can be measured in groups of n = {n} at K = {self._ks}")
        if lacking:
            warnings.warn(
                f"in groups of n = {n}, two of which fit into the trainer's, cannot be measured: "
                f"{', '.join(lacking)}; larger groups of the trainer, or a smaller K, can",
                LabWarning,
                stacklevel=3,
            )

    def due(self, step: int) -> bool:
        """Whether the groups of this step are to be measured; True once for a step."""
        if step < self._last:  # trained again from the beginning
            self._last = -1
        begun = step // self.every > self._last // self.every
        self._last = step
        return begun

    def sketch(self, model: nn.Module) -> GradientSketch | None:
        """The sketch of the chosen layers, the same at every step; None without `parameters`."""
        if self._sketch is None and self.parameters is not None:
            self._sketch = GradientSketch(
                model, parameters=self.parameters, dimension=self.dimension
            )
        return self._sketch

    def of_trainer(
        self, accelerator: Any, model: nn.Module, rewards: Tensor, chunks: Iterator[Tensor] | None
    ) -> dict[str, float]:
        """The numbers to log of the groups `[P, M]` of all processes, on the main one.

        `chunks` are the log-probabilities of the own samples, `[n]` a pass, or None. The model is
        as in an evaluation meanwhile: without dropout, log π is a function.
        """
        begun, scores = time.perf_counter(), None
        model = accelerator.unwrap_model(model)
        sketch, was_training = self.sketch(model), model.training
        if sketch is not None and chunks is not None:
            model.eval()
            try:
                with torch.enable_grad(), sketch:
                    own = [sketch.scores(chunk, keep_graph=False) for chunk in chunks]
            finally:
                model.train(was_training)
            scores = accelerator.gather(torch.cat(own)).view(*rewards.shape, -1)
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
        """The numbers to log of groups `[P, M]` with their scores `[P, M, D]`, if there are any.

        In place of scores: `log_probs` `[P, M]` with a graph, and the `model` of the parameters; a
        backward pass for each sample of the first `prompts` groups.

        `no_signal/BASELINE@K`: the share of groups with equal weights. With scores, for each pair:
        `relative_variance`, tr Cov ĝ / ‖E ĝ‖², `snr`, its inverse, and `variance_over_lowest`,
        relative to the lowest variance of the unbiased pairs at this K. What is undefined is left
        out. `seconds` since `begun` (of `time.perf_counter`), and `share_of_time`, theirs in the
        time since the last measurement ended. Groups with a missing reward (NaN) are left out.
        """
        whole = rewards.isfinite().all(1).nonzero().flatten()
        if not len(whole):
            return {}
        rewards = rewards.detach().double().cpu()
        ks = [k for k in self._ks if k <= rewards.shape[1]]
        found = self.report = measure(rewards[whole.cpu()], k=ks)
        assert isinstance(found, Audit)
        logged: dict[str, float] = {}
        for baseline, at, signal in zip(
            found.rows.baseline, found.rows.k, found.rows.signal, strict=True
        ):
            logged[f"no_signal/{baseline}@{at}"] = 1.0 - signal
        gradients: dict[str, Any] = {}
        if scores is not None:
            gradients = {"scores": scores[whole.to(scores.device)]}
        elif log_probs is not None and model is not None and self.parameters is not None:
            whole = whole[: self.prompts]
            chosen = matching(model, self.parameters)
            gradients = {"log_probs": log_probs[whole], "parameters": [*chosen.values()]}
        if gradients:
            self.report = measure(
                rewards[whole.cpu()],
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
        return {f"maxk/{name}": float(one) for name, one in logged.items() if math.isfinite(one)}


def _pair_measures(report: RunReport) -> Iterator[tuple[str, float]]:
    """Yield the measures of every pair by their names in a log, also those without an interval."""
    rows: Any = report._report.studies["gradient"].rows
    lowest: dict[int, float] = {}
    unbiased = [row for row in rows if row.catalogued_unbiased]
    for row in unbiased:
        variance = row.intervals["variance"].value
        lowest[row.key.k] = min(variance, lowest.get(row.key.k, math.inf))
    for row in rows:
        key = row.key
        pair = key.baseline if key.estimator == "maxk" else f"{key.estimator} {key.baseline}"
        # Both numbers are undefined where the gradient is not significantly above 0.
        if math.isfinite(row.intervals["relative_variance"].value):
            for name in _MEASURES:
                yield f"{name}/{pair}@{key.k}", row.intervals[name].value
        # A biased estimate can have less variance by being shorter.
        if row in unbiased and lowest[key.k] > 0:
            ratio = row.intervals["variance"].value / lowest[key.k]
            yield f"variance_over_lowest/{pair}@{key.k}", ratio
