"""A gradient study of what a training has: rewards, and gradients of the samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError
from maxk_lab.estimators.method import Method
from maxk_lab.execution.record import Record, content_of
from maxk_lab.gradients.sampled.measures import measure_cells
from maxk_lab.gradients.scores.pool import Part, ScorePool, Trajectories
from maxk_lab.own.audit import Audit, audit_rewards
from maxk_lab.reports.report import Report, make_report

BASELINES = ("none", "sample_loo", "pkpo_sloo", "centred", "subloo")
# Random partitions of the samples of a prompt into groups.
_PARTITIONS = 8
# Relative errors of products of long gradients in single precision.
_ROUNDING = 1e-3
_NAMES = ("rewards", "scores", "gram")
_LARGEST = 1e15  # fourth powers of variances are finite


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
    """`measured` of a file with the arrays `rewards` and, if any, `scores` or `gram`.

    It is an .npz file, a .pt file with a dict of tensors, or an .npy file of rewards alone. No code
    in it runs. Raises `LabError` for any other file.
    """
    if not path.is_file():
        raise LabError(f"{path.absolute()} is no file")
    try:
        content = _content(path)
        arrays = {name: content[name] for name in _NAMES if name in content}
    except Exception:  # NumPy and PyTorch raise many kinds, and advise to load pickles
        raise LabError(
            f"{path} holds no arrays of numbers: write an .npz file with numpy.savez, an .npy file "
            "with numpy.save, or a .pt file with torch.save of a dict of tensors"
        ) from None
    if "rewards" not in arrays:
        names = [str(name) for name in content]
        also, listed = did_you_mean("rewards", names), ", ".join(names) or "none"
        raise LabError(f"{path} has no array `rewards` [prompts, samples]{also}; it has {listed}")
    return measured(arrays.pop("rewards"), **arrays, **({"name": path.stem} | options))


def _content(path: Path) -> Mapping[str, Any]:
    """Return the arrays of a file by their names; a lone array is the rewards."""
    if path.suffix.lower() in (".pt", ".pth"):
        content = torch.load(path, map_location="cpu", weights_only=True)
    else:
        content = np.load(path, allow_pickle=False)
    return content if isinstance(content, Mapping) else {"rewards": content}


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
    name = "scores" if gram is None else "gram"
    numbers = _numbers(scores if gram is None else gram, name, 3)
    shape = [prompts, samples, numbers.shape[2] if gram is None else samples]
    if list(numbers.shape) != shape:
        raise LabError(f"{name} must have the shape {shape}, got {list(numbers.shape)}")
    products = numbers @ numbers.mT if gram is None else numbers
    if gram is not None:
        _check_gram(products, torch.as_tensor(gram).dtype)
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


def _check_gram(gram: Tensor, dtype: torch.dtype) -> None:
    """Raise `LabError` for matrices [P, M, M], stored in `dtype`, that are no products ψ·ψ."""
    rounding = max(_ROUNDING, 16 * torch.finfo(dtype).eps if dtype.is_floating_point else 0)
    size = torch.linalg.matrix_norm(gram)[:, None, None]
    lowered = gram + rounding * size * torch.eye(gram.shape[1])
    wrong = {
        "is not symmetric": ((gram - gram.mT).abs() > rounding * size).flatten(1).any(1),
        "has a negative squared norm on its diagonal": (gram.diagonal(0, 1, 2) < 0).any(1),
        "is not positive semidefinite": torch.linalg.cholesky_ex(lowered).info * size.flatten() > 0,
    }
    for problem, prompts in wrong.items():
        if bool(prompts.any()):
            first = int(prompts.nonzero()[0])
            raise LabError(f"gram {problem} at prompt {first}: it must hold the products ψ·ψ")


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


def _numbers(numbers: Any, name: str, dimensions: int) -> Tensor:
    """Return numbers as a tensor in double precision. Raises `LabError` for any other values."""
    try:
        tensor = torch.as_tensor(numbers).detach().cpu()
        if tensor.is_complex():
            raise TypeError
        is_small = bool((tensor.double().abs() <= _LARGEST).all())
    except (TypeError, ValueError, RuntimeError):
        raise LabError(f"{name} must be numbers in {dimensions} dimensions") from None
    if tensor.dim() != dimensions or not tensor.numel():
        raise LabError(f"{name} must have {dimensions} dimensions, got {list(tensor.shape)}")
    if not is_small:
        raise LabError(
            f"{name} must be finite, at most {_LARGEST:g}; leave prompts with missing rewards out"
        )
    return tensor.double()


def _several(numbers: int | Sequence[int]) -> tuple[int, ...]:
    return (numbers,) if isinstance(numbers, int) else tuple(numbers)
