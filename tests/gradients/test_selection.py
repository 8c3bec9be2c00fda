"""Selection of groups by their rewards against sums over all ordered groups."""

import pytest
import torch
from score_tables import bandit, cell, estimates_of, every_group, measured, pool_of, weigh_of
from sweep_files import problems

from maxk_lab.errors import LabError

# Two arms succeed, one arm succeeds, and all arms do.
INSTANCES = torch.tensor([[0.0, 0, 1, 1], [0, 0, 0, 1], [1, 1, 1, 1]], dtype=torch.float64)


def units_of(estimator, baseline, n, k, selection, instances=INSTANCES):
    """The policy's probabilities, and the moments of every instance."""
    environment = bandit(arms=4)
    policy = environment.policy(0)
    pool = pool_of(
        environment, count=len(instances), objectives=[k], policy=policy, instances=instances
    )
    chosen = cell(estimator, baseline, n, k) | {"selection": selection}
    return policy().exp().detach(), next(iter(measured(pool, chosen).values()))["units"]


@pytest.mark.parametrize(("baseline", "n"), [("centred", 2), ("mean", 4), ("centred", 9)])
def test_dropping_equal_groups_divides_each_prompt_by_its_share_of_unequal_groups(baseline, n):
    """The share is 1 − pⁿ − (1 − p)ⁿ for rewards of 0 and 1."""
    p, every = units_of("maxk", baseline, n, 1, "none")
    successes = INSTANCES[:2] @ p
    for selection in ("drop_equal", "resample_equal"):
        _, selected = units_of("maxk", baseline, n, 1, selection)
        shares = 1 - successes**n - (1 - successes) ** n
        divisors = shares if selection == "drop_equal" else [float(shares.sum()) / 3] * 2
        for i, divisor in enumerate(divisors):
            expected = every["inner"][i] / float(divisor)
            assert selected["inner"][i] == pytest.approx(expected, rel=1e-12)
        assert selected["mean_square"][2] == 0
        assert selected["m2"][2] == 0


@pytest.mark.parametrize("selection", ["drop_equal", "resample_equal"])
@pytest.mark.parametrize(
    ("estimator", "baseline", "k"),
    [("maxk", "subloo", 2), ("maxk", "none", 2), ("grpo", "none", 1), ("maxk", "opo", 1)],
)
def test_moments_equal_the_sum_over_all_groups(estimator, baseline, k, selection):
    instances = torch.cat([INSTANCES[:2], torch.tensor([[0.1, 0.3, 0.3, 2.0]])])
    p, units = units_of(estimator, baseline, 4, k, selection, instances)
    (groups, chance), scores = every_group(p, 4), torch.eye(4).double() - p
    remain = [row[groups].amax(1) != row[groups].amin(1) for row in instances]
    shares = [float(chance[kept].sum()) for kept in remain]
    for i, kept in enumerate(remain):
        weights = weigh_of(estimator, baseline, k)(instances[i][groups], torch.ones(256, 4), None)
        estimates = estimates_of(weights.double(), scores, groups)
        if selection == "drop_equal":
            mean = chance[kept] @ estimates[kept] / shares[i]
            spread = chance[kept] @ (estimates[kept] - mean).square().sum(1) / shares[i]
            variance = spread / shares[i]
        else:
            updates = estimates * kept.unsqueeze(1) / (sum(shares) / 3)
            mean = chance @ updates
            variance = chance @ (updates - mean).square().sum(1)
        assert units["mean_square"][i] == pytest.approx(mean.square().sum().item(), rel=1e-11)
        found = units["m2"][i] - units["mean_square"][i]
        assert found == pytest.approx(variance.item(), rel=1e-10)


def test_selection_needs_all_groups(write):
    with pytest.raises(LabError, match="groups are too many to list"):
        units_of("maxk", "centred", 200, 1, "drop_equal", torch.rand(2, 4).double())
    text = """\
name: selected
seeds: 1
environment: {name: bandit}
gradient:
  selection: [none, drop_equal]
  grid: {estimator: maxk, baseline: centred, n: 4, k: 2}
"""
    assert problems(write(text)) == [
        "sweep.yaml:5:14: gradient.selection: needs complete: true, which lists all groups"
    ]
