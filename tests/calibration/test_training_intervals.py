"""Coverage of the intervals of training studies: seeded, and short versions of `make calibrate`.

The bounds are four standard errors of a share of so many studies beyond what is claimed, so that
another seed would fail once in thirty thousand times; Student's t or a bootstrap in their place
miss the truth in 12 % to 25 % of the studies named here, and fail.
"""

import math

import pytest
import training_intervals as simulated

REPETITIONS = 1000


def at_most(share):
    """The largest share of the simulated studies that a true one of `share` explains."""
    return share + 4 * math.sqrt(share * (1 - share) / REPETITIONS)


@pytest.mark.slow
def test_means_over_instances_are_covered_or_have_no_interval():
    rows = list(simulated.over_instances(REPETITIONS, counts=(128,)))
    assert len(rows) == len(simulated.OF_INSTANCES)
    for row in rows:
        assert row.wrong <= at_most(0.055), row
        carried = row.regime.endswith("not 0")
        assert row.shown >= (0.1 if carried else 0.8), row
        assert carried or row.covered <= 0.975 + 4 * row.se, row
