"""The pool cut into blocks of groups: independent, equal, and hardly anything left over."""

import pytest
import torch

from maxk_lab.gradients.sampled.blocks import KEPT, together
from maxk_lab.gradients.sampled.groups import FEW_GROUPS, MOST_BLOCKS, blocks_of, group_order


@pytest.mark.parametrize("partitions", [1, 8])
@pytest.mark.parametrize("size", [6, 7, 48, 70, 102, 105, 333, 1024])
def test_blocks_share_no_trajectory_under_any_partition(size, partitions):
    n = 3
    layout = group_order(2, size, n, partitions, seed=0)
    blocks, each = blocks_of(size // n, partitions)
    assert layout.shape == (2, partitions, blocks, each, n)
    for instance in range(2):
        of_block = [set(layout[instance, :, b].flatten().tolist()) for b in range(blocks)]
        assert sum(map(len, of_block)) == len(set.union(*of_block))
        assert set.union(*of_block) <= set(range(size))
    for order in layout.flatten(0, 1):
        used = order.flatten().tolist()
        assert len(set(used)) == len(used), "groups of one partition are disjoint"


@pytest.mark.parametrize("partitions", [1, 8])
def test_a_record_can_hold_the_blocks_and_few_groups_are_left_over(partitions):
    for groups in range(2, 301):
        blocks, each = blocks_of(groups, partitions)
        assert 2 <= blocks <= MOST_BLOCKS
        assert blocks % together(blocks) == 0, groups
        # Never fewer than a record keeps, where there are as many of at least `least` groups.
        least = 1 if partitions == 1 or groups < FEW_GROUPS else 2
        assert each >= least
        assert blocks >= min(KEPT, groups // least), groups
        # With several partitions every trajectory of a block is in some group all the same.
        share = 0.13 if partitions == 1 or groups >= 2 * FEW_GROUPS else 0.16
        assert 0 <= groups - blocks * each <= share * groups, groups


@pytest.mark.parametrize("power", range(1, 12))
def test_powers_of_two_leave_nothing_over(power):
    groups = 2**power
    blocks, each = blocks_of(groups, 1)
    assert blocks * each == groups
    assert blocks == min(groups, MOST_BLOCKS)


@pytest.mark.parametrize("size", [3, 5])
def test_a_pool_of_one_group_is_refused(size):
    with pytest.raises(ValueError, match="holds 1 group of n = 3; at least 2 are needed"):
        group_order(2, size, 3, 8, seed=0)


def test_the_partitions_differ_and_follow_from_the_seed_and_n():
    first, again, other = (group_order(2, 96, 3, 4, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    groups = [
        {frozenset(group.tolist()) for group in partition.flatten(0, 1)} for partition in first[0]
    ]
    assert len({frozenset(found) for found in groups}) == 4
