"""Selection of groups by their rewards, and the moments of the remaining update.

Let 1_g be 1 if the rewards of group g are unequal, else 0. q = E 1_g is the share of such groups of
a prompt: 1 − pⁿ − (1 − p)ⁿ for rewards of 0 and 1 with success p. The mean update of a prompt is

none            E ĝ
drop_equal      E[1_g ĝ] / q: the prompt is averaged over its groups with unequal rewards
resample_equal  E[1_g ĝ] / q̄, q̄ the mean of q over prompts: a group with equal rewards is replaced
                by one of another prompt until the batch is full, as in DAPO (arXiv 2503.14476)

Moments are those of one generated group. Of N generated groups, drop_equal averages N q.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from maxk_lab.fields import Selection
from maxk_lab.gradients.enumerated.moments import Outcomes


@dataclass(frozen=True)
class Selected:
    """The share q of a prompt's remaining groups, and the divisor of E[1_g ĝ]."""

    selection: Selection = "none"
    share: float = 1.0
    divisor: float = 1.0

    def remaining(self, rewards: Tensor) -> Tensor | None:
        """Return the mask [S] of groups that remain, from rewards [S, n]; None if all remain."""
        return None if self.selection == "none" else unequal(rewards)

    def second_moment(self, second: float, mean_square: float) -> float:
        """Return the second moment of a generated group.

        second: E[1_g ‖ĝ‖²]; mean_square: the squared norm of the mean update.
        """
        if self.selection != "drop_equal":
            return second / self.divisor**2
        return mean_square + (second / self.share - mean_square) / self.share


def unequal(rewards: Tensor) -> Tensor:
    """Return whether the rewards [S, n] of each group are unequal, [S]."""
    return rewards.amax(1) != rewards.amin(1)


def selected(outcomes: Sequence[Outcomes], n: int, selection: Selection) -> list[Selected]:
    """Return the selection of every prompt's groups of n.

    A prompt whose groups always have equal rewards contributes 0.
    """
    if selection == "none":
        return [Selected()] * len(outcomes)
    shares = [
        float(prompt.classes.expectation(n, lambda rewards, _: unequal(rewards).double()))
        for prompt in outcomes
    ]
    mean = sum(shares) / len(shares)
    divisors = shares if selection == "drop_equal" else [mean] * len(shares)
    pairs = zip(shares, divisors, strict=True)
    return [Selected(selection, share or 1.0, divisor or 1.0) for share, divisor in pairs]
