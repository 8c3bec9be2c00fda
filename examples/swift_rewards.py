"""The reward of swift_maxk.py, a plug-in of ms-swift: the right digit first."""

from swift.rewards import ORM, orms


class RightDigit(ORM):
    """1 for the right digit first; no reward for an empty answer."""

    def __call__(self, completions, answer, **columns):
        """Return the rewards of completions; some may be None."""
        return [
            float(completion[0] == right) if completion else None
            for completion, right in zip(completions, answer, strict=True)
        ]


orms["right_digit"] = RightDigit
