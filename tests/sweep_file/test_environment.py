"""The environment of a sweep file and its policy: resolved, with what came later left out."""

import pytest
from sweep_files import SMALL

from maxk_lab.environments.words import distinguishing_parameters
from maxk_lab.seeds import derive_seed
from maxk_lab.sweep_file.load import load_spec

LANGUAGE = SMALL.replace(
    "bandit, arms: 4", "toy_llm, task: modular, vocab_size: 5, max_length: 3, prompt_length: 3"
).replace("pool: 16", "pool: 64\n  complete: false")
VARIED = SMALL + "vary: {environment.arms: [8, 4], policy.init_std: [1, 0.5]}\n"
REWARDS = ["exact_match", "single_symbol"]
TWO = [f"environment.rewards={REWARDS}", "environment.reward_weights=[1, 0.5]"]
BANDIT = {"name": "bandit", "arms": 4, "reward_shift": 0.0}
ARMS, STDS = {"environment.arms": (8, 4)}, {"policy.init_std": (1.0, 0.5)}


@pytest.mark.parametrize(
    ("text", "options", "resolved"),
    [
        (LANGUAGE, TWO, {"rewards": REWARDS, "reward_weights": [1.0, 0.5]}),
        (LANGUAGE, [], {"rewards": []}),
        (SMALL, ["environment.rewards=gaussian", "policy.success_probability=0"],
         {"environment": BANDIT, "policy": {"init_std": 1.0, "dtype": "float64"}}),
        (SMALL, ["environment.rewards=linear", "policy.success_probability=0.25"],
         {"rewards": "linear", "success_probability": 0.25}),
        (SMALL.replace("bandit, arms: 4", "gaussian"), ["policy.mean=1"],
         {"environment": {"name": "gaussian", "dim": 1, "reward": "square_on_unit"},
          "policy": {"mean": 1.0, "scale": 0.1, "learn_scale": False}}),
        (VARIED, ["vary.environment.arms.1=5"], {"vary": {"environment.arms": (8, 5)} | STDS}),
        (VARIED, ["vary.policy.init_std=2"], {"vary": ARMS | {"policy.init_std": (2.0,)}}),
        (VARIED, ["vary.environment.reward_shift=[0, 1]"],
         {"vary": ARMS | STDS | {"environment.reward_shift": (0.0, 1.0)}}),
        # Only a run knows the values of rewards, so an estimator for binary ones is not refused.
        *((LANGUAGE, [f"environment.rewards=[{name}]", "gradient.grid.estimator=[maxrl, maxk]"], {})
          for name in ("exact_match", "'math:comb'")),
        (LANGUAGE, ["gradient.complete=true"], {}),
        *((SMALL.replace("bandit, arms: 4", f"tsp, num_loc: {size}"),
           [f"gradient.grid.estimator={name}", f"gradient.behaviour.distance={distance}"], {})
          for name, distance, size in [
              ("top_m", "[0, 0.5]", 5), ("top_m", "0", 20),
              ("[maxk, 'top_m[1]', off_policy_maxk]", "0.5", 20)]),
    ],
)  # fmt: skip
def test_what_is_resolved(write, text, options, resolved):
    spec = load_spec(write(text), options)
    values = {**spec.environment, **spec.policy, "vary": spec.vary}
    values |= {"environment": spec.environment, "policy": spec.policy}
    assert {key: values[key] for key in resolved} == resolved


def test_seeds_derive_from_what_is_resolved(write):
    spec = load_spec(write(SMALL), ["policy.success_probability=0"])
    assert derive_seed("study", spec.environment, 0) == 5623852341953356506
    assert derive_seed("policy", spec.environment, spec.policy, 0) == 118727569202900511
    linear = load_spec(write(SMALL), ["environment.rewards=linear"]).environment
    assert distinguishing_parameters(linear) == {"arms": 4, "rewards": "linear"}
