"""The Gaussian: draws, exact objectives against integrals and closed forms, reward functions."""

import math

import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from maxk_lab.environments.catalogue import ENVIRONMENTS, GAUSSIAN_REWARDS
from maxk_lab.environments.environment import make_environment
from maxk_lab.environments.exact_rows import load_gaussian_reward
from maxk_lab.errors import LabError
from maxk_lab.estimators.objectives import Objective

ROW = ENVIRONMENTS.get("gaussian")
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


# ---
# draws


def test_draws_have_the_mean_and_scale_of_the_policy():
    environment, policy = gaussian(dim=3, mean=-2.0, scale=0.5)
    rollouts = environment.rollout(policy, environment.instances(2, 1), 40_000, seed=2)
    assert rollouts.actions.shape == (2, 40_000, 3)
    assert rollouts.actions.dtype == torch.float64
    flat = rollouts.actions.flatten(0, 1)
    torch.testing.assert_close(
        flat.mean(0), torch.full((3,), -2.0, dtype=torch.float64), atol=0.01, rtol=0
    )
    torch.testing.assert_close(
        flat.std(0), torch.full((3,), 0.5, dtype=torch.float64), atol=0.01, rtol=0
    )
    correlation = torch.corrcoef(flat.T) - torch.eye(3, dtype=torch.float64)
    assert correlation.abs().max() < 0.02


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


def test_the_scale_is_learned_only_where_it_is_asked_for():
    _, fixed = gaussian(scale=0.3)
    _, free = gaussian(scale=0.3, learn_scale=True)
    assert [name for name, _ in fixed.named_parameters()] == ["mean"]
    assert [name for name, _ in free.named_parameters()] == ["mean", "log_scale"]
    assert torch.equal(fixed(), free())
    assert "log_scale" in fixed.state_dict()


def test_every_seed_starts_from_the_same_policy():
    environment, policy = gaussian()
    assert torch.equal(policy(), environment.policy(9)())


# ---------------------------------------------------------------------------------------------
# exact objectives


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.02, 0.1, 0.4, 30.0])
@pytest.mark.parametrize("mean", [-0.3, 0.5, 0.9, 1.0, 1.2])
@pytest.mark.parametrize("k", [1, 2, 4, 16, 64])
def test_quadrature_is_the_integral_of_the_distribution_function(k, mean, scale):
    assert exact("square_on_unit", k, mean=mean, scale=scale)[0] == pytest.approx(
        integral(k, mean, scale), abs=1e-8
    )


@pytest.mark.parametrize("scale", [0.05, 0.1, 1.0])
@pytest.mark.parametrize("mean", [0.2, 0.9, 1.1])
def test_at_k_1_quadrature_is_the_truncated_second_moment(mean, scale):
    """E[x².

    0 ≤ x ≤ 1] = (μ² + σ²)(Φ(b) − Φ(a)) − σ² (b φ(b) − a φ(a)) − 2μσ (φ(b) − φ(a)), a and b
    standardised.
    """
    a, b = (0 - mean) / scale, (1 - mean) / scale
    mass, slope = norm.cdf(b) - norm.cdf(a), norm.pdf(b) - norm.pdf(a)
    second = (mean**2 + scale**2) * mass - scale**2 * (b * norm.pdf(b) - a * norm.pdf(a))
    assert exact("square_on_unit", 1, mean=mean, scale=scale)[0] == pytest.approx(
        second - 2 * mean * scale * slope, abs=1e-9
    )


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2, 8])
@pytest.mark.parametrize("mean", [0.6, 0.95, 1.15])
def test_the_gradient_is_that_of_finite_differences_of_the_integral(k, mean):
    _, by_mean, by_log_scale = exact("square_on_unit", k, mean=mean, scale=0.1)
    step = 1e-4

    def slope(function):
        one = (function(step) - function(-step)) / (2 * step)
        two = (function(2 * step) - function(-2 * step)) / (4 * step)
        return (4 * one - two) / 3

    assert by_mean == pytest.approx(slope(lambda d: integral(k, mean + d, 0.1)), abs=1e-7)
    assert by_log_scale == pytest.approx(
        slope(lambda d: integral(k, mean, 0.1 * math.exp(d))), abs=1e-7
    )


@pytest.mark.parametrize("reward", GAUSSIAN_REWARDS.names())
@pytest.mark.parametrize("k", [1, 3])
def test_the_gradient_is_the_expectation_of_the_score_of_one_draw(reward, k):
    """∇J_K = K E[ψ(x) q(r(x))], q(r) = E max(r, M_{K−1}).

    For K = 1, q is the reward itself; for others it takes nested sums.
    """
    mean, scale, count = 0.8, 0.15, 200_001
    _, by_mean, by_log_scale = exact(reward, k, mean=mean, scale=scale)
    z = torch.linspace(-9, 9, count, dtype=torch.float64)
    p = torch.exp(-0.5 * z.square())
    p /= p.sum()
    environment, _ = gaussian(reward)
    r = environment.rewards((mean + scale * z).unsqueeze(-1))
    r, order = r.sort()
    z, p = z[order], p[order]
    mass = p.cumsum(0) ** (k - 1)
    steps = torch.diff(mass, prepend=mass.new_zeros(1))
    beyond = (r * steps).flip(0).cumsum(0).flip(0) - r * steps
    q = r * mass + beyond if k > 1 else r
    assert by_mean == pytest.approx((k * (p * q * z / scale).sum()).item(), abs=2e-4)
    assert by_log_scale == pytest.approx((k * (p * q * (z.square() - 1)).sum()).item(), abs=2e-4)


def test_closed_forms_of_the_slope_and_the_bowl():
    """E max of 2 and 3 normals is 1/√π and 3/(2√π); E −x² = −(μ² + σ²)."""
    root = math.sqrt(math.pi)
    for k, shift in ((1, 0.0), (2, 1 / root), (3, 1.5 / root)):
        value, by_mean, by_log_scale = exact("slope", k, mean=0.4, scale=0.2)
        assert value == pytest.approx(0.4 + 0.2 * shift, abs=1e-10)
        assert by_mean == pytest.approx(1.0, abs=1e-10)
        assert by_log_scale == pytest.approx(0.2 * shift, abs=1e-8)
    value, by_mean, by_log_scale = exact("bowl", 1, mean=0.4, scale=0.2)
    assert (value, by_mean, by_log_scale) == pytest.approx((-0.2, -0.8, -0.08), abs=1e-8)


def test_other_objectives_of_the_slope():
    """The slope's rewards are normal: mean 0, and the best of 4 is minus the worst by symmetry."""
    best, worst = (
        exact("slope", 4, form, mean=0.0, scale=1.0)[0] for form in ("max", "l_statistic[1 0 0 0]")
    )
    assert best == pytest.approx(1.0293753730, abs=1e-9)
    assert worst == pytest.approx(-best, abs=1e-9)
    for form in ("median", "trimmed_mean[0.25]", "cvar_upper[1]"):
        assert exact("slope", 4, form, mean=0.3, scale=1.0)[0] == pytest.approx(0.3, abs=1e-9)


@pytest.mark.parametrize("mean", [0.4, 0.97, 1.3])
def test_inside_unit_is_pass_at_k(mean):
    hit = norm.cdf(1, mean, 0.1) - norm.cdf(0, mean, 0.1)
    for k in (1, 8):
        value, by_mean, _ = exact("inside_unit", k, mean=mean, scale=0.1)
        assert value == pytest.approx(1 - (1 - hit) ** k, abs=1e-12)
        slope = norm.pdf(0, mean, 0.1) - norm.pdf(1, mean, 0.1)
        assert by_mean == pytest.approx(k * (1 - hit) ** (k - 1) * slope, abs=1e-10)


@pytest.mark.slow
def test_mean_and_maximum_disagree_about_the_two_peaks():
    def best(k):
        points = [i / 100 for i in range(-50, 151)]
        return max(points, key=lambda mean: exact("two_peaks", k, mean=mean, scale=0.3)[0])

    assert best(1) < 0.2
    assert best(16) > 0.6


def test_only_one_dimension_is_integrated():
    environment, policy = gaussian(dim=2)
    assert not environment.has_exact
    assert not ROW.integrable({"dim": 2})
    with pytest.raises(LabError, match="needs dim = 1, got 2"):
        environment.exact_objective(policy, environment.instances(1, 0), Objective("max", 2))
    assert environment.rollout(policy, environment.instances(1, 0), 3, seed=0).rewards.shape == (
        1,
        3,
    )


# -------------------------------------------------------------------------------------------------
# own functions


def write(tmp_path, monkeypatch, body, module="own_rewards"):
    (tmp_path / f"{module}.py").write_text(f"import torch\n{body}\n")
    monkeypatch.syspath_prepend(tmp_path)
    return f"{module}:reward"


def test_a_function_by_dotted_path_says_where_it_jumps(tmp_path, monkeypatch):
    body = "def reward(x): return (x[..., 0] > 0.123456).double()"
    silent = write(tmp_path, monkeypatch, body, "silent_jump")
    with pytest.raises(
        LabError, match=r"max@4 of the reward function 'silent_jump:reward' moves by .*breakpoints"
    ):
        exact(silent, 4, mean=0.1, scale=0.1)
    telling = write(
        tmp_path, monkeypatch, f"{body}\nreward.breakpoints = [0.123456]", "telling_jump"
    )
    value = exact(telling, 4, mean=0.1, scale=0.1)[0]
    assert value == pytest.approx(1 - norm.cdf(0.23456) ** 4, abs=1e-12)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def reward(x): return x", r"'(\w+):reward' must return real numbers of shape \(1, 4\) "
                                    r"for actions .*\(1, 4, 1\)"),
        ("def reward(x): return 1.0", r"got torch.float32 of shape \(\)"),
        ("def reward(x): return x[..., 0].log()", r"returned nan for x = \[-"),
        ("def reward(x): return x[..., 0] * float('inf')", r"returned -?inf for x = "),
        ("def reward(x): raise KeyError('oh')", r"raised KeyError for actions of shape \(1, 4, "
                                                r"1\): 'oh'"),
        ("def reward(x): return 'good'", "raised TypeError|raised ValueError|raised RuntimeError"),
    ],
)  # fmt: skip
def test_what_a_function_may_not_return(tmp_path, monkeypatch, body, message):
    name = write(tmp_path, monkeypatch, body, f"bad_{abs(hash(body))}")
    environment, policy = gaussian(name, mean=-5.0)
    with pytest.raises(LabError, match=message):
        environment.rollout(policy, environment.instances(1, 0), 4, seed=0)


def test_whole_and_truth_values_are_rewards(tmp_path, monkeypatch):
    name = write(tmp_path, monkeypatch, "def reward(x): return x[..., 0] > 0", "truth_values")
    environment, policy = gaussian(name, mean=0.0)
    rewards = environment.rollout(policy, environment.instances(1, 0), 64, seed=0).rewards
    assert rewards.dtype == torch.float64
    assert set(rewards.flatten().tolist()) == {0.0, 1.0}


def test_a_function_cannot_change_the_actions(tmp_path, monkeypatch):
    name = write(
        tmp_path, monkeypatch, "def reward(x): return x.mul_(0)[..., 0]", "changes_actions"
    )
    environment, policy = gaussian(name)
    rollouts = environment.rollout(policy, environment.instances(1, 0), 4, seed=0)
    assert rollouts.actions.ne(0).all()


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        (
            "square_on_unti",
            "unknown Gaussian reward 'square_on_unti' (did you mean square_on_unit?)",
        ),
        ("nowhere:reward", "cannot load the reward function 'nowhere:reward'"),
    ],
)
def test_a_reward_that_is_none_is_refused(reward, message):
    parameters = {"dim": 1, "reward": reward}
    assert message in ROW.refusal(parameters, {})


def test_breakpoints_must_be_numbers(tmp_path, monkeypatch):
    body = "def reward(x): return x[..., 0]\nreward.breakpoints = ['a']"
    name = write(tmp_path, monkeypatch, body, "bad_breakpoints")
    assert ROW.refusal({"dim": 1, "reward": name}, {}) is None  # only its import can tell
    with pytest.raises(LabError, match=r"must be numbers, got \['a'\]"):
        load_gaussian_reward(name)


def test_the_row_says_what_does_not_fit_it():
    assert ROW.refuses_weight("logit_proxy") == "a Gaussian policy has no logits"
    assert ROW.refuses_weight("grad_norm") is None
    assert ENVIRONMENTS.get("bandit").refuses_weight("logit_proxy") is None
    assert ROW.other_rewards({"reward": "square_on_unit"}) == "square_on_unit gives others"
    assert ROW.other_rewards({"reward": "inside_unit"}) is None
    assert ROW.other_rewards({"reward": "own:function"}) is None
    assert not ROW.enumerable({"dim": 1})
