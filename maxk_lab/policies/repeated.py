"""A module that repeats a parameter by trajectory, to expose its gradient by trajectory."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn


class Repeated(nn.Module):
    """Returns a parameter of the enclosing module once per row, and has none itself.

    The gradient with respect to the output is the parameter's gradient by row.
    """

    def forward(self, parameter: Tensor, batch: Sequence[int]) -> Tensor:
        """Return the parameter [...] as [*batch, ...]."""
        return parameter.expand(*batch, *parameter.shape)
