"""Reuse: cells that another run of the same results has done are copied, not measured again."""
