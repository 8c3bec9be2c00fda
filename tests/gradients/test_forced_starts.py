"""Forced starts: groups that have every start, and the gradient of J_K^starts by enumeration."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
import torch

import maxk_lab
from maxk_lab.environments.environment import make_environment
from maxk_lab.estimators.method import Method
from maxk_lab.gradients.sampled.groups import group_order, groups_of
from maxk_lab.gradients.scores.draw import draw_pool
from maxk_lab.gradients.scores.trajectories import instance_scores
from maxk_lab.seeds import derive_seed
from maxk_lab.studies.gradient import recommend

STARTS = 5
TSP5 = {"name": "tsp", "num_loc": STARTS}
POLICY = {
    "embed_dim": 8,
    "num_encoder_layers": 1,
    "num_heads": 1,
    "feedforward_hidden": 8,
    "dtype": "float64",
}


@pytest.mark.parametrize(("n", "partitions"), [(3, 1), (5, 4), (7, 1), (10, 4)])
def test_member_i_of_every_group_has_start_i(n: int, partitions: int) -> None:
    size = 203
    order = group_order(2, size, n, partitions, 0, starts=STARTS)
    assert int(order.max()) < size
    assert torch.equal(order % STARTS, (torch.arange(n) % STARTS).expand_as(order))
    for instance in range(2):
        blocks = [set(order[instance, :, b].flatten().tolist()) for b in range(order.shape[2])]
        assert sum(map(len, blocks)) == len(set.union(*blocks))
    for groups in order.flatten(0, 1):
        assert len(groups.unique()) == groups.numel(), "groups of one partition are disjoint"
    if partitions > 1:
        assert not torch.equal(order[0, 0], order[0, 1])


def test_a_pool_too_small_says_what_a_group_takes() -> None:
    wanted = "holds 1 group of n = 7, which takes 10 with 5 forced starts; at least 2 are needed"
    with pytest.raises(ValueError, match=wanted):
        group_order(1, 19, 7, 1, 0, starts=STARTS)


def exact_gradient(environment, policy, instance, starts: list[int], k: int) -> torch.Tensor:
    """The gradient of the mean over K-subsets of these starts of E[max], by listing all tours."""
    listed, rewards = make_environment(TSP5, POLICY).enumerate(instance)
    chances = environment.log_probs(policy, instance, listed.unsqueeze(0))[0].double().exp()
    of_start = [(chances[listed[:, 0] == s], rewards[listed[:, 0] == s]) for s in range(STARTS)]
    for chance, _ in of_start:
        torch.testing.assert_close(float(chance.detach().sum()), 1.0, rtol=1e-5, atol=0)
    values = []
    for subset in combinations(starts, k):
        chance, best = torch.ones(1, dtype=torch.float64), torch.full((1,), -torch.inf)
        for start in subset:
            p, r = of_start[start]
            chance = (chance.unsqueeze(1) * p).flatten()
            best = torch.maximum(best.unsqueeze(1), r).flatten()
        values.append(chance @ best.double())
    parameters = [p for p in policy.parameters() if p.requires_grad]
    found = torch.autograd.grad(torch.stack(values).mean(), parameters, allow_unused=True)
    return torch.cat(
        [
            (torch.zeros_like(p) if g is None else g).flatten()
            for p, g in zip(parameters, found, strict=True)
        ]
    ).double()


@pytest.mark.parametrize(("n", "baseline"), [(4, "centred"), (7, "subloo")])
def test_estimates_have_the_exact_gradient_as_their_mean(n: int, baseline: str) -> None:
    plain = make_environment(TSP5, POLICY)
    policy, instance = plain.policy(3), plain.instances(1, 4)
    forced = plain.forced_starts()
    pool = draw_pool(
        forced, policy, instance, 1, STARTS * 800, objectives=[2], seed=1, starts=STARTS
    )
    assert not pool.exact
    groups = groups_of(pool, n, 1, 0)
    weights = groups.weights(Method.parse("maxk", baseline, 2))
    slots = [i % STARTS for i in range(n)]
    truth = exact_gradient(forced, policy, instance, slots, 2)
    # The products of the scores with the exact gradient, and so of the estimates.
    seed = derive_seed("rollouts", 1, 0)
    actions = forced.rollout(policy, instance, STARTS * 800, seed=seed).actions
    assert torch.equal(actions[0, :, 0], torch.arange(STARTS * 800) % STARTS)
    scores = instance_scores(forced, policy, instance, actions[0])
    parameters = [p for p in policy.parameters() if p.requires_grad]
    starts = range(0, len(actions[0]), 50)
    made = torch.cat([torch.cat(scores(i, i + 50, parameters), 1) for i in starts])
    along = made @ truth
    estimates = (weights * groups.gathered(along.unsqueeze(0))).sum(-1).flatten()
    norm = float(truth.square().sum())
    error = float(estimates.std() / len(estimates) ** 0.5)
    assert error < 0.2 * norm
    assert abs(float(estimates.mean()) - norm) < 4 * error
    # Other starts would be seen.
    for starts in ([3, 3], [0, 1]):
        wrong = exact_gradient(forced, policy, instance, starts, 2)
        assert abs(float(wrong @ truth) - norm) > 4 * error


# Short beside it: the claims of experiments/ci/tsp5_starts.yaml, a study of both starts.
@pytest.mark.deep
def test_a_study_of_both_starts_tells_them_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    grid = {"estimator": "maxk", "baseline": ["none", "centred"]}
    gradient = {"start": ["iid", "forced"], "instances": 2, "pool": 80, "partitions": 1}
    run = maxk_lab.run(
        {
            "name": "s",
            "seeds": [0],
            "environment": TSP5,
            "policy": POLICY | {"dtype": "float32"},
            "gradient": gradient | {"grid": grid | {"n": 4, "k": 2}},
            "tracking": {"wandb": "disabled"},
        },
        progress=False,
    )
    recommended = recommend.answers(
        run.report()._report.studies["gradient"],
        recommend.Question("max@2", 8, 0, only=""),
    )
    assert {answer.use.row.key.path.split("/")[1] for answer in recommended if answer.use} == {
        "start=iid",
        "start=multistart",
    }
    rows = run.report()._report.studies["gradient"].rows
    found = {(dict(row.key.setting)["start"], row.key.baseline): row for row in rows}
    assert len(found) == 4
    assert found["iid", "none"].against == "exact"
    assert found["multistart", "none"].against == "reference:centred"
    assert all(row.catalogued_unbiased for row in rows)
    assert {*run.report().tables.estimates.bias} - {""} == {"unbiased (proved)"}
