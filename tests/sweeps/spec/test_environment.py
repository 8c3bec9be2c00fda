"""Refusals of the environment's own row, at the place in the sweep file that they speak of."""

from __future__ import annotations

import pytest
from sweep_files import Write, problems_of

from maxk_lab.errors import SpecError
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


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("task: edit", "task: edti",
         "5:9: environment.task: unknown task 'edti' (did you mean edit?)"),
        ("[exact_match, brevity]", "[exact_match, brevty]",
         "9:26: environment.rewards.1: unknown reward function "
         "'brevty' (did you mean brevity?)"),
        ("[exact_match, brevity]", "[nowhere:reward, brevity]",
         "9:13: environment.rewards.0: cannot load"),
        ("[exact_match, brevity]", "brevity",
         "9:12: environment.rewards: must be a list, got 'brevity'; write ['brevity']"),
        ("reward_weights: [1, 0.5]", "reward_weights: [1]",
         "10:19: environment.reward_weights: reward_weights must "
         "hold one weight for each of the 2 reward functions"),
        ("max_length: 3", "max_length: 2", "max_length must be at least prompt_length = 3, got 2"),
        ("num_heads: 2", "num_heads: 3",
         "12:14: policy.embed_dim: embed_dim must be a multiple of num_heads"),
        ("pool: 16", "pool: 16, complete: true", None),
        ("vocab_size: 5", "vocab_size: 40", None),
    ],
)  # fmt: skip
def test_a_refusal_points_at_what_it_speaks_of(
    write: Write, old: str, new: str, place: str | None
) -> None:
    assert old in SWEEP
    path = write(SWEEP.replace(old, new))
    if place is None:
        assert load_spec(path)
        return
    (problem,) = problems_of(path)
    assert place in str(problem)


def test_complete_enumeration_is_refused_where_trajectories_cannot_be_listed(write: Write) -> None:
    large = SWEEP.replace("vocab_size: 5", "vocab_size: 40").replace(
        "pool: 16", "pool: 16, complete: true"
    )
    (problem,) = problems_of(write(large))
    assert str(problem).startswith(
        "sweep.yaml:14:46: gradient.complete: needs an environment whose trajectories can all be "
        "listed: toy_llm with "
    )


@pytest.mark.parametrize(
    ("rewards", "reason"),
    [
        ("", "edit_similarity gives others"),
        ("rewards: [exact_match]", None),
        ("rewards: [exact_match, finished]", "exact_match and finished are added up"),
        ("rewards: [exact_match]\n  reward_weights: [2]", "exact_match has the weight 2"),
        ("rewards: [math:comb]", None),
    ],
)
def test_estimators_for_binary_rewards_are_refused_where_rewards_are_others(
    write: Write, rewards: str, reason: str | None
) -> None:
    """A function of the user's own may give 0 and 1: only the run can tell."""
    text = SWEEP.replace("rewards: [exact_match, brevity]\n  reward_weights: [1, 0.5]", rewards)
    path = write(text.replace("estimator: maxk", "estimator: [maxrl, maxk]"))
    if reason is None:
        assert load_spec(path)
        return
    (problem,) = problems_of(path)
    assert problem.path == "gradient.grid.estimator"
    assert problem.message == f"maxrl needs rewards of 0 and 1, but {reason}"


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        (
            "{name: bandit, arms: 4}",
            "those of bandit are N(0, 1) per arm and instance, plus reward_shift",
        ),
        ("{name: cvrp, num_loc: 5}", "those of cvrp are minus the total length"),
    ],
)
def test_an_environment_of_graded_rewards_refuses_estimators_for_binary_ones(
    write: Write, environment: str, reason: str
) -> None:
    grid = "{estimator: [maxk, passk_analytic], baseline: none, n: 4, k: 2}"
    path = write(
        f"name: s\nseeds: [0]\nenvironment: {environment}\ngradient: "
        f"{{instances: 2, pool: 8, grid: {grid}}}\n"
    )
    (problem,) = problems_of(path)
    assert problem.message == f"passk_analytic needs rewards of 0 and 1, but {reason}"


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


def test_what_an_optional_parameter_may_not_be(write: Write) -> None:
    bad = BANDIT.format(
        environment="{name: bandit, rewards: linaer}", policy="{success_probability: 1.5}"
    )
    with pytest.raises(SpecError) as caught:
        load_spec(write(bad))
    assert [problem.path for problem in caught.value.problems] == [
        "environment.rewards",
        "policy.success_probability",
    ]
    certain = BANDIT.format(environment="{name: bandit}", policy="{success_probability: 1}")
    (problem,) = problems_of(write(certain))
    assert problem.path == "policy.success_probability"


def test_a_gaussian_environment_is_resolved(write: Write) -> None:
    spec = load_spec(write(BANDIT.format(environment="{name: gaussian}", policy="{mean: 1}")))
    assert spec.environment == {"name": "gaussian", "dim": 1, "reward": "square_on_unit"}
    assert spec.policy == {"mean": 1.0, "scale": 0.1, "learn_scale": False}


def test_the_trajectories_of_a_gaussian_are_never_listed(write: Write) -> None:
    text = BANDIT.format(environment="{name: gaussian}", policy="{}").replace(
        "pool: 8", "pool: 8, complete: true"
    )
    (problem,) = problems_of(write(text))
    assert problem.message == (
        "needs an environment whose trajectories can all be listed: those of gaussian never can"
    )


@pytest.mark.parametrize(
    ("environment", "parameter", "ends", "message"),
    [
        ("gaussian", "policy.scale", (0.0, 1.0), "scale must be at least 1e-06, got 0.0"),
        ("bandit", "policy.success_probability", (0.0, 0.5),
         "success_probability = 0.0 stands for none being given"),
        ("bandit", "policy.success_probability", (0.5, 1.0),
         "success_probability must be less than 1, got 1.0"),
        ("bandit", "policy.success_probability", (0.1, 0.9), None),
        ("gaussian", "policy.mean", (-1.0, 1.0), None),
    ],
)  # fmt: skip
def test_an_objective_study_asks_the_environment_about_the_ends(
    write: Write, environment: str, parameter: str, ends: tuple[float, float], message: str | None
) -> None:
    text = (
        f"name: s\nseeds: [0]\nenvironment: {{name: {environment}}}\nobjective:\n  parameter: "
        f"{parameter}\n"
        f"  from: {ends[0]}\n  to: {ends[1]}\n  points: 3\n  grid: {{estimator: maxk, k: 2}}\n"
    )
    path = write(text)
    if message is None:
        assert load_spec(path)
        return
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert message in caught.value.problems[0].message
