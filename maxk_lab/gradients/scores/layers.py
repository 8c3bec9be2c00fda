"""The calls of a policy's layers while log-probabilities are worked out: read, given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from maxk_lab.policies.repeated import Repeated


class NotByLayerError(Exception):
    """The layers of a policy, by what they read and give, do not tell its scores."""


@dataclass(frozen=True)
class Call:
    """One call of a layer: what it read, and what it gave, with its graph.

    Either has a row per trajectory along its first dimension, or one for all of them.
    """

    layer: nn.Module
    read: Tensor
    given: Tensor

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The parameters that the call depends on, by the layer's own names for them."""
        if isinstance(self.layer, Repeated):
            return {"parameter": self.read}
        return {
            name: value
            for name, value in self.layer.named_parameters(recurse=False)
            if value.requires_grad
        }

    def scores(self, name: str, gradients: Tensor) -> Tensor:
        """The share that the call has in the scores of its parameter `name`: [M, elements].

        `gradients` [M, ...] are those of log π of each trajectory with respect to what the call
        gave it.
        """
        rows = len(gradients)
        if isinstance(self.layer, Repeated):
            return gradients.reshape(rows, -1, self.read.numel()).sum(1)
        if isinstance(self.layer, nn.Linear):
            by_place = gradients.reshape(rows, -1, gradients.shape[-1])
            if name == "bias":
                return by_place.sum(1)
            return (by_place.mT @ self.places()).flatten(1)
        return self._by_repeating(gradients)[name].flatten(1)

    def compressed(self, gradients: Tensor, root: Tensor) -> Tensor:
        """The same of a linear layer's weights with other columns, [M, places · outputs].

        `root` is that of the products of what was read, the same for all trajectories.
        """
        return (root @ gradients.reshape(len(gradients), -1, gradients.shape[-1])).flatten(1)

    def places(self) -> Tensor:
        """The numbers that a linear layer read, place by place: [rows, places, inputs]."""
        return self.read.reshape(len(self.read), -1, self.read.shape[-1])

    def _by_repeating(self, gradients: Tensor) -> dict[str, Tensor]:
        """The scores of any other layer: it is called again, and differentiated, row by row."""
        values = {name: value.detach() for name, value in self.parameters.items()}

        def of_row(read: Tensor, gradient: Tensor) -> dict[str, Tensor]:
            def again(values: dict[str, Tensor]) -> Tensor:
                given: Tensor = functional_call(self.layer, values, (read.unsqueeze(0),))
                return given

            found: dict[str, Tensor] = vjp(again, values)[1](gradient.unsqueeze(0))[0]
            return found

        found: dict[str, Tensor] = vmap(of_row)(self.read, gradients)
        return found


@contextmanager
def recorded_calls(
    policy: nn.Module, rows: int, parameters: Sequence[Tensor]
) -> Iterator[list[Call]]:
    """Record the calls of all layers that one of `parameters` belongs to, `rows` at a time.

    A layer that is called once for all rows gives it to each of them. Raises `NotByLayerError`
    where a layer is called in another way.
    """
    calls: list[Call] = []
    wanted = {id(parameter) for parameter in parameters}
    hooks = [
        layer.register_forward_hook(partial(_note, calls, rows), with_kwargs=True)
        for layer in policy.modules()
        if isinstance(layer, Repeated)
        or (
            not any(layer.children())
            and any(id(parameter) in wanted for parameter in layer.parameters(recurse=False))
        )
    ]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def _note(
    calls: list[Call],
    rows: int,
    layer: nn.Module,
    arguments: tuple[Any, ...],
    named: dict[str, Any],
    given: Any,
) -> Any:
    if named or not all(isinstance(tensor, Tensor) for tensor in (*arguments[:1], given)):
        raise NotByLayerError(f"{type(layer).__name__} reads or gives more than one tensor")
    read = arguments[0]
    if isinstance(layer, Repeated):
        if read.requires_grad:
            calls.append(Call(layer, read, given))
        return given
    if len(arguments) != 1 or read.shape[:1] != given.shape[:1] or len(given) not in (1, rows):
        raise NotByLayerError(f"{type(layer).__name__} is not called with a row per trajectory")
    if len(given) != rows:
        read, given = read.expand(rows, *read.shape[1:]), given.expand(rows, *given.shape[1:])
    calls.append(Call(layer, read.detach(), given))
    return given
