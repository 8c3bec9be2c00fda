"""Training: the policy-gradient step with every option, its trainer, and RL4CO's POMO for Max@K."""

from typing import TYPE_CHECKING

from maxk_lab.lazy import lazy_exports

if TYPE_CHECKING:
    from maxk_lab.training.pomo import LeaderRewardPOMO as LeaderRewardPOMO
    from maxk_lab.training.pomo import MaxKPOMO as MaxKPOMO
    from maxk_lab.training.settings import Settings as Settings
    from maxk_lab.training.settings import Weighting as Weighting
    from maxk_lab.training.step import Step as Step
    from maxk_lab.training.trainer import Trainer as Trainer
    from maxk_lab.training.trainer import train as train
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "pomo": "LeaderRewardPOMO MaxKPOMO",
            "settings": "Settings Weighting",
            "step": "Step",
            "trainer": "Trainer train",
        },
    )
