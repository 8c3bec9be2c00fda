"""Training: the policy-gradient step with every option, its trainer and evaluation, and the plain warm-up of gradient studies."""

from maxk_lab.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Settings": "settings",
        "Weighting": "refusals",
        "Step": "step",
        "Trainer": "trainer",
        "train": "trainer",
        "METRICS": "metrics",
        "WarmUp": "warmup",
        "train_until": "warmup",
        "MaxKPOMO": "rl4co.maxk_pomo",
        "LeaderRewardPOMO": "rl4co.leader_reward",
    },
)
