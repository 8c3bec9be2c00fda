"""Environments: what draws i.i.d. trajectories from a policy, and lists them all where that is possible."""

from maxk_lab.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "ENVIRONMENTS": "catalogue",
        "TASKS": "catalogue",
        "REWARDS": "catalogue",
        "GAUSSIAN_REWARDS": "catalogue",
        "EnvironmentRow": "catalogue",
        "Environment": "protocol",
        "Rollouts": "protocol",
        "TokenStatistics": "protocol",
        "VectorisedEnvironment": "protocol",
        "ExactEnvironment": "protocol",
        "SamplingWithTokens": "protocol",
        "ForcedStarts": "protocol",
        "GreedyEnvironment": "protocol",
        "InstanceFiles": "protocol",
        "PlacedEnvironment": "protocol",
        "make_environment": "protocol",
        "Bandit": "bandit",
        "Gaussian": "gaussian",
        "RL4COEnvironment": "rl4co_adapter",
        "LanguageEnvironment": "language",
        "ToyLLM": "toy_llm",
        "PretrainedLLM": "pretrained",
        "CausalTransformer": "transformer",
        "RewardFunction": "rewards",
        "load_rewards": "rewards",
        "score": "rewards",
    },
)
