"""An environment of your own: six methods. A policy guesses the digits of a code, one by one.

maxk-lab check examples/own_environment.py:Code
"""

import torch

from maxk_lab.environments import Rollouts, token_statistics

LENGTH, DIGITS = 3, 4


class Table(torch.nn.Module):
    """One row of logits [DIGITS] per position."""

    def __init__(self, seed):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        logits = torch.randn(LENGTH, DIGITS, dtype=torch.float64, generator=generator)
        self.logits = torch.nn.Parameter(logits)


class Code:
    """Instances are codes [B, LENGTH]; the reward is the share of digits that are right."""

    enumerable = True

    def policy(self, seed):
        return Table(seed).eval()

    def instances(self, count, seed, *, held_out=False):
        generator = torch.Generator().manual_seed(2 * seed + held_out)
        return torch.randint(DIGITS, (count, LENGTH), generator=generator)

    @torch.no_grad()
    def rollout(self, policy, instances, n, *, seed):
        generator = torch.Generator().manual_seed(seed)
        chances = policy.logits.softmax(-1)
        drawn = torch.multinomial(chances, len(instances) * n, True, generator=generator)
        actions = drawn.T.view(len(instances), n, LENGTH)
        rewards = (actions == instances.unsqueeze(1)).double().mean(-1)
        tokens = self.tokens(policy, instances, actions)
        return Rollouts.from_tokens(tokens, actions=actions, rewards=rewards)

    def log_probs(self, policy, instances, actions):
        return self.tokens(policy, instances, actions).log_probs.sum(-1)

    def tokens(self, policy, instances, actions):
        """Statistics [B, n, T]: T may exceed LENGTH, where actions are padded."""
        decides = torch.arange(actions.shape[-1]) < LENGTH
        rows = torch.arange(actions.shape[-1]).clamp(max=LENGTH - 1)
        log_policy = policy.logits.log_softmax(-1)[rows].expand(*actions.shape, -1)
        return token_statistics(log_policy, actions, decides.expand(actions.shape))

    def enumerate(self, instances):
        actions = torch.cartesian_prod(*[torch.arange(DIGITS)] * LENGTH)
        return actions, (actions == instances).double().mean(-1)
