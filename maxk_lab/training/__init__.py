"""Training: the policy-gradient step with every option, its trainer, and a plain warm-up."""

from typing import TYPE_CHECKING

from maxk_lab.lazy import lazy_exports

if TYPE_CHECKING:
    from maxk_lab.training.refusals import Weighting as Weighting
    from maxk_lab.training.rl4co.leader_reward import LeaderRewardPOMO as LeaderRewardPOMO
    from maxk_lab.training.rl4co.maxk_pomo import MaxKPOMO as MaxKPOMO
    from maxk_lab.training.settings import Settings as Settings
    from maxk_lab.training.step.metrics import METRICS as METRICS
    from maxk_lab.training.step.step import Step as Step
    from maxk_lab.training.trainer import Trainer as Trainer
    from maxk_lab.training.trainer import train as train
    from maxk_lab.training.warmup import WarmUp as WarmUp
    from maxk_lab.training.warmup import train_until as train_until
else:
    __getattr__, __dir__ = lazy_exports(__name__)
