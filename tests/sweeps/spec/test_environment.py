"""Refusals of the environment's own row, at the place in the sweep file that they speak of."""

from __future__ import annotations

import pytest
from sweep_files import Write

from maxk_lab.seeds import derive_seed
from maxk_lab.sweeps.spec.environment import telling_parameters
from maxk_lab.sweeps.spec.load import load_spec

SWEEP = """\
name: language
seeds: [0]
environment:
  name: toy_llm
  task: edit
  vocab_size: 5
  max_length: 3
  prompt_length: 3
  rewards: [exact_match, brevity]
  reward_weights: [1, 0.5]
policy:
  embed_dim: 16
  num_heads: 2
gradient: {instances: 2, pool: 16, grid: {estimator: maxk, baseline: none, n: 4, k: 2}}
"""


def test_lists_are_parsed_and_filled_in(write: Write) -> None:
    environment = load_spec(write(SWEEP)).environment
    assert environment["rewards"] == ["exact_match", "brevity"]
    assert environment["reward_weights"] == [1.0, 0.5]
    bare = load_spec(
        write(SWEEP.replace("  rewards: [exact_match, brevity]\n  reward_weights: [1, 0.5]\n", ""))
    )
    assert bare.environment["rewards"] == []


@pytest.mark.parametrize("rewards", ["rewards: [exact_match]", "rewards: [math:comb]"])
def test_estimators_for_binary_rewards_run_where_rewards_may_be_0_and_1(
    write: Write, rewards: str
) -> None:
    """A function of the user's own may give them: only the run can tell."""
    text = SWEEP.replace("rewards: [exact_match, brevity]\n  reward_weights: [1, 0.5]", rewards)
    assert load_spec(write(text.replace("estimator: maxk", "estimator: [maxrl, maxk]")))


@pytest.mark.parametrize("change", ["pool: 16, complete: true", "pool: 20"])
def test_what_the_environment_can_do_is_not_refused(write: Write, change: str) -> None:
    assert load_spec(write(SWEEP.replace("pool: 16", change)))


BANDIT = """\
name: s
seeds: [0]
environment: {environment}
policy: {policy}
gradient: {{instances: 2, pool: 8, grid: {{estimator: maxk, baseline: none, n: 4, k: 2}}}}
"""


def test_an_optional_parameter_at_its_default_leaves_cells_and_seeds_as_they_were(
    write: Write,
) -> None:
    before = {"name": "bandit", "arms": 4, "reward_shift": 0.0}
    for environment, policy in (
        ("{name: bandit, arms: 4}", "{}"),
        ("{name: bandit, arms: 4, rewards: gaussian}", "{success_probability: 0}"),
    ):
        spec = load_spec(write(BANDIT.format(environment=environment, policy=policy)))
        assert spec.environment == before
        assert spec.policy == {"init_std": 1.0, "dtype": "float64"}
        assert derive_seed("study", spec.environment, 0) == 5623852341953356506
        assert derive_seed("policy", spec.environment, spec.policy, 0) == 118727569202900511


def test_an_optional_parameter_is_kept_where_it_says_something(write: Write) -> None:
    spec = load_spec(
        write(
            BANDIT.format(
                environment="{name: bandit, arms: 4, rewards: linear}",
                policy="{success_probability: 0.25}",
            )
        )
    )
    assert spec.environment["rewards"] == "linear"
    assert spec.policy["success_probability"] == 0.25
    assert telling_parameters(spec.environment) == {"arms": 4, "rewards": "linear"}


def test_a_gaussian_environment_is_resolved(write: Write) -> None:
    spec = load_spec(write(BANDIT.format(environment="{name: gaussian}", policy="{mean: 1}")))
    assert spec.environment == {"name": "gaussian", "dim": 1, "reward": "square_on_unit"}
    assert spec.policy == {"mean": 1.0, "scale": 0.1, "learn_scale": False}
