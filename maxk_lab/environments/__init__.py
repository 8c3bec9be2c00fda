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
        "Environment": "environment",
        "Rollouts": "rollouts",
        "TokenStatistics": "rollouts",
        "VectorisedEnvironment": "capabilities",
        "ExactEnvironment": "capabilities",
        "SamplingWithTokens": "capabilities",
        "ForcedStarts": "capabilities",
        "GreedyEnvironment": "capabilities",
        "InstanceFiles": "capabilities",
        "PlacedEnvironment": "capabilities",
        "KnownOptima": "capabilities",
        "Optima": "capabilities",
        "make_environment": "environment",
        "Bandit": "bandit.environment",
        "Gaussian": "gaussian.environment",
        "RL4COEnvironment": "routing.adapter",
        "LanguageEnvironment": "language.environment",
        "ToyLLM": "language.toy_llm",
        "PretrainedLLM": "language.pretrained",
        "CausalTransformer": "maxk_lab.policies.transformer",
        "RewardFunction": "language.rewards",
        "load_rewards": "language.rewards",
        "score": "language.rewards",
    },
)
