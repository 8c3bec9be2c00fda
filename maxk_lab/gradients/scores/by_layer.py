"""Scores by what every layer read and gave, from one backward pass of all trajectories together.

The gradient of a linear layer's weights is the sum over its places of the outer products of what
it read and the gradient of what it gave: no backward pass per trajectory is needed. Where all
trajectories share an encoding, its layers read the same for all of them, at R places, say; the
products of two such scores are those of the gradients times the root of the R × R matrix of what
was read, R columns per output instead of one per input.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from maxk_lab.environments.capabilities import LayerwiseEnvironment
from maxk_lab.environments.environment import Instances
from maxk_lab.gradients.scores.layers import Call, NotByLayerError, recorded

# Trajectories whose gradients are made together, and the most memory their scores may take.
CHUNK = 64
CHUNK_BYTES = 64 * 2**20


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
        """Yield calls of layers, or parameters, with the gradients of log π by trajectory.

        Those of a call are with respect to what it gave. `of_given` are those with respect to the
        encoding, a row per trajectory [M, 1, ...] each.
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
        trained = [pair for pair in zip(self.given, of_given, strict=True) if pair[0].requires_grad]
        if not sources or not trained:
            return
        gradients = torch.autograd.grad(
            [given for given, _ in trained],
            [*(call.given for call in linear), *others.values()],
            grad_outputs=[gradient for _, gradient in trained],
            is_grads_batched=True,
            retain_graph=True,
            allow_unused=True,
        )
        yield from (pair for pair in zip(sources, gradients, strict=True) if pair[1] is not None)


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
        own = [parameter for parameter in self.policy.parameters() if parameter.requires_grad]
        width = sum(self.width(parameter) * parameter.element_size() for parameter in own)
        return max(1, min(CHUNK, CHUNK_BYTES // max(width, 1)))

    def width(self, parameter: Tensor) -> int:
        root = self._root(parameter)
        return parameter.numel() if root is None else len(root) * len(parameter)

    def of_products(self) -> LayerScores:
        return replace(self, compressed=True)

    def __call__(self, i: int, j: int, block: Sequence[Tensor]) -> list[Tensor]:
        wanted = {id(parameter) for parameter in block}
        shares: dict[int, list[Tensor]] = defaultdict(list)
        for source, gradients in self._gradients(i, j, block):
            if isinstance(source, Tensor):
                shares[id(source)].append(gradients.flatten(1))
                continue
            for name, parameter in source.parameters.items():
                if id(parameter) in wanted:
                    root = self._root(parameter)
                    shares[id(parameter)].append(
                        source.scores(name, gradients)
                        if root is None
                        else source.compressed(gradients, root)
                    )
        return [
            sum(shares[id(parameter)][1:], shares[id(parameter)][0])
            if id(parameter) in shares
            else parameter.new_zeros(j - i, self.width(parameter))
            for parameter in block
        ]

    def _root(self, parameter: Tensor) -> Tensor | None:
        return self.encoded.roots.get(id(parameter)) if self.compressed else None

    def _gradients(
        self, i: int, j: int, block: Sequence[Tensor]
    ) -> Iterator[tuple[Call | Tensor, Tensor]]:
        """Yield calls of layers, or parameters, with the gradients of log π by trajectory.

        Of trajectories i..j−1, [j − i, ...] each; those of a call are with respect to what it gave.
        """
        own = tuple(
            given.detach().expand(j - i, *given.shape[1:]).requires_grad_()
            for given in self.encoded.given
        )
        rows = [values[i:j] for values in self.inputs]
        with torch.enable_grad(), recorded(self.policy, j - i, block) as calls:
            total = self.environment.trajectory_log_probs(self.policy, own, *rows).sum()
        gradients = torch.autograd.grad(
            total, [*own, *(call.given for call in calls)], allow_unused=True
        )
        of_encoding = [
            torch.zeros_like(given) if gradient is None else gradient
            for given, gradient in zip(own, gradients[: len(own)], strict=True)
        ]
        pairs = zip(calls, gradients[len(own) :], strict=True)
        yield from (pair for pair in pairs if pair[1] is not None)
        wanted = {id(parameter) for parameter in block}
        yield from self.encoded.gradients([g.unsqueeze(1) for g in of_encoding], wanted)


def layer_scores(
    environment: LayerwiseEnvironment, policy: nn.Module, instances: Instances, actions: Tensor
) -> LayerScores:
    """The scores of the trajectories actions [B, n, T], by instance; B = 1 for a shared encoding.

    Raises `NotByLayerError` where an encoding is of several instances.
    """
    parameters = [parameter for parameter in policy.parameters() if parameter.requires_grad]
    with torch.enable_grad(), recorded(policy, 1, parameters) as calls:
        given = environment.encoding(policy, instances)
    if given and len(actions) > 1:
        raise NotByLayerError("the trajectories of one instance share an encoding")
    inputs = environment.trajectory_inputs(instances, actions)
    return LayerScores(environment, policy, Encoded(given, calls), inputs)
