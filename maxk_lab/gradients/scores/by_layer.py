"""Scores from the inputs and the output gradients of every layer, in one backward pass.

The gradient of a linear layer's weights is the sum over places of the outer products of the layer's
inputs and its output gradients. No backward pass per trajectory is needed. If all trajectories
share an encoding, its layers have equal inputs for all of them, at R places. Products of two scores
are then products of the output gradients times the root of the R × R matrix of the inputs: R
columns per output instead of one per input.

Index: M trajectories, R places, P parameters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from maxk_lab.environments.environment import FullEnvironment
from maxk_lab.errors import LabError
from maxk_lab.gradients.scores.per_trajectory import Scores, chunk_of
from maxk_lab.policies.repeated import Repeated

# Eigenvalues below this share of the largest are rounding errors.
ROUNDING = 1e-16


class NotByLayerError(LabError):
    """The inputs and outputs of a policy's layers do not determine its scores."""


@dataclass(frozen=True)
class Call:
    """One call of a layer: its input, and its output with the graph.

    Each has a row per trajectory along its first dimension, or one row for all of them.
    """

    layer: nn.Module
    read: Tensor
    output: Tensor

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The trained parameters that the call depends on, by the layer's names."""
        if isinstance(self.layer, Repeated):
            return {"parameter": self.read}
        named = self.layer.named_parameters(recurse=False)
        return {name: value for name, value in named if value.requires_grad}

    @property
    def places(self) -> Tensor:
        """The inputs of a linear layer by place: [rows, places, inputs]."""
        return self.read.reshape(len(self.read), -1, self.read.shape[-1])

    def scores(self, gradients: Tensor) -> dict[str, Tensor]:
        """Return the call's contribution to the scores of its parameters, [M, elements] each.

        `gradients` [M, ...] are the gradients of log π of each trajectory with respect to the
        call's output.
        """
        rows = len(gradients)
        if isinstance(self.layer, Repeated):
            return {"parameter": gradients.reshape(rows, -1, self.read.numel()).sum(1)}
        if isinstance(self.layer, nn.Linear):
            by_place = gradients.reshape(rows, -1, gradients.shape[-1])
            return {
                name: by_place.sum(1) if name == "bias" else (by_place.mT @ self.places).flatten(1)
                for name in self.parameters
            }
        # Any other layer is called again and differentiated row by row.
        values = {name: value.detach() for name, value in self.parameters.items()}

        def score_row(read: Tensor, gradient: Tensor) -> dict[str, Tensor]:
            def again(values: dict[str, Tensor]) -> Tensor:
                output: Tensor = functional_call(self.layer, values, (read.unsqueeze(0),))
                return output

            share: dict[str, Tensor] = vjp(again, values)[1](gradient.unsqueeze(0))[0]
            return share

        shares: dict[str, Tensor] = vmap(score_row)(self.read, gradients)
        return {name: share.flatten(1) for name, share in shares.items()}


def joined(
    calls: Sequence[Call], gradients: Sequence[Tensor | None]
) -> Iterator[tuple[Call, Tensor]]:
    """Yield each call with its gradient; the calls of a linear layer are joined along the places.

    A recurrent policy calls a layer in every step: one product replaces a product per step. Calls
    without a gradient are left out, unless their layer has calls with a gradient.
    """
    linear: dict[int, list[tuple[Call, Tensor | None]]] = {}
    for call, gradient in zip(calls, gradients, strict=True):
        if isinstance(call.layer, nn.Linear):
            linear.setdefault(id(call.layer), []).append((call, gradient))
        elif gradient is not None:
            yield call, gradient
    for steps in linear.values():
        rows = max(0 if gradient is None else len(gradient) for _, gradient in steps)
        if rows:
            shapes = [(rows, step.places.shape[1], step.output.shape[-1]) for step, _ in steps]
            by_place = [
                step.output.new_zeros(shape) if piece is None else piece.reshape(shape)
                for (step, piece), shape in zip(steps, shapes, strict=True)
            ]
            read = torch.cat([step.places for step, _ in steps], 1)
            yield replace(steps[0][0], read=read), torch.cat(by_place, 1)


@dataclass(frozen=True)
class LayerScores(Scores):
    """The scores of M trajectories by the layers of their policy.

    `inputs` hold a row of each trajectory; `encoding` [1, ...] is shared by all of them, and empty
    if nothing is shared. `encoder` has the calls of the layers that made the encoding. `compressed`
    scores have fewer columns, and the same products.
    """

    environment: FullEnvironment
    policy: nn.Module
    inputs: tuple[Tensor, ...]
    encoding: tuple[Tensor, ...]
    encoder: list[Call]
    compressed: bool

    @property
    def chunk(self) -> int:
        return chunk_of(self, self.policy)

    def width(self, parameter: Tensor) -> int:
        root = self._roots.get(id(parameter))
        return parameter.numel() if root is None else len(root) * len(parameter)

    def __call__(self, i: int, j: int, block: Sequence[Tensor]) -> list[Tensor]:
        """The scores of a block. Raises `NotByLayerError` if a layer does not own a parameter."""
        encoding = tuple(
            piece.detach().expand(j - i, *piece.shape[1:]).requires_grad_()
            for piece in self.encoding
        )
        rows = [values[i:j] for values in self.inputs]
        with torch.enable_grad(), recorded_calls(self.policy, j - i, block) as calls:
            total = self.environment.trajectory_log_probs(self.policy, encoding, *rows).sum()
        _check_covered(total, block, [*calls, *self.encoder])
        sources = [*encoding, *(call.output for call in calls)]
        gradients = torch.autograd.grad(total, sources, allow_unused=True)
        scores: dict[int, Tensor] = {}

        def add(parameter: Tensor, share: Tensor) -> None:
            key = id(parameter)
            scores[key] = scores[key] + share if key in scores else share

        for call, gradient in joined(calls, gradients[len(encoding) :]):
            for name, share in call.scores(gradient).items():
                if id(call.parameters[name]) in self._roots:
                    raise NotByLayerError("weights of the encoding are used by trajectory, too")
                add(call.parameters[name], share)
        for parameter, share in self._encoder_scores(block, gradients[: len(encoding)]):
            add(parameter, share)
        nothing = {id(p): p.new_zeros(1, 1).expand(j - i, self.width(p)) for p in block}
        return [scores.get(id(p), nothing[id(p)]) for p in block]

    def expanded(self, sums: Tensor, parameters: Sequence[Tensor]) -> Tensor:
        """Return sums [C, width] of compressed scores with a column per element: [C, P].

        The inputs are root · Q. So the compressed score, root · gradients, gives the score by Q.
        """
        parts = []
        columns = torch.split(sums, [self.width(p) for p in parameters], 1)
        for piece, parameter in zip(columns, parameters, strict=True):
            rotation = self._rotations.get(id(parameter))
            if rotation is not None:
                piece = (piece.view(len(piece), len(rotation), -1).mT @ rotation).flatten(1)
            parts.append(piece)
        return torch.cat(parts, 1)

    @cached_property
    def _roots(self) -> dict[int, Tensor]:
        """The roots [R, R] of the products of inputs at R places, by the weights' `id`.

        Only linear layers with more inputs than places in all calls have a root.
        """
        dtypes = {id(p): p.dtype for p in self.policy.parameters()}
        return {
            weight: ((vectors * values.sqrt()) @ vectors.T).to(dtypes[weight])
            for weight, (values, vectors, _) in self._reads.items()
        }

    @cached_property
    def _rotations(self) -> dict[int, Tensor]:
        """The Q [R, inputs] with root · Q = inputs, by the weights' `id`."""
        rotations = {}
        for weight, (values, vectors, read) in self._reads.items():
            large = values > ROUNDING * values.max()
            inverse = torch.where(large, values, 1.0).rsqrt() * large
            rotations[weight] = ((vectors * inverse) @ vectors.T @ read).cpu()
        return rotations

    @cached_property
    def _reads(self) -> dict[int, tuple[Tensor, Tensor, Tensor]]:
        """The eigenvalues and eigenvectors of inputs · inputsᵀ, and the inputs, by weight `id`."""
        layers: dict[int, list[Call]] = {}
        for call in self.encoder if self.compressed else ():
            if isinstance(call.layer, nn.Linear):
                layers.setdefault(id(call.layer), []).append(call)
        shared = Counter(id(calls[0].layer.weight) for calls in layers.values())
        reads: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
        for calls in layers.values():
            read = torch.cat([call.places[0] for call in calls]).double()
            weight = id(calls[0].layer.weight)
            if shared[weight] == 1 and read.shape[0] < read.shape[1]:
                values, vectors = torch.linalg.eigh(read @ read.T)
                reads[weight] = values.clamp(min=0), vectors, read
        return reads

    def _encoder_scores(
        self, block: Sequence[Tensor], gradients: Sequence[Tensor | None]
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the encoder's parameters and scores, from `gradients` [M, ...] by the encoding."""
        identities = {id(parameter) for parameter in block}
        calls = [
            call for call in self.encoder if identities & {id(p) for p in call.parameters.values()}
        ]
        linear = [call for call in calls if isinstance(call.layer, nn.Linear)]
        # Other layers have equal inputs and outputs for all trajectories, so their parameters'
        # gradients suffice.
        others = {
            id(parameter): parameter
            for call in calls
            if not isinstance(call.layer, nn.Linear)
            for parameter in call.parameters.values()
        }
        sources = [*(call.output for call in linear), *others.values()]
        moving = [
            (piece, gradient.unsqueeze(1))
            for piece, gradient in zip(self.encoding, gradients, strict=True)
            if piece.requires_grad and gradient is not None
        ]
        if not sources or not moving:
            return
        outputs, by_output = zip(*moving, strict=True)
        by_source = torch.autograd.grad(
            outputs,
            sources,
            grad_outputs=by_output,
            is_grads_batched=True,
            retain_graph=True,
            allow_unused=True,
        )
        for call, gradient in joined(linear, by_source[: len(linear)]):
            root = self._roots.get(id(call.layer.weight))
            if root is None:
                for name, share in call.scores(gradient).items():
                    yield call.parameters[name], share
            else:
                by_place = gradient.reshape(len(gradient), -1, gradient.shape[-1])
                for name, parameter in call.parameters.items():
                    share = root @ by_place if name == "weight" else by_place.sum(1)
                    yield parameter, share.flatten(1)
        for parameter, gradient in zip(others.values(), by_source[len(linear) :], strict=True):
            if gradient is not None:
                yield parameter, gradient.flatten(1)


def _check_covered(total: Tensor, block: Sequence[Tensor], calls: Sequence[Call]) -> None:
    """Raise `NotByLayerError` if `total` depends on a parameter that no call depends on."""
    covered = {id(parameter) for call in calls for parameter in call.parameters.values()}
    bare = [parameter for parameter in block if id(parameter) not in covered]
    if bare:
        gradients = torch.autograd.grad(total, bare, retain_graph=True, allow_unused=True)
        if any(gradient is not None for gradient in gradients):
            raise NotByLayerError(
                "a parameter of the policy is used, but not by a call of its layer"
            )


@contextmanager
def recorded_calls(
    policy: nn.Module, rows: int, parameters: Sequence[Tensor]
) -> Iterator[list[Call]]:
    """Record the calls of all layers with one of `parameters`, for `rows` rows at a time.

    The output of a layer that is called once for all rows counts for each row. Raises
    `NotByLayerError` if a layer is called in another way.
    """
    calls: list[Call] = []
    identities = {id(parameter) for parameter in parameters}
    hooks = [
        layer.register_forward_hook(partial(_record, calls, rows), with_kwargs=True)
        for layer in policy.modules()
        if isinstance(layer, Repeated)
        or (
            not any(layer.children())
            and any(id(parameter) in identities for parameter in layer.parameters(recurse=False))
        )
    ]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def _record(
    calls: list[Call],
    rows: int,
    layer: nn.Module,
    arguments: tuple[Any, ...],
    named: dict[str, Any],
    output: Any,
) -> Any:
    if named or not all(isinstance(tensor, Tensor) for tensor in (*arguments[:1], output)):
        raise NotByLayerError(f"{type(layer).__name__} reads or gives more than one tensor")
    read = arguments[0]
    if isinstance(layer, Repeated):
        if read.requires_grad:
            calls.append(Call(layer, read, output))
        return output
    if len(arguments) != 1 or read.shape[:1] != output.shape[:1] or len(output) not in (1, rows):
        raise NotByLayerError(f"{type(layer).__name__} is not called with a row per trajectory")
    if len(output) != rows:
        read, output = read.expand(rows, *read.shape[1:]), output.expand(rows, *output.shape[1:])
    calls.append(Call(layer, read.detach(), output))
    return output
