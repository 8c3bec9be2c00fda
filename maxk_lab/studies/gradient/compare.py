"""Rows of a gradient study compared: with those of another run, and for claims."""

from maxk_lab.studies.gradient.claims import judge as judge
from maxk_lab.studies.gradient.measured import against as effect

__all__ = ["effect", "judge"]
