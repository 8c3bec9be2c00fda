"""A gradient study of what a training has: rewards, and gradients of the samples."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from maxk_lab.errors import LabError
from maxk_lab.estimators.method import Method
from maxk_lab.execution.record import Record, content_of
from maxk_lab.gradients.sampled.measures import measure_cells
from maxk_lab.gradients.scores.pool import Part, ScorePool, Trajectories
from maxk_lab.own.audit import Audit, audit_rewards
from maxk_lab.reports.model import Summary
from maxk_lab.reports.summarise import summarise_records

BASELINES = ("none", "sample_loo", "pkpo_sloo", "centred", "subloo")
# Groups are cut from the samples of a prompt in so many ways.
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
) -> Summary | Audit:
    """Measure which estimator and baseline the samples of a training call for.

    `rewards` [P, M]: M i.i.d. samples of each of P prompts. Of their gradients ψ = ∇ log π one of:
    `scores` [P, M, D], the gradients or `GradientSketch`es of them; `gram` [P, M, M], their
    products ψ·ψ; or `log_probs` [P, M] with a graph, and the `parameters` that gradients are taken
    in (a backward pass for each sample). Groups of `n` samples are cut out of the M, for each K of
    `k`; by default the largest power of 2 that M holds four times, and the powers of 2 below it.

    Returns the report of a gradient study, its bias judged against a reference estimator. Without
    gradients it returns an `Audit`: what rewards alone say. Raises `LabError` for wrong shapes,
    numbers that are not finite, and samples too few for two groups.
    """
    values = _numbers(rewards, "rewards", 2)
    if scores is None and gram is None and log_probs is None:
        return audit_rewards(values, ks=_several(k))
    if log_probs is not None:
        scores = _gradients(log_probs, parameters)
    prompts, samples = values.shape
    sizes = _several(n) or (max(2, 2 ** ((samples // 4).bit_length() - 1)),)
    if min(sizes) < 1 or 2 * max(sizes) > samples:
        raise LabError(
            f"n must be from 1 to {samples // 2}, half of the samples of a prompt; got "
            f"{', '.join(map(str, sizes))}"
        )
    pool = _pool(values, scores, gram)
    cells = [
        {
            **{"id": f"{name}-{number}", "study": "gradient", "environment": {"name": name}},
            **{"policy": {}, "seed": 0, "stage": 0, "warmup": {}, "complete": False},
            **{"instances": prompts, "pool": samples, "partitions": _PARTITIONS},
            **{"estimator": estimator, "baseline": baseline, "n": size, "k": at},
        }
        for number, (size, at, estimator, baseline) in enumerate(
            _points(sizes, _several(k), estimators, baselines)
        )
    ]
    if not cells:
        raise LabError("no estimator can run with these baselines at this n and K")
    found: dict[Any, Any] = dict(measure_cells(pool, cells, seed=0))
    records = [_record(cell, found[cell["id"]]) for cell in cells]
    told = f"{prompts} prompts with {samples} samples each"
    return summarise_records(cells, records, name=name, description=told)


def measured_file(path: Path, **options: Any) -> Summary | Audit:
    """`measured` of a NumPy file with the arrays `rewards` and `scores` or `gram`.

    Nothing in it is executed. Raises `LabError` where there are no such arrays.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            there = {name: arrays[name] for name in ("rewards", "scores", "gram") if name in arrays}
    except (OSError, ValueError) as error:
        raise LabError(f"cannot read {path}: {error}") from error
    if "rewards" not in there:
        raise LabError(f"{path} has no array `rewards` [prompts, samples]")
    return measured(there.pop("rewards"), **there, **({"name": path.stem} | options))


def _points(
    sizes: Sequence[int], ks: Sequence[int], estimators: Sequence[str], baselines: Sequence[str]
) -> list[tuple[int, int, str, str]]:
    """The points that can run, each (n, K, estimator, baseline) once."""
    found: dict[tuple[int, int, str, str], None] = {}
    for size in sizes:
        at = ks or [2**power for power in range(size.bit_length()) if 2**power < size]
        for k, estimator, baseline in product(at, estimators, baselines):
            method = Method.parse(estimator, baseline, k)
            if method.refusal(size) is None and method.needed_weight in (None, "grad_norm"):
                found[size, method.k, method.estimator.name, method.baseline.name] = None
    return list(found)


def _pool(rewards: Tensor, scores: Any, gram: Any) -> ScorePool:
    """The pool of the samples, which nothing more is known of."""
    prompts, samples = rewards.shape
    if scores is not None:
        scores = _numbers(scores, "scores", 3)
    products = scores @ scores.mT if gram is None else _numbers(gram, "gram", 3)
    for numbers, what in ((scores, "scores"), (products, "gram")):
        shape = [prompts, samples, *([samples] if what == "gram" else [])]
        if numbers is not None and list(numbers.shape[: len(shape)]) != shape:
            raise LabError(
                f"{what} must begin with the shape {shape} of the rewards, got "
                f"{list(numbers.shape)}"
            )
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
    """The gradients of every sample, [P, M, D]."""
    if not parameters:
        raise LabError("log_probs need the parameters that gradients are taken in")
    chosen = list(parameters)
    rows = [
        torch.cat([g.flatten() for g in torch.autograd.grad(one, chosen, retain_graph=True)])
        for one in log_probs.flatten()
    ]
    return torch.stack(rows).view(*log_probs.shape, -1)


def _record(cell: dict[str, Any], found: dict[str, Any] | Exception) -> Record:
    if isinstance(found, Exception):
        raise found
    return Record(cell, "done", found, content=content_of(cell, found))


def _numbers(numbers: Any, name: str, dimensions: int) -> Tensor:
    try:
        found = torch.as_tensor(numbers).detach().double().cpu()
    except (TypeError, ValueError, RuntimeError):
        raise LabError(f"{name} must be numbers in {dimensions} dimensions") from None
    if found.dim() != dimensions:
        raise LabError(f"{name} must have {dimensions} dimensions, got {list(found.shape)}")
    if not bool(found.isfinite().all()):
        raise LabError(f"{name} must be finite; leave prompts with missing rewards out")
    return found


def _several(numbers: int | Sequence[int]) -> tuple[int, ...]:
    return (numbers,) if isinstance(numbers, int) else tuple(numbers)
