"""Shortest tours by dynamic programming over subsets, all instances at once.

Held and Karp 1962, doi:10.1137/0110015.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray


def shortest_tours(distances: NDArray[np.float64]) -> NDArray[np.int64]:
    """Shortest tours from city 0: distances [B, n, n], symmetric or not, n ≥ 2 → orders [B, n].

    Memory: 9 B n 2ⁿ⁻¹ bytes. length[S, j] is that of the shortest path from city 0 through all of S
    that ends at j ∈ S; S without city 0, as a bit mask.
    """
    batch, n, _ = distances.shape
    rest = n - 1
    between = distances[:, 1:, 1:]
    length = np.full((batch, 1 << rest, rest), np.inf)
    before = np.zeros((batch, 1 << rest, rest), dtype=np.uint8)
    for city in range(rest):
        length[:, 1 << city, city] = distances[:, 0, city + 1]
    for size in range(2, rest + 1):
        masks = np.array(
            [sum(1 << city for city in chosen) for chosen in combinations(range(rest), size)]
        )
        for city in range(rest):
            with_city = masks[(masks >> city) & 1 == 1]
            paths = length[:, with_city ^ (1 << city)] + between[:, None, :, city]
            best = paths.argmin(2)
            before[:, with_city, city] = best
            length[:, with_city, city] = np.take_along_axis(paths, best[..., None], 2)[..., 0]
    every = np.arange(batch)
    mask = np.full(batch, (1 << rest) - 1)
    last = (length[:, -1] + distances[:, 1:, 0]).argmin(1)
    orders = np.zeros((batch, n), dtype=np.int64)
    for place in range(rest, 0, -1):
        orders[:, place] = last + 1
        previous = before[every, mask, last].astype(np.int64)
        mask = mask ^ (1 << last)
        last = previous
    return orders
