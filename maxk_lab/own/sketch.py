"""Random projections of per-sample gradients, from one extra backward pass over chosen layers.

In a count sketch (Charikar, Chen and Farach-Colton 2002), every entry of a parameter has a random
sign and one of `dimension` places, and entries at a place are added. Products of sketches are
unbiased for products of gradients, ⟨x, y⟩, with variance at most (‖x‖²‖y‖² + ⟨x, y⟩²)/dimension.
The relative error of a squared norm is √(2/dimension), 2 % at 4,096.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from maxk_lab.errors import LabError

# The most entries of per-sample gradients in memory.
_ENTRIES = 2**25


class GradientSketch:
    r"""Sketches of the per-sample gradients of some parameters of a model.

    `parameters` is a regular expression that selects parameters with a match in their names:
    weights and biases of linear layers and embeddings (also GPT-2's `Conv1D` and LoRA). The forward
    pass runs inside `with sketch:`, and its first dimension is the sample:

        sketch = GradientSketch(model, parameters=r"lm_head|layers\.11\.")
        with sketch:
            log_probs = ...                       # [N], of whole samples
        scores = sketch.scores(log_probs)         # [N, dimension]

    Raises `LabError` if no parameter matches, or if a parameter belongs to another kind of layer.
    """

    def __init__(
        self, model: nn.Module, *, parameters: str = ".*", dimension: int = 4096, seed: int = 0
    ) -> None:
        if dimension < 1:
            raise LabError(f"dimension must be at least 1, got {dimension}")
        chosen = matching(model, parameters)
        self.dimension, self.parameters = dimension, tuple(chosen)
        # Shared parameters have one sketch: by linearity their gradients add up.
        self._hashes = {
            id(parameter): _hash(parameter, dimension, seed + number)
            for number, parameter in enumerate(chosen.values())
        }
        self._layers = []
        for layer in model.modules():
            inside = {id(parameter) for parameter in layer.parameters(recurse=False)}
            if names := [name for name, x in chosen.items() if id(x) in inside]:
                self._layers.append(layer)
                if _kind(layer) is None:
                    raise LabError(
                        f"{', '.join(names)} belong to a {type(layer).__name__}: gradients are "
                        "read at linear layers and embeddings; choose parameters that leave it out"
                    )
        self._calls: list[tuple[nn.Module, Tensor, Tensor]] = []
        self._hooks: list[Any] = []

    def __enter__(self) -> GradientSketch:
        self._calls.clear()
        self._hooks = [
            layer.register_forward_hook(self._keep, with_kwargs=True) for layer in self._layers
        ]
        return self

    def __exit__(self, *error: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _keep(
        self, layer: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: Tensor
    ) -> None:
        if output.requires_grad:
            self._calls.append((layer, (*inputs, *named.values())[0].detach(), output))

    def scores(self, log_probs: Tensor, *, keep_graph: bool = True) -> Tensor:
        """The sketches of ∇ log_probs, [N] → [N, dimension] in float32, on the model's device.

        The graph stays for the training's backward pass unless `keep_graph` is False. Raises
        `LabError` for a forward pass outside `with sketch:`, or with another batch.
        """
        if not self._calls:
            raise LabError("nothing was recorded: run the forward pass inside `with sketch:`")
        outputs = [output for *_, output in self._calls]
        gradients = torch.autograd.grad(
            log_probs.sum(), outputs, retain_graph=keep_graph, allow_unused=True
        )
        sketches = torch.zeros(len(log_probs), self.dimension, device=log_probs.device)
        for (layer, inputs, output), gradient in zip(self._calls, gradients, strict=True):
            if gradient is None:
                continue
            if len(output) != len(log_probs):
                raise LabError(
                    f"{type(layer).__name__} was given {len(output)} rows for "
                    f"{len(log_probs)} samples: samples must be its first dimension"
                )
            for parameter, entries in self._gradients(layer, inputs, gradient):
                self._add(sketches, parameter, entries)
        self._calls.clear()
        return sketches

    def _gradients(
        self, layer: nn.Module, inputs: Tensor, gradient: Tensor
    ) -> Iterator[tuple[nn.Parameter, Iterable[Tensor]]]:
        """Yield a layer's parameters with their per-sample gradients, in blocks of samples."""
        samples = len(gradient)
        outer = gradient.reshape(samples, -1, gradient.shape[-1]).float()  # [N, T, out]
        weight, bias = layer.weight, getattr(layer, "bias", None)
        if id(bias) in self._hashes:
            assert isinstance(bias, nn.Parameter)
            yield bias, [outer.sum(1)]
        if id(weight) in self._hashes:
            assert isinstance(weight, nn.Parameter)
            block = max(1, _ENTRIES // weight.numel())
            make = _KINDS[str(_kind(layer))]
            if (padding := getattr(layer, "padding_idx", None)) is not None:
                # The row of an embedding's padding has no gradient.
                outer = outer.masked_fill((inputs == padding).reshape(samples, -1, 1), 0.0)
            flat = inputs.reshape(samples, outer.shape[1], -1)
            blocks = zip(torch.split(flat, block), torch.split(outer, block), strict=True)
            yield weight, (make(weight, *each).flatten(1) for each in blocks)

    def _add(self, sketches: Tensor, parameter: nn.Parameter, blocks: Iterable[Tensor]) -> None:
        place, sign = self._hashes[id(parameter)]
        begin = 0
        for entries in blocks:
            sketches[begin : begin + len(entries)].index_add_(1, place, entries * sign)
            begin += len(entries)


def matching(model: nn.Module, parameters: str) -> dict[str, nn.Parameter]:
    """Return the parameters with a gradient whose names match, each once, by name.

    Raises `LabError` if no name matches.
    """
    first: dict[nn.Parameter, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if parameter.requires_grad and re.search(parameters, name):
            first.setdefault(parameter, name)
    if not first:
        raise LabError(f"no parameter with a gradient has a name that {parameters!r} matches")
    return {name: parameter for parameter, name in first.items()}


def _linear(weight: Tensor, inputs: Tensor, outer: Tensor) -> Tensor:
    """Return Σ_t g_t a_tᵀ of every sample, [N, out, in]."""
    return torch.einsum("nto,nti->noi", outer, inputs.float())


def _transposed(weight: Tensor, inputs: Tensor, outer: Tensor) -> Tensor:
    """Return the gradient for GPT-2's Conv1D, whose weight is [in, out]."""
    return torch.einsum("nto,nti->nio", outer, inputs.float())


def _embedding(weight: Tensor, inputs: Tensor, outer: Tensor) -> Tensor:
    """Return the gradients of a table of embeddings, [N, rows, width]."""
    rows = inputs.reshape(len(outer), -1, 1).long().expand(-1, -1, weight.shape[1])
    return outer.new_zeros(len(outer), *weight.shape).scatter_add_(1, rows, outer)


_KINDS = {"Linear": _linear, "Conv1D": _transposed, "Embedding": _embedding}


def _kind(layer: nn.Module) -> str | None:
    """Return the kind of a supported layer; None for any other layer."""
    return next((base.__name__ for base in type(layer).__mro__ if base.__name__ in _KINDS), None)


def _hash(parameter: Tensor, dimension: int, seed: int) -> tuple[Tensor, Tensor]:
    """The place and the sign of every entry, drawn on the CPU for equal results everywhere."""
    generator = torch.Generator().manual_seed(seed)
    count = parameter.numel()
    place = torch.randint(dimension, (count,), generator=generator)
    sign = torch.randint(2, (count,), generator=generator, dtype=torch.int8) * 2 - 1
    return place.to(parameter.device), sign.to(parameter.device)
