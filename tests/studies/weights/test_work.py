"""The weights study: the estimators' weights, of groups that depend on size and seed alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from maxk_lab.errors import LabError
from maxk_lab.estimators import advantages
from maxk_lab.estimators.method import Method
from maxk_lab.studies.weights.spec import rewards_only_refusal
from maxk_lab.studies.weights.work import measure as measure_weights

UNIT = {
    "environment": {"name": "gaussian", "dim": 1, "reward": "square_on_unit"},
    "policy": {"mean": 0.9, "scale": 0.1, "learn_scale": False},
    "seed": 3,
    "groups": 5,
}


def cell(
    baseline: str = "subloo", n: int = 8, k: int = 4, estimator: str = "maxk"
) -> dict[str, Any]:
    name = f"{estimator}/{baseline}/{n}/{k}"
    return {"id": name, "estimator": estimator, "baseline": baseline, "n": n, "k": k}


def measured(*cells: dict[str, Any], **changes: Any) -> list[Any]:
    results = measure_weights(UNIT | changes, cells, cache=None, event=lambda name, payload: None)
    return [result for _, result in results]


def test_weights_are_those_of_the_estimators() -> None:
    baselines = ("none", "centred", "subloo")
    for metrics, baseline in zip(measured(*map(cell, baselines)), baselines, strict=True):
        rewards = torch.tensor(metrics["rewards"], dtype=torch.float64)
        weights = torch.tensor(metrics["weights"], dtype=torch.float64)
        assert rewards.shape == weights.shape == (5, 8)
        expected = advantages(rewards, estimator="maxk", baseline=baseline, k=4)
        assert torch.equal(weights, expected)
        assert metrics["weight_sum"] == pytest.approx(expected.sum(1).mean().item())
        assert metrics["weight_min"] == expected.min().item()
        assert metrics["zero_share"] == (expected == 0).double().mean().item()


def test_groups_are_shared_by_cells_of_one_size_and_depend_on_no_other_cell() -> None:
    first, second, larger = measured(cell("none"), cell("centred"), cell("centred", n=16))
    assert first["rewards"] == second["rewards"]
    assert measured(cell("centred", n=16))[0] == larger
    assert measured(cell("none"), seed=4)[0]["rewards"] != first["rewards"]
    distinct = {tuple(group) for group in first["rewards"]}
    assert len(distinct) == 5


def test_every_seed_has_instances_of_its_own() -> None:
    """The rewards of a bandit's arms are its instance."""
    bandit = {"environment": {"name": "bandit", "arms": 3, "reward_shift": 0.0}, "groups": 1}
    policy = {"init_std": 0.5, "dtype": "float64"}
    three, four = (
        set(measured(cell("none", n=64), **bandit, policy=policy, seed=seed)[0]["rewards"][0])
        for seed in (3, 4)
    )
    assert len(three) == len(four) == 3
    assert three.isdisjoint(four)


@pytest.mark.parametrize(
    ("estimator", "baseline", "reason"),
    [
        ("maxk", "optimal[length]", "needs the trajectory weight length"),
        ("maxk", "optimal[grad_norm]", "needs the trajectory weight grad_norm"),
        ("maxk", "affine[cross_fit]", "is fitted to gradients"),
        ("maxk", "ladder[cross_fit]", "is fitted to gradients"),
        ("off_policy_maxk", "none", "needs the probability ratios of two policies"),
        ("maxk", "affine[0.5]", None),
        ("top_m[2]", "subloo", None),
    ],
)
def test_pairs_that_need_more_than_rewards_are_refused(
    estimator: str, baseline: str, reason: str | None
) -> None:
    refused = rewards_only_refusal(Method.parse(estimator, baseline))
    (result,) = measured(cell(baseline, estimator=estimator))
    assert isinstance(result, LabError) == (reason is not None)
    if reason is not None:
        assert refused is not None
        assert reason in refused
        assert str(result) == refused
