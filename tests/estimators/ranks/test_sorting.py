"""The fast sort gives the order of `torch.sort(stable=True)`."""

from __future__ import annotations

import pytest
import torch

from maxk_lab.estimators.ranks.sorting import sort_groups


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1,), (0, 4), (7, 64), (2, 3, 1000)])
def test_same_order_as_a_stable_torch_sort(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    plain = torch.randn(shape, generator=generator)
    tied = torch.randint(-3, 3, shape, generator=generator).float()
    for rewards in (plain, tied, 1e-42 * plain, 1e4 * plain):
        rewards = rewards.to(dtype)
        expected, order = torch.sort(rewards, dim=-1, stable=True)
        values, fast_order = sort_groups(rewards, stable_sort=True)
        assert torch.equal(values, expected.double())
        assert torch.equal(fast_order, order)


def test_extremes_and_strides() -> None:
    limits = torch.finfo(torch.float32)
    rewards = torch.tensor(
        [limits.max, 0.0, limits.min, limits.smallest_normal, -1e-45, 1e-45, -1.0]
    )
    values, _ = sort_groups(rewards, stable_sort=True)
    assert torch.equal(values, rewards.double().sort().values)
    table = torch.randn(8, 5, generator=torch.Generator().manual_seed(1)).T
    assert torch.equal(sort_groups(table, stable_sort=True)[0], table.sort(dim=-1).values.double())
    assert torch.equal(
        sort_groups(table[:, ::2], stable_sort=True)[0], table[:, ::2].sort(dim=-1).values.double()
    )


@pytest.mark.parametrize("bad", [float("nan"), -float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_sorts_to_an_end(bad: float) -> None:
    values, _ = sort_groups(torch.tensor([1.0, bad, 2.0]), stable_sort=True)
    assert not torch.isfinite(values[[0, -1]]).all()
