"""Verdicts on claims about the weights of given rewards, whose measures are known exactly."""

from maxk_lab.reports.claims import judge_exact as judge

__all__ = ["judge"]
