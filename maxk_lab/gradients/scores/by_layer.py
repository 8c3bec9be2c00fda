"""Scores by what every layer read and gave, from one backward pass of all trajectories together.

The gradient of a linear layer's weights is the sum over its places of the outer products of what
it read and the gradient of what it gave: no backward pass per trajectory is needed. Where all
trajectories share an encoding, its layers read the same for all of them, at R places, say; the
products of two such scores are those of the gradients times the root of the R × R matrix of what
was read, R columns per output instead of one per input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from maxk_lab.environments.capabilities import LayerwiseEnvironment
from maxk_lab.environments.environment import Instances
from maxk_lab.gradients.scores.layers import Call, NotByLayerError, recorded_calls
from maxk_lab.gradients.scores.per_trajectory import chunk_of, trained

# The sum of the scores must be the gradient of the sum: to a third of the digits of a parameter's
# own, and to half of those of the whole. A float32 policy may leave no more than three digits.
OWN, WHOLE = 1 / 3, 1 / 2


@dataclass(frozen=True)
class Encoded:
    """The encoding of an instance, and the calls of the layers that made it."""

    given: tuple[Tensor, ...]
    calls: list[Call]

    @cached_property
    def roots(self) -> dict[int, Tensor]:
        """The roots [R, R] of the products of what was read at R places, by the weights' `id`.

        Only of linear layers that are called once and read more numbers than they have places.
        """
        linear = [call for call in self.calls if isinstance(call.layer, nn.Linear)]
        times = Counter(id(call.layer.weight) for call in linear)
        found = {}
        for call in linear:
            read = call.places()[0].double()
            if times[id(call.layer.weight)] == 1 and read.shape[0] < read.shape[1]:
                values, vectors = torch.linalg.eigh(read @ read.T)
                root = (vectors * values.clamp(min=0).sqrt()) @ vectors.T
                found[id(call.layer.weight)] = root.to(call.read.dtype)
        return found

    def gradients(
        self, of_given: Sequence[Tensor], wanted: set[int]
    ) -> Iterator[tuple[Call | Tensor, Tensor]]:
        """Yield calls of its layers, or parameters, with the gradients of log π by trajectory.

        Those of a call are with respect to what it gave. `of_given` [M, ...] are those with respect
        to the encoding.
        """
        calls = [call for call in self.calls if wanted & {id(p) for p in call.parameters.values()}]
        linear = [call for call in calls if isinstance(call.layer, nn.Linear)]
        others = {
            id(parameter): parameter
            for call in calls
            if not isinstance(call.layer, nn.Linear)
            for parameter in call.parameters.values()
        }
        sources: list[Call | Tensor] = [*linear, *others.values()]
        asked = [*(call.given for call in linear), *others.values()]
        found = self._back(asked, [gradient.unsqueeze(1) for gradient in of_given], batched=True)
        for source, gradients in zip(sources, found, strict=True):
            if gradients is not None:
                yield source, gradients

    def totals(
        self, of_given: Sequence[Tensor], parameters: Sequence[Tensor]
    ) -> Sequence[Tensor | None]:
        """The gradients of Σ log π with respect to parameters, as far as through the encoding."""
        return self._back(parameters, [gradient.sum(0, keepdim=True) for gradient in of_given])

    def _back(
        self, asked: Sequence[Tensor], of_given: Sequence[Tensor], *, batched: bool = False
    ) -> Sequence[Tensor | None]:
        pairs = zip(self.given, of_given, strict=True)
        moving = [(given, gradient) for given, gradient in pairs if given.requires_grad]
        if not asked or not moving:
            return [None] * len(asked)
        found: Sequence[Tensor | None] = torch.autograd.grad(
            [given for given, _ in moving],
            asked,
            grad_outputs=[gradient for _, gradient in moving],
            is_grads_batched=batched,
            retain_graph=True,
            allow_unused=True,
        )
        return found


@dataclass(frozen=True)
class LayerScores:
    """The scores of M trajectories by the layers of their policy.

    `inputs` hold a row of each trajectory. Where these share an encoding, they are of one instance.
    `compressed` scores have fewer columns, and the same products.
    """

    environment: LayerwiseEnvironment
    policy: nn.Module
    encoded: Encoded
    inputs: tuple[Tensor, ...]
    compressed: bool = False

    @property
    def chunk(self) -> int:
        parameters = trained(self.policy)
        return chunk_of(sum(self.width(one) * one.element_size() for one in parameters))

    def width(self, parameter: Tensor) -> int:
        root = self._root(parameter)
        return parameter.numel() if root is None else len(root) * len(parameter)

    def of_products(self) -> LayerScores:
        return replace(self, compressed=True)

    def __call__(self, i: int, j: int, block: Sequence[Tensor]) -> list[Tensor]:
        """Raises `NotByLayerError` where the scores do not sum up to the gradient of the sum."""
        try:
            return self._scores(i, j, block)
        except (NotByLayerError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # a layer of whatever make, called in whatever way
            raise NotByLayerError(str(error)) from error

    def _root(self, parameter: Tensor) -> Tensor | None:
        return self.encoded.roots.get(id(parameter)) if self.compressed else None

    def _scores(self, i: int, j: int, block: Sequence[Tensor]) -> list[Tensor]:
        parameters = trained(self.policy)
        own = tuple(
            given.detach().expand(j - i, *given.shape[1:]).requires_grad_()
            for given in self.encoded.given
        )
        rows = [values[i:j] for values in self.inputs]
        with torch.enable_grad(), recorded_calls(self.policy, j - i, block) as calls:
            total = self.environment.trajectory_log_probs(self.policy, own, *rows).sum()
        asked = [*own, *(call.given for call in calls), *parameters]
        found = torch.autograd.grad(total, asked, allow_unused=True)
        of_encoding = [
            torch.zeros_like(given) if gradient is None else gradient
            for given, gradient in zip(own, found[: len(own)], strict=True)
        ]
        by_call = zip(calls, found[len(own) : len(own) + len(calls)], strict=True)
        sums = _Sums(j - i, block, {id(p): self.width(p) for p in block})
        for call, gradients in by_call:
            if gradients is not None:
                self._add(sums, call, gradients)
        for source, gradients in self.encoded.gradients(of_encoding, sums.wanted):
            self._add(sums, source, gradients, of_encoding=True)
        beyond = self.encoded.totals(of_encoding, parameters)
        sums.check(parameters, found[len(own) + len(calls) :], beyond)
        return sums.scores

    def _add(
        self, sums: _Sums, source: Call | Tensor, gradients: Tensor, *, of_encoding: bool = False
    ) -> None:
        if isinstance(source, Tensor):
            sums.add(source, gradients.flatten(1), gradients.flatten(1).sum(0))
            return
        for name, parameter in source.parameters.items():
            if id(parameter) not in sums.wanted:
                continue
            root = self._root(parameter)
            if root is None:
                share = source.scores(name, gradients)
                sums.add(parameter, share, share.sum(0))
            elif of_encoding:
                whole = source.scores(name, gradients.sum(0, keepdim=True))
                sums.add(parameter, source.compressed(gradients, root), whole[0])
            else:
                raise NotByLayerError("weights of the encoding are used by trajectory, too")


class _Sums:
    """The scores of a block of parameters, and their sums over M trajectories."""

    def __init__(self, rows: int, block: Sequence[Tensor], widths: Mapping[int, int]) -> None:
        self._rows, self._block, self._widths = rows, block, widths
        self.wanted = set(widths)
        self._found: dict[int, Tensor] = {}
        self._sums: dict[int, Tensor] = {}

    def add(self, parameter: Tensor, share: Tensor, total: Tensor) -> None:
        """Add a share [M, width] of a parameter's scores, and its sum over the trajectories [P]."""
        key = id(parameter)
        self._found[key] = self._found[key] + share if key in self._found else share
        self._sums[key] = self._sums[key] + total if key in self._sums else total

    @property
    def scores(self) -> list[Tensor]:
        """The scores [M, width] of every parameter of the block."""
        return [
            self._found.get(id(p), p.new_zeros(1, 1).expand(self._rows, self._widths[id(p)]))
            for p in self._block
        ]

    def check(
        self,
        parameters: Sequence[Tensor],
        direct: Sequence[Tensor | None],
        beyond: Sequence[Tensor | None],
    ) -> None:
        """Hold the sums against gradients of Σ log π, which come in two parts.

        `parameters` are all of the policy. Raises `NotByLayerError` where they differ.
        """
        totals = {}
        for parameter, *parts in zip(parameters, direct, beyond, strict=True):
            there = [part.flatten() for part in parts if part is not None]
            totals[id(parameter)] = sum(there[1:], there[0]) if there else parameter.new_zeros(1)
        # As much as they may differ by rounding, even where they cancel.
        size = sum(float(total.norm()) ** 2 for total in totals.values())
        size += self._rows * sum(float(one.norm()) ** 2 for one in self._found.values())
        for parameter in self._block:
            key, eps = id(parameter), torch.finfo(parameter.dtype).eps
            own = float(self._found[key].norm()) * self._rows**0.5 if key in self._found else 0.0
            off = float((totals[key] - self._sums.get(key, totals[key].new_zeros(1))).norm())
            if not off <= eps**OWN * own + eps**WHOLE * size**0.5:
                raise NotByLayerError("the scores do not sum up to the gradient of the sum")


def layer_scores(
    environment: LayerwiseEnvironment, policy: nn.Module, instances: Instances, actions: Tensor
) -> LayerScores:
    """The scores of the trajectories actions [B, n, T], by instance; B = 1 for a shared encoding.

    Raises `NotByLayerError` where an encoding is of several instances.
    """
    with torch.enable_grad(), recorded_calls(policy, 1, trained(policy)) as calls:
        given = environment.encoding(policy, instances)
    if given and len(actions) > 1:
        raise NotByLayerError("the trajectories of one instance share an encoding")
    inputs = environment.trajectory_inputs(instances, actions)
    return LayerScores(environment, policy, Encoded(given, calls), inputs)
