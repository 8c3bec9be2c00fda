"""Train a policy for the best of 8 episodes, with TorchRL's replay buffer, in seconds on a CPU.

The policy draws three digits; the return is their product. The only line that is not TorchRL's own
is `MaxKAdvantage`.
"""

import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.data.replay_buffers import SamplerWithoutReplacement

from maxk_lab.adapters import grouped_curve
from maxk_lab.adapters.torchrl import MaxKAdvantage

GROUPS, SIZE, STEPS, K = 8, 16, 3, 8
torch.manual_seed(0)
logits = torch.zeros(STEPS, 10, requires_grad=True)
optimizer = torch.optim.Adam([logits], lr=0.05)
buffer = ReplayBuffer(
    storage=LazyTensorStorage(GROUPS * SIZE * STEPS),
    sampler=SamplerWithoutReplacement(),
    batch_size=GROUPS * SIZE * STEPS,
    transform=MaxKAdvantage(SIZE, "group", k=K, baseline="subloo"),
)


def episodes() -> TensorDict:
    """A batch of whole episodes, [GROUPS x SIZE, STEPS]; the reward comes at the end."""
    count = GROUPS * SIZE
    actions = torch.distributions.Categorical(logits=logits.detach()).sample((count,))
    reward, done = torch.zeros(count, STEPS, 1), torch.zeros(count, STEPS, 1, dtype=torch.bool)
    reward[:, -1, 0], done[:, -1] = actions.float().prod(1), True
    return TensorDict(
        {
            "step": torch.arange(STEPS).expand(count, STEPS),
            "action": actions,
            "group": torch.arange(count)[:, None].expand(count, STEPS) // SIZE,
            "next": TensorDict({"reward": reward, "done": done}, [count, STEPS]),
        },
        [count, STEPS],
    )


for step in range(60):
    batch = episodes()
    if step in (0, 59):
        returns, names = batch["next", "reward"].sum((1, 2)), batch["group"][:, 0]
        print(f"step {step}: best of {K} {grouped_curve(returns, names, [K]).mean():.1f}")
    buffer.empty()
    buffer.extend(batch)
    data = buffer.sample()
    log_probs = logits.log_softmax(1)[data["step"], data["action"]]
    # A sum over the steps of an episode, a mean over episodes: what n w is made for.
    loss = -(data["advantage"].squeeze(-1) * log_probs).sum() / (GROUPS * SIZE)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
