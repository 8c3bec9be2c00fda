"""Records of a gradient study → rows, and the numbers of a row."""

from maxk_lab.studies.gradient.measured import measured as estimates
from maxk_lab.studies.gradient.rows import key as key
from maxk_lab.studies.gradient.rows import pool as pool

__all__ = ["estimates", "key", "pool"]
