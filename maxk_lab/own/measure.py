"""A gradient study of a user's rewards and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from maxk_lab.errors import LabError
from maxk_lab.estimators.method import Method
from maxk_lab.execution.record import Record, content_of
from maxk_lab.gradients.sampled.measures import measure_cells
from maxk_lab.gradients.scores.pool import Part, ScorePool, Trajectories
from maxk_lab.own.arrays import numbers_of, read_arrays, score_products
from maxk_lab.own.audit import Audit, audit_rewards
from maxk_lab.reports.report import Report, make_report

BASELINES = ("none", "sample_loo", "pkpo_sloo", "centred", "subloo")
# Random partitions of the samples of a prompt into groups.
_PARTITIONS = 8


def measured(
    rewards: Any,
    *,
    gram: Any = None,
    scores: Any = None,
    log_probs: Tensor | None = None,
    parameters: Sequence[nn.Parameter] = (),
    n: int | Sequence[int] = (),
    k: int | Sequence[int] = (),
    estimators: Sequence[str] = ("maxk",),
    baselines: Sequence[str] = BASELINES,
    name: str = "measured",
) -> Report | Audit:
    """Measure which estimator and baseline suit the samples of a training.

    `rewards` [P, M]: M i.i.d. samples of each of P prompts. Their gradients ψ = ∇ log π are passed
    in one of three forms: `scores` [P, M, D], the gradients or their `GradientSketch`es; `gram` [P,
    M, M], the products ψ·ψ; or `log_probs` [P, M] with a graph, and `parameters` for a backward
    pass per sample. Groups of `n` samples are cut from the M samples, for each K of `k`. By default
    n is the largest power of 2 that fits four times into M, at least 2. By default the K are all
    smaller powers of 2.

    Returns the report of a gradient study, with a reference estimator for the bias. Without
    gradients it returns an `Audit` of the rewards. Raises `LabError` for wrong shapes, numbers that
    are not finite, and too few samples for two groups.
    """
    values = numbers_of(rewards, "rewards", 2)
    sources = [x is not None for x in (scores, gram, log_probs)]
    if sum(sources) > 1:
        raise LabError("pass one of scores, gram and log_probs")
    if not any(sources):
        return audit_rewards(values, ks=_several(k))
    if log_probs is not None:
        scores = _gradients(log_probs, parameters)
    prompts, samples = values.shape
    sizes = _several(n) or (max(2, 2 ** ((samples // 4).bit_length() - 1)),)
    if min(sizes) < 1 or 2 * max(sizes) > samples:
        listed = ", ".join(map(str, sizes))
        raise LabError(f"n must be from 1 to half of the {samples} samples a prompt; got {listed}")
    pool = _pool(values, scores, gram)
    shared: dict[str, Any] = {"study": "gradient", "environment": {"name": name}, "policy": {}}
    shared |= {"seed": 0, "stage": 0, "warmup": {}, "complete": False}
    shared |= {"instances": prompts, "pool": samples, "partitions": _PARTITIONS}
    points = _points(sizes, _several(k), estimators, baselines)
    cells = [shared | point | {"id": f"{name}-{i}"} for i, point in enumerate(points)]
    if not cells:
        raise LabError("no estimator can run with these baselines at this n and K")
    measures: dict[Any, Any] = dict(measure_cells(pool, cells, seed=0))
    for result in measures.values():
        if isinstance(result, Exception):
            raise result
    results = [(cell, measures[cell["id"]]) for cell in cells]
    records = [Record(cell, "done", x, content=content_of(cell, x)) for cell, x in results]
    description = f"{prompts} prompts with {samples} samples each"
    return make_report(cells, records, name=name, description=description)


def measured_file(path: Path, **options: Any) -> Report | Audit:
    """Return `measured` of a file with the array `rewards` and optionally `scores` or `gram`.

    The file is an .npz file, a .pt file with a dict of tensors, or an .npy file of rewards alone.
    No code in the file is run. Raises `LabError` for any other file.
    """
    arrays = read_arrays(path)
    return measured(arrays.pop("rewards"), **arrays, **({"name": path.stem} | options))


def _points(
    sizes: Sequence[int], ks: Sequence[int], estimators: Sequence[str], baselines: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the points that can run, each estimator, baseline, n and K once."""
    points: list[dict[str, Any]] = []
    for size in sizes:
        powers = [2**power for power in range(size.bit_length()) if 2**power < size]
        for k, estimator, baseline in product(ks or powers, estimators, baselines):
            method = Method.parse(estimator, baseline, k)
            names = {"estimator": method.estimator.name, "baseline": method.baseline.name}
            point = {**names, "n": size, "k": method.k}
            runs = method.refusal(size) is None and method.needed_weight in (None, "grad_norm")
            if runs and point not in points:
                points.append(point)
    return points


def _pool(rewards: Tensor, scores: Any, gram: Any) -> ScorePool:
    """Return the pool of the samples."""
    prompts, samples = rewards.shape
    products = score_products(rewards, scores, gram)
    nothing, nan = torch.zeros(samples, 0).double(), torch.full((samples,), torch.nan).double()
    parts = [
        Part(
            Trajectories(rewards[i], nan, nan, torch.ones_like(nan)),
            rows=torch.arange(samples),
            inner=nothing,
            norm=nothing[0],
            value=nothing[0],
            gram=products[i],
        )
        for i in range(prompts)
    ]
    return ScorePool(tuple(parts), (), 0.0)


def _gradients(log_probs: Tensor, parameters: Sequence[nn.Parameter]) -> Tensor:
    """Return the gradients of every sample, [P, M, D]."""
    if not parameters:
        raise LabError("log_probs need the parameters that gradients are taken in")
    chosen = list(parameters)
    rows = [
        torch.cat([g.flatten() for g in torch.autograd.grad(log_prob, chosen, retain_graph=True)])
        for log_prob in log_probs.flatten()
    ]
    return torch.stack(rows).view(*log_probs.shape, -1)


def _several(numbers: int | Sequence[int]) -> tuple[int, ...]:
    return (numbers,) if isinstance(numbers, int) else tuple(numbers)
