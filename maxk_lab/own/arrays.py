"""Arrays of rewards and scores in a file (.npz, .npy, .pt), read without running code in it.

P prompts, M samples, D numbers of a score.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import LabError

SUFFIXES = (".npz", ".npy", ".pt", ".pth")
# Relative errors of products of long gradients in single precision.
_ROUNDING = 1e-3
_NAMES = ("rewards", "scores", "gram")
_LARGEST = 1e15  # fourth powers of variances are finite


def read_arrays(path: Path) -> dict[str, Any]:
    """Return the array `rewards` of a file, and `scores` and `gram` if the file has them.

    Raises `LabError` for a file without arrays, or without rewards.
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
    return arrays


def score_products(rewards: Tensor, scores: Any, gram: Any) -> Tensor:
    """Return the products ψ·ψ of each prompt, [P, M, M], from `scores` [P, M, D] or `gram`."""
    prompts, samples = rewards.shape
    name = "scores" if gram is None else "gram"
    numbers = numbers_of(scores if gram is None else gram, name, 3)
    shape = [prompts, samples, numbers.shape[2] if gram is None else samples]
    if list(numbers.shape) != shape:
        raise LabError(f"{name} must have the shape {shape}, got {list(numbers.shape)}")
    products = numbers @ numbers.mT if gram is None else numbers
    if gram is not None:
        _check_gram(products, torch.as_tensor(gram).dtype)
    return products


def _content(path: Path) -> Mapping[str, Any]:
    """Return the arrays of a file by name; a single array is the rewards."""
    if path.suffix.lower() in (".pt", ".pth"):
        content = torch.load(path, map_location="cpu", weights_only=True)
    else:
        content = np.load(path, allow_pickle=False)
    return content if isinstance(content, Mapping) else {"rewards": content}


def _check_gram(gram: Tensor, dtype: torch.dtype) -> None:
    """Raise `LabError` for matrices [P, M, M], stored in `dtype`, that are not products ψ·ψ."""
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


def numbers_of(numbers: Any, name: str, dimensions: int) -> Tensor:
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
