"""A parameter that is read once per trajectory, in a place where that can be seen."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn


class Repeated(nn.Module):
    """Gives a parameter of the module around it once per row, and has none itself.

    The gradient with respect to what this gives is the parameter's gradient by row.
    """

    def forward(self, parameter: Tensor, batch: Sequence[int]) -> Tensor:
        """parameter [...] → [*batch, ...]."""
        return parameter.expand(*batch, *parameter.shape)
