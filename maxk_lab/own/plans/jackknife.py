"""The jackknife over prompts: J logs that each lack a block of prompts."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import t as t_distribution

from maxk_lab.statistics.estimates import Array

# Blocks of prompts that are left out in turn.
_BLOCKS = 64


def shares_of_prompts(count: int) -> Array:
    """Return the weights of prompts, [1 + J, count]: all 1, then 0 for a block."""
    blocks = np.random.default_rng(0).permutation(count) % min(_BLOCKS, count)
    shares: Array = np.ones((1 + min(_BLOCKS, count), count))
    shares[1 + blocks, np.arange(count)] = 0.0
    return shares


def half_width(lacking: Array) -> float:
    """Return half of the 95 % interval by Student's t, from the values of J > 1 logs [J]."""
    last = len(lacking) - 1
    return float(t_distribution.ppf(0.975, last) * math.sqrt(last) * np.std(lacking))
