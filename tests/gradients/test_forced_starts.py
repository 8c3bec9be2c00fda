"""Forced starts: the mean of estimates is the gradient of J_K^starts, by listing all tours."""

from __future__ import annotations

from itertools import combinations

import torch

from maxk_lab.environments.environment import make_environment
from maxk_lab.estimators.method import Method
from maxk_lab.gradients.sampled.groups import groups_of
from maxk_lab.gradients.scores.draw import draw_pool
from maxk_lab.gradients.scores.per_trajectory import trained
from maxk_lab.gradients.scores.trajectories import instance_scores
from maxk_lab.seeds import derive_seed

STARTS, SIZE = 5, 5 * 400
POLICY = {
    "embed_dim": 8,
    "num_encoder_layers": 1,
    "num_heads": 1,
    "feedforward_hidden": 8,
    "dtype": "float64",
}


def test_estimates_have_the_exact_gradient_as_their_mean() -> None:
    plain = make_environment({"name": "tsp", "num_loc": STARTS}, POLICY)
    policy, instance, forced = plain.policy(3), plain.instances(1, 4), plain.forced_starts()
    parameters = trained(policy)
    listed, rewards = plain.enumerate(instance)
    chances = forced.log_probs(policy, instance, listed.unsqueeze(0))[0].double().exp()
    of_start = [(chances[listed[:, 0] == s], rewards[listed[:, 0] == s]) for s in range(STARTS)]
    for chance, _ in of_start:
        torch.testing.assert_close(float(chance.detach().sum()), 1.0, rtol=1e-5, atol=0)

    def exact_gradient(starts: list[int]) -> torch.Tensor:
        """The gradient of the mean over pairs of these starts of E[max]."""
        values = []
        for one, other in combinations(starts, 2):
            (p, r), (q, s) = of_start[one], of_start[other]
            best = torch.maximum(r.unsqueeze(1), s.unsqueeze(0)).double()
            values.append(p @ best @ q)
        mean = torch.stack(values).mean()
        parts = torch.autograd.grad(mean, parameters, retain_graph=True, materialize_grads=True)
        return torch.cat([part.flatten() for part in parts])

    pool = draw_pool(forced, policy, instance, 1, SIZE, objectives=[2], seed=1, starts=STARTS)
    assert not pool.exact
    seed = derive_seed("rollouts", 1, 0)
    actions = forced.rollout(policy, instance, SIZE, seed=seed).actions[0]
    assert torch.equal(actions[:, 0], torch.arange(SIZE) % STARTS)
    scores = instance_scores(forced, policy, instance, actions)
    made = [torch.cat(scores(i, i + 50, parameters), 1) for i in range(0, SIZE, 50)]
    for n, baseline in ((4, "centred"), (7, "subloo")):
        groups = groups_of(pool, n, 1, 0)
        weights = groups.weights(Method.parse("maxk", baseline, 2))
        truth = exact_gradient([i % STARTS for i in range(n)])
        along = torch.cat(made) @ truth
        estimates = (weights * groups.gathered(along.unsqueeze(0))).sum(-1).flatten()
        norm = float(truth.square().sum())
        error = float(estimates.std() / len(estimates) ** 0.5)
        assert error < 0.2 * norm
        assert abs(float(estimates.mean()) - norm) < 4 * error
        # Other starts would be seen.
        for starts in ([3, 3], [0, 1]):
            assert abs(float(exact_gradient(starts) @ truth) - norm) > 4 * error
