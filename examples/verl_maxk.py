"""Train for the best of 8 answers with verl's own functions, without its GPUs, in seconds on a CPU.

`import verl` has loaded the plug-in of maxk-lab: there is no code for it, only the four settings
below, which are those of a training with verl. The policy draws three digits; the reward is their
product.
"""

import numpy as np
import torch
from hydra import compose, initialize_config_module
from verl import DataProto
from verl.trainer.ppo.core_algos import agg_loss
from verl.trainer.ppo.ray_trainer import compute_advantage

from maxk_lab.adapters import grouped_curve

SETTINGS = [
    "algorithm.adv_estimator=maxk",
    "+algorithm.maxk_k=8",
    "algorithm.norm_adv_by_std_in_grpo=False",
    "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum",
]
PROMPTS, SAMPLES, STEPS = 8, 16, 3

with initialize_config_module("verl.trainer.config", version_base=None):
    config = compose("ppo_trainer", SETTINGS)
algorithm = config.algorithm
torch.manual_seed(0)
logits = torch.zeros(STEPS, 10, requires_grad=True)
optimizer = torch.optim.Adam([logits], lr=0.05)
uids = np.repeat([f"prompt-{i}" for i in range(PROMPTS)], SAMPLES).astype(object)
mask = torch.ones(PROMPTS * SAMPLES, STEPS)

for step in range(60):
    policy = torch.distributions.Categorical(logits=logits)
    digits = policy.sample((PROMPTS * SAMPLES,))
    rewards = torch.zeros_like(mask)
    rewards[:, -1] = digits.float().prod(1)
    if step in (0, 59):
        print(f"step {step}: best of 8 {grouped_curve(rewards.sum(1), uids, [8]).mean():.1f}")
    data = DataProto.from_dict(
        tensors={"token_level_rewards": rewards, "response_mask": mask}, non_tensors={"uid": uids}
    )
    data = compute_advantage(data, algorithm.adv_estimator, config=algorithm)
    loss = agg_loss(
        -data.batch["advantages"] * policy.log_prob(digits),
        mask,
        config.actor_rollout_ref.actor.loss_agg_mode,
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
