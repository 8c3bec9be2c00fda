"""The environments known exactly, and the ranges that rows declare of their rewards."""

import math
import sys
import types
from dataclasses import replace

import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm
from small_environments import make

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.environment import make_environment
from maxk_lab.environments.exact_rows import load_gaussian_reward
from maxk_lab.errors import LabError
from maxk_lab.estimators.objectives import Objective
from maxk_lab.ranges import ANYWHERE, NOT_NEGATIVE, NOT_POSITIVE, SHARES, Range

TIGHT = {"epsabs": 1e-13, "epsrel": 1e-13, "limit": 1000}


def gaussian(reward="square_on_unit", dim=1, mean=0.7, scale=0.1, learn_scale=False):
    parameters = {"name": "gaussian", "dim": dim, "reward": reward}
    policy = {"mean": mean, "scale": scale, "learn_scale": learn_scale}
    environment = make_environment(parameters, policy)
    return environment, environment.policy(0)


def exact(reward, k, form="max", **policy):
    environment, network = gaussian(reward, learn_scale=True, **policy)
    value = environment.exact_objective(network, environment.instances(1, 0), Objective(form, k))
    return value.item(), *(
        g.item() for g in torch.autograd.grad(value, [network.mean, network.log_scale])
    )


def below(t, mean, scale):
    """P(R ≤ t) of x² on [0, 1], 0 ≤ t < 1."""
    outside = norm.cdf(0, mean, scale) + norm.sf(1, mean, scale)
    return outside + norm.cdf(math.sqrt(t), mean, scale) - norm.cdf(0, mean, scale)


def integral(k, mean, scale):
    """∫₀¹ (1 − F(t)^k) dt; t = u² makes it smooth at 0."""
    return quad(lambda u: 2 * u * (1 - below(u * u, mean, scale) ** k), 0, 1, **TIGHT)[0]


def test_density_and_entropy_are_those_of_torch():
    environment, policy = gaussian(dim=2, mean=0.3, scale=0.2)
    rollouts = environment.rollout(policy, environment.instances(2, 1), 5, seed=2)
    normal = torch.distributions.Normal(policy.mean, policy.log_scale.exp())
    torch.testing.assert_close(
        rollouts.log_probs, normal.log_prob(rollouts.actions).sum(-1).detach()
    )
    torch.testing.assert_close(rollouts.entropy, normal.entropy().sum().detach().expand(2, 5))
    assert rollouts.lengths.eq(1).all()
    assert rollouts.logit_proxy.isnan().all()


def test_the_best_draws_have_the_integrated_mean():
    environment, policy = gaussian(mean=0.9)
    rewards = environment.rollout(policy, environment.instances(1, 0), 40_000, seed=3).rewards
    best = rewards.view(-1, 4).amax(1)
    integrated = exact("square_on_unit", 4, mean=0.9, scale=0.1)[0]
    assert abs(best.mean() - integrated) <= 5 * best.std() / len(best) ** 0.5


@pytest.mark.parametrize("scale", [0.02, 0.4, 30.0])
def test_quadrature_is_the_integral_of_the_distribution_function(scale):
    for k, mean in ((1, -0.3), (64, -0.3), (4, 0.9), (64, 0.9), (1, 1.0), (4, 1.0)):
        expected = pytest.approx(integral(k, mean, scale), abs=1e-8)
        assert exact("square_on_unit", k, mean=mean, scale=scale)[0] == expected, (k, mean)


def test_closed_forms_of_the_slope_and_of_minus_the_square(reward):
    """E max of 2 and 3 normals is 1/√π and 3/(2√π); E −x² = −(μ² + σ²)."""
    root = math.sqrt(math.pi)
    for k, shift in ((1, 0.0), (2, 1 / root), (3, 1.5 / root)):
        value, by_mean, by_log_scale = exact("slope", k, mean=0.4, scale=0.2)
        assert value == pytest.approx(0.4 + 0.2 * shift, abs=1e-10)
        assert by_mean == pytest.approx(1.0, abs=1e-10)
        assert by_log_scale == pytest.approx(0.2 * shift, abs=1e-8)
    bowl = reward(lambda x: -x.square().mean(-1))
    value, by_mean, by_log_scale = exact(bowl, 1, mean=0.4, scale=0.2)
    assert (value, by_mean, by_log_scale) == pytest.approx((-0.2, -0.8, -0.08), abs=1e-8)


def test_the_worst_of_the_slope_is_minus_the_best():
    best, worst = (
        exact("slope", 4, form, mean=0.0, scale=1.0)[0] for form in ("max", "order[1 0 0 0]")
    )
    assert best == pytest.approx(1.0293753730, abs=1e-9)
    assert worst == pytest.approx(-best, abs=1e-9)


@pytest.mark.parametrize("mean", [0.4, 0.97, 1.3])
def test_the_maximum_of_rewards_of_0_and_1_is_pass_at_k(mean, reward):
    inside = reward(lambda x: ((x >= 0) & (x <= 1)).all(-1).double(), [0.0, 1.0])
    hit = norm.cdf(1, mean, 0.1) - norm.cdf(0, mean, 0.1)
    for k in (1, 8):
        value, by_mean, by_log_scale = exact(inside, k, mean=mean, scale=0.1)
        assert value == pytest.approx(1 - (1 - hit) ** k, abs=1e-12)
        left, right = norm.pdf(0, mean, 0.1), norm.pdf(1, mean, 0.1)
        factor = k * (1 - hit) ** (k - 1)
        assert by_mean == pytest.approx(factor * (left - right), abs=1e-10)
        slope = factor * ((mean - 1) * right - mean * left)
        assert by_log_scale == pytest.approx(slope, abs=1e-10)


def test_only_one_dimension_is_integrated():
    environment, policy = gaussian(dim=2)
    assert not environment.has_exact
    with pytest.raises(LabError, match="needs dim = 1, got 2"):
        environment.exact_objective(policy, environment.instances(1, 0), Objective("max", 2))


@pytest.fixture
def reward(monkeypatch):
    """The path of a reward function in a module, where it may say where it jumps."""
    module = types.ModuleType("own_reward")
    monkeypatch.setitem(sys.modules, "own_reward", module)

    def put(function, breakpoints=None):
        if breakpoints is not None:
            function.breakpoints = breakpoints
        module.reward = function
        return "own_reward:reward"

    return put


def test_a_function_by_dotted_path_says_where_it_jumps(reward):
    def jump(x):
        return (x[..., 0] > 0.123456).double()

    with pytest.raises(
        LabError, match=r"max@4 of the reward function 'own_reward:reward' moves by .*breakpoints"
    ):
        exact(reward(jump), 4, mean=0.1, scale=0.1)
    value = exact(reward(jump, [0.123456]), 4, mean=0.1, scale=0.1)[0]
    assert value == pytest.approx(1 - norm.cdf(0.23456) ** 4, abs=1e-12)
    name = reward(jump, ["a"])
    with pytest.raises(LabError, match=r"must be numbers, got \['a'\]"):
        load_gaussian_reward(name)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x, r"must return real numbers of shape \(1, 4\) for actions .*\(1, 4, 1\)"),
        (lambda x: 1.0, r"got torch.float32 of shape \(\)"),
        (lambda x: x[..., 0].log(), r"returned nan for x = \[-"),
        (lambda x: {}["oh"], r"raised KeyError for actions of shape \(1, 4, 1\): 'oh'"),
        (lambda x: "good", "raised TypeError|raised ValueError|raised RuntimeError"),
    ],
)
def test_what_a_function_may_not_return(reward, function, message):
    environment, policy = gaussian(reward(function), mean=-5.0)
    with pytest.raises(LabError, match=message):
        environment.rollout(policy, environment.instances(1, 0), 4, seed=0)


LINEAR = {"rewards": "linear", "reward_shift": 0.0}
BINARY = {"rewards": "binary", "reward_shift": 0.0}


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("gaussian", {"reward": "square_on_unit"}, "square_on_unit gives others"),
        ("gaussian", {"reward": "own:function"}, None),
        ("bandit", LINEAR, "spaced evenly"),
        ("bandit", BINARY, None),
        ("bandit", BINARY | {"reward_shift": 1.0}, "1 for the last arm"),
    ],
)
def test_the_row_says_whether_rewards_are_0_and_1(name, parameters, words):
    others = ENVIRONMENTS.get(name).other_rewards(parameters)
    assert others is None if words is None else words in others


def test_the_logit_proxy_is_the_exact_squared_score_norm():
    environment = make("bandit", arms=6)
    policy, instances = environment.policy(0), environment.instances(2, 1)
    rollouts = environment.rollout(policy, instances, 5, seed=2)
    log_probs = environment.log_probs(policy, instances, rollouts.actions)
    for value, proxy in zip(log_probs.flatten(), rollouts.logit_proxy.flatten()):
        (score,) = torch.autograd.grad(value, [policy.logits], retain_graph=True)
        torch.testing.assert_close(score.square().sum(), proxy, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("linear", [0, 0.25, 0.5, 0.75, 1]),
        ("exponential", [(math.exp(5 * x / 4) - 1) / (math.exp(5) - 1) for x in range(5)]),
        ("binary", [0, 0, 0, 0, 1]),
    ],
)
def test_tables_that_are_not_drawn_ascend_from_0_to_1(name, expected):
    for shift in (0.0, -1.0):
        rewards = make("bandit", arms=5, rewards=name, reward_shift=shift).instances(2, 7)
        wanted = torch.tensor([expected, expected], dtype=torch.float64) + shift
        torch.testing.assert_close(rewards, wanted, rtol=1e-14, atol=1e-15)


def test_success_probability_is_that_of_the_last_arm():
    for dtype, tolerance in (("float64", 1e-14), ("float32", 1e-6)):
        environment = make("bandit", dtype, policy={"success_probability": 0.02}, arms=5)
        network = environment.policy(3)
        expected = torch.tensor([0.245] * 4 + [0.02], dtype=getattr(torch, dtype))
        torch.testing.assert_close(network().exp().detach(), expected, rtol=tolerance, atol=0)
        assert torch.equal(network.logits, environment.policy(4).logits)


LLM = {"task": "modular", "rewards": [], "reward_weights": []}
WEIGHTED = {"rewards": ["exact_match", "single_symbol"], "reward_weights": [2.0, -0.5]}


@pytest.mark.parametrize(
    ("name", "parameters", "expected"),
    [
        ("toy_llm", LLM, SHARES),
        ("toy_llm", LLM | {"rewards": ["exact_match", "safe_or_risky"]}, Range(0, 2)),
        ("toy_llm", LLM | WEIGHTED, Range(-0.5, 2)),
        ("toy_llm", LLM | {"rewards": ["math:sqrt"]}, ANYWHERE),
        ("tsp", {}, NOT_POSITIVE),
        ("op", {}, NOT_NEGATIVE),
        ("bandit", {"reward_shift": 2.0}, ANYWHERE),
        ("bandit", BINARY | {"reward_shift": 2.0}, Range(2, 3)),
        ("gaussian", {"reward": "square_on_unit"}, SHARES),
        ("gaussian", {"reward": "math:sqrt"}, ANYWHERE),
    ],
)
def test_the_row_says_the_range_of_rewards(name, parameters, expected):
    assert ENVIRONMENTS.get(name).reward_range(parameters) == expected


def test_a_row_without_a_size_parameter_lists_no_trajectories():
    assert not replace(ENVIRONMENTS.get("bandit"), size_parameter="").enumerable({"arms": 2})


def test_differences_of_bounded_values_are_bounded():
    assert Range(2, 5).differences == Range(-3, 3)
    assert NOT_NEGATIVE.differences == ANYWHERE
    assert (SHARES.clamped(1.5), SHARES.clamped(-1), SHARES.share(2)) == (1, 0, 1)
    assert math.isnan(SHARES.clamped(math.nan))
