"""A tiny sequence environment whose every quantity a test can set and list."""

import itertools
from dataclasses import dataclass, field

import pytest
import torch
from torch import nn

from maxk_lab.environments.rollouts import Rollouts, TokenStatistics
from maxk_lab.seeds import isolated_rng

END, SYMBOLS, LENGTH = 0, 3, 3


class Table(nn.Module):
    """Logits by position and previous token (row SYMBOLS: none): independent of the instance."""

    def __init__(self, seed, scale=1.0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        shape = (LENGTH, SYMBOLS + 1, SYMBOLS)
        self.logits = nn.Parameter(
            scale * torch.randn(shape, generator=generator, dtype=torch.float64)
        )

    def forward(self, actions):
        """Log-probabilities [..., T, SYMBOLS] of all symbols at positions of actions [..., T]."""
        width = actions.shape[-1]
        before = torch.cat([torch.full_like(actions[..., :1], SYMBOLS), actions[..., :-1]], -1)
        return torch.log_softmax(self.logits, -1)[torch.arange(width).clamp(max=LENGTH - 1), before]


def alive(actions):
    """True up to and with the first END."""
    ended = (actions == END).long().cumsum(-1) - (actions == END).long()
    return (ended == 0) & (torch.arange(actions.shape[-1]) < LENGTH)


def reward(actions):
    """Something uneven: the sum of the symbols, and a bonus for ending on its own."""
    scores = (actions * alive(actions)).sum(-1).double() * 0.37
    return scores + (actions == END).any(-1) * 0.9


@dataclass
class Sequences:
    """Sequences of up to LENGTH symbols; `reward` maps actions [..., T] to [...].

    Instances are numbers that change nothing.
    """

    reward: object = reward
    seen: list = field(default_factory=list)

    def policy(self, seed):
        return Table(seed)

    def instances(self, count, seed, *, held_out=False):
        self.seen.append((count, seed, held_out))
        return torch.arange(count)

    @torch.no_grad()
    def rollout(self, policy, instances, n, *, seed):
        actions = torch.zeros(len(instances), n, LENGTH, dtype=torch.long)
        with isolated_rng(seed):
            for t in range(LENGTH):
                probabilities = policy(actions)[..., t, :].exp().reshape(-1, SYMBOLS)
                actions[..., t] = torch.multinomial(probabilities, 1).view(len(instances), n)
        actions = actions * alive(actions)
        tokens = self.tokens(policy, instances, actions)
        return Rollouts(
            rewards=self.reward(actions),
            log_probs=tokens.log_probs.sum(-1),
            actions=actions,
            lengths=tokens.mask.sum(-1),
            logit_proxy=tokens.logit_proxy.sum(-1),
            entropy=tokens.entropy.sum(-1),
            truncated=~(actions == END).any(-1),
        )

    def tokens(self, policy, instances, actions):
        log_policy, mask = policy(actions), alive(actions)
        chosen = log_policy.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        probabilities = log_policy.exp()
        proxy = (1 - 2 * chosen.exp() + probabilities.square().sum(-1)).detach()
        return TokenStatistics(
            log_probs=torch.where(mask, chosen, 0.0),
            entropy=torch.where(mask, -(probabilities * log_policy).sum(-1), 0.0),
            logit_proxy=torch.where(mask, proxy, 0.0),
            mask=mask,
        )

    def log_probs(self, policy, instances, actions):
        return self.tokens(policy, instances, actions).log_probs.sum(-1)

    def every(self, policy):
        """All sequences [A, T], their rewards [A], token log-probabilities and mask [A, T]."""
        listed = torch.tensor(list(itertools.product(range(SYMBOLS), repeat=LENGTH)))
        actions = (listed * alive(listed)).unique(dim=0)
        tokens = self.tokens(policy, torch.arange(1), actions)
        return actions, self.reward(actions), tokens.log_probs, tokens.mask


@pytest.fixture
def sequences():
    """The class of the environment: `sequences(reward=...)` makes one."""
    return Sequences
