"""The catalogue of environments: names, parameters and limits. Imports no torch and no RL4CO."""

from __future__ import annotations

from maxk_lab.catalogue import Catalogue, Parameter
from maxk_lab.environments.bandit_rows import BANDIT
from maxk_lab.environments.gaussian_rows import GAUSSIAN, GAUSSIAN_REWARDS, GaussianRewardRow
from maxk_lab.environments.language_rows import REWARDS, TASKS, TOY_LLM
from maxk_lab.environments.rows import DTYPES, EnvironmentRow, RewardRow, TaskRow

__all__ = [
    "ENVIRONMENTS",
    "GAUSSIAN_REWARDS",
    "REWARDS",
    "TASKS",
    "EnvironmentRow",
    "GaussianRewardRow",
    "RewardRow",
    "TaskRow",
]

_DTYPE = Parameter("dtype", str, "float32", choices=DTYPES, meaning="floating-point type of the policy")
ATTENTION_POLICY = (
    Parameter("embed_dim", int, 64, low=8, meaning="width of the attention model"),
    Parameter("num_encoder_layers", int, 2, low=1),
    Parameter("num_heads", int, 8, low=1, meaning="embed_dim / num_heads must be a multiple of 8"),
    Parameter("feedforward_hidden", int, 128, low=1),
    _DTYPE,
)

# name, meaning, reward, size parameter and its default, enumerable up to, shared encoding
_ROUTING = (
    ("cvrp", "capacitated vehicle routing (RL4CO)", "minus the total length", "num_loc", 20, 5, True),
    ("sdvrp", "split-delivery vehicle routing (RL4CO)", "minus the total length", "num_loc", 20, 4, True),
    ("op", "orienteering (RL4CO)", "the prize collected", "num_loc", 20, 6, True),
    ("pctsp", "prize-collecting TSP (RL4CO)", "minus length and penalties", "num_loc", 20, 5, True),
    ("pdp", "pickup and delivery (RL4CO)", "minus the tour length", "num_loc", 20, 6, False),
    (
        "smtwtp",
        "single-machine total weighted tardiness (RL4CO)",
        "minus the weighted tardiness",
        "num_job",
        10,
        6,
        True,
    ),
)


def _routing(
    name: str, meaning: str, reward: str, size: str, default: int, up_to: int, shared: bool
) -> EnvironmentRow:
    return EnvironmentRow(
        name=name,
        meaning=f"{meaning}, attention model, i.i.d. sampling",
        reward=reward,
        implementation="maxk_lab.environments.rl4co_adapter:RL4COEnvironment",
        citation="RL4CO, arXiv 2306.17100",
        parameters=(Parameter(size, int, default, low=2, meaning="size of an instance"),),
        policy_parameters=ATTENTION_POLICY,
        exact_when=f"{size} ≤ {up_to}",
        small={size: up_to},
        size_parameter=size,
        enumerable_up_to=up_to,
        graded=True,
        shared_encoding=shared,
    )


ENVIRONMENTS: Catalogue[EnvironmentRow] = Catalogue(
    "environment",
    [
        EnvironmentRow(
            name="tsp",
            meaning="travelling salesman on uniform random points (RL4CO), attention model, i.i.d. sampling",
            reward="minus the tour length",
            implementation="maxk_lab.environments.rl4co_adapter:RL4COEnvironment",
            citation="Kool et al. 2019, arXiv 1803.08475; RL4CO, arXiv 2306.17100",
            parameters=(Parameter("num_loc", int, 20, low=3, meaning="number of cities"),),
            policy_parameters=ATTENTION_POLICY,
            exact_when="num_loc ≤ 8",
            small={"num_loc": 6},
            size_parameter="num_loc",
            enumerable_up_to=8,
            graded=True,
        ),
        *(_routing(*row) for row in _ROUTING),
        BANDIT,
        GAUSSIAN,
        TOY_LLM,
    ],
    "maxk_lab.environments",
)
