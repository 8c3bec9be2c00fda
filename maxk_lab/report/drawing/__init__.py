"""Drawing: the style of all figures, the numbers on their axes, and the ranges of these."""
