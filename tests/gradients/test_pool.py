"""A pool's record of its trajectories, through its file, and of another policy that drew them."""

import io

import pytest
import small_environments
import torch
from score_tables import bandit, pool_of

from maxk_lab.errors import LabError
from maxk_lab.gradients.scores.draw import perturbed
from maxk_lab.gradients.scores.pool import ScorePool, correlation

KINDS = ("length", "logit_proxy", "grad_norm")


def toy_llm(enumerable=True):
    sizes = {"vocab_size": 4, "max_length": 3, "prompt_length": 3}
    policy = {"embed_dim": 8, "init_std": 0.5}
    environment = small_environments.make("toy_llm", policy=policy, **sizes)
    environment.enumerable = enumerable
    return environment


def tensors(part):
    """All tensors of a part, by name."""
    flat = dict(vars(part))
    for name in ("drawn", "listed"):
        flat |= {f"{name}.{key}": value for key, value in vars(flat.pop(name) or object).items()}
    return {name: value for name, value in flat.items() if isinstance(value, torch.Tensor)}


def test_a_policy_in_bfloat16_has_a_pool():
    environment = toy_llm(enumerable=False)
    policy = environment.policy(0).to(torch.bfloat16)
    products = pool_of(environment, 8, 2, policy=policy).parts[0].products
    assert products.dtype == torch.float64
    assert products.isfinite().all()
    with pytest.raises(LabError, match="need a policy in float32"):
        pool_of(toy_llm(), 8, 2, policy=policy)


@pytest.mark.parametrize("make", [toy_llm, lambda: toy_llm(False), bandit])
def test_a_pool_is_the_same_through_its_file(make):
    environment = make()
    behaviour = perturbed(environment.policy(0), 0.3, seed=2)
    pool = pool_of(environment, 30, 2, behaviour=behaviour)
    file = io.BytesIO()
    torch.save(pool.state(), file)
    file.seek(0)
    again = ScorePool.from_state(torch.load(file, weights_only=True))
    assert again.tolerance == pool.tolerance == 1e-9
    assert (again.objectives, again.listed, again.off_policy) == (
        pool.objectives,
        pool.listed,
        True,
    )
    assert pool.listed == environment.enumerable
    for part, other in zip(pool.parts, again.parts, strict=True):
        found, expected = tensors(other), tensors(part)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], values) for name, values in expected.items())


@pytest.mark.parametrize("distance", [0.0, 0.7])
def test_the_listing_says_of_each_drawn_trajectory_what_its_rollout_says(distance):
    behaviour = perturbed(toy_llm().policy(0), distance, seed=2)
    both = (pool_of(toy_llm(listed), 30, 2, behaviour=behaviour) for listed in (True, False))
    listed, drawn = both
    assert listed.off_policy == drawn.off_policy == (distance > 0)
    for part, other in zip(listed.parts, drawn.parts, strict=True):
        assert part.listed.probabilities.sum().item() == pytest.approx(1.0, abs=1e-12)
        ratios = part.listed.probabilities / part.listed.behaviour
        torch.testing.assert_close(part.listed.ratios, ratios)
        torch.testing.assert_close(part.drawn.ratios, other.drawn.ratios)
        torch.testing.assert_close(part.drawn.rewards, other.drawn.rewards)
        for kind in KINDS:
            of_rows = part.trajectory_weight(kind, listed=True)[part.rows]
            assert torch.equal(of_rows, part.trajectory_weight(kind))
            expected = other.trajectory_weight(kind)
            torch.testing.assert_close(of_rows, expected, rtol=1e-9, atol=1e-12)


def test_refusals():
    environment = bandit()
    instances = environment.instances(2, 1)
    instances[1, 2] = torch.nan
    with pytest.raises(LabError, match="of instance 1 have no reward"):
        pool_of(environment, 50, 2, [1], instances=instances)
    with pytest.raises(ValueError, match="distance must be at least 0, got -1"):
        perturbed(environment.policy(0), -1, 1)
    log_probs = environment.log_probs
    environment.log_probs = lambda *of: log_probs(*of).detach()
    with pytest.raises(LabError, match="environment's log_probs returns a tensor that has no grad"):
        pool_of(environment, 16, 1)


def test_correlation_is_weighted_by_probability_and_none_where_nothing_varies():
    x, y = torch.tensor([0.0, 1.0, 5.0]), torch.tensor([1.0, 0.0, 7.0])
    drawn = torch.tensor([0, 0, 0, 1, 2, 2])  # the weights below, as repeats
    expected = torch.corrcoef(torch.stack([x[drawn], y[drawn]]).double())[0, 1].item()
    chance = torch.tensor([3.0, 1.0, 2.0]).double()
    assert correlation(x, y, chance) == pytest.approx(expected, rel=1e-12)
    assert correlation(torch.full((3,), 0.1), y, chance) is None
    assert correlation(x, torch.full((3,), 1 / 3), chance) is None
    assert correlation(x, torch.full((3,), torch.nan), chance) is None


def test_a_perturbed_policy_lies_at_its_distance_on_a_line_that_the_seed_alone_gives():
    policy = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)).double()
    policy[0].bias.requires_grad_(False)

    def step(distance, seed):
        moved = perturbed(policy, distance, seed)
        assert torch.equal(moved[0].bias, policy[0].bias)
        pairs = zip(moved.parameters(), policy.parameters(), strict=True)
        return torch.cat([(a - b).detach().flatten() for a, b in pairs])

    near, far = step(0.5, 1), step(2.0, 1)
    assert near.norm().item() == pytest.approx(0.5, rel=1e-12)
    torch.testing.assert_close(4 * near, far, rtol=1e-10, atol=1e-12)
    assert not torch.allclose(near, step(0.5, 2))
