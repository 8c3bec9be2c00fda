"""A pool's record of its trajectories, through its file, and what it says of cheap weights."""

import pytest
import torch

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.environment import make_environment
from maxk_lab.errors import LabError
from maxk_lab.gradients.scores.draw import draw_pool
from maxk_lab.gradients.scores.pool import ScorePool, correlation


def toy_llm(**parameters):
    row = ENVIRONMENTS.get("toy_llm")
    return make_environment(
        row.settings.defaults() | {"name": row.name} | parameters,
        row.policy_settings.defaults() | {"dtype": "float64", "embed_dim": 8, "init_std": 0.5},
    )


def bandit():
    return make_environment(
        {"name": "bandit", "arms": 4, "reward_shift": 0.0}, {"init_std": 0.5, "dtype": "float64"}
    )


@pytest.mark.parametrize("enumerable", [True, False])
def test_a_pool_keeps_lengths_and_proxies_through_its_file(enumerable):
    sizes = {"vocab_size": 4, "max_length": 3, "prompt_length": 3}
    environment = toy_llm(**sizes)
    environment.enumerable = enumerable
    policy, instances = environment.policy(0), environment.instances(2, 1)
    pool = draw_pool(environment, policy, instances, 2, 30, objectives=[2], seed=3)
    assert pool.listed == enumerable
    again = ScorePool.from_arrays(pool.to_arrays())
    assert again.tolerance == pool.tolerance == 1e-9
    for kind in ("length", "logit_proxy", "grad_norm"):
        assert torch.equal(again.trajectory_weight(kind), pool.trajectory_weight(kind))
    if not enumerable:
        return
    # The table says of each drawn trajectory what the rollout of the same seed says.
    blind = toy_llm(**sizes)
    blind.enumerable = False
    drawn = draw_pool(blind, policy, instances, 2, 30, objectives=[2], seed=3)
    for part, other in zip(pool.parts, drawn.parts):
        assert part.listed.probabilities.sum().item() == pytest.approx(1.0, abs=1e-12)
        for kind in ("length", "logit_proxy", "grad_norm"):
            of_rows = part.listed_weight(kind)[part.rows]
            torch.testing.assert_close(
                of_rows, other.trajectory_weight(kind), rtol=1e-9, atol=1e-12
            )
            assert torch.equal(of_rows, part.trajectory_weight(kind))


def test_a_missing_reward_is_named():
    environment = bandit()
    instances = environment.instances(2, 1)
    instances[1, 2] = torch.nan
    with pytest.raises(LabError, match="of instance 1 have no reward"):
        draw_pool(environment, environment.policy(0), instances, 2, 50, objectives=[1], seed=3)


def test_correlation_is_weighted_by_probability_and_none_where_nothing_varies():
    x, y = torch.tensor([0.0, 1.0, 5.0]), torch.tensor([1.0, 0.0, 7.0])
    drawn = torch.tensor([0, 0, 0, 1, 2, 2])  # the weights below, as repeats
    expected = torch.corrcoef(torch.stack([x[drawn], y[drawn]]).double())[0, 1].item()
    chance = torch.tensor([3.0, 1.0, 2.0]).double()
    assert correlation(x, y, chance) == pytest.approx(expected, rel=1e-12)
    assert correlation(torch.full((3,), 0.1), y, chance) is None
    assert correlation(x, torch.full((3,), 1 / 3), chance) is None
