"""`maxk-lab check` of an environment: the example passes, mistakes are named."""

from dataclasses import replace

import pytest
import small_environments
import torch
from own_environment import Code
from sweep_files import problems
from typer.testing import CliRunner

from maxk_lab.cli import app
from maxk_lab.environments.contract import contract
from maxk_lab.errors import LabError
from maxk_lab.own.child import check_class

EXAMPLE = small_environments.ROOT / "examples/own_environment.py"


def changed(**methods):
    """A copy of the example with other methods."""
    return type("Changed", (Code,), methods)


class Reads(Code):
    def rollout(self, policy, instances, n, *, seed):
        return super().rollout(policy, instances, n, seed=int(torch.randint(9**9, ())))


class Hot(Code):
    def rollout(self, policy, instances, n, *, seed):
        warm = Code().policy(0)
        warm.logits.data /= 2
        rollouts = super().rollout(warm, instances, n, seed=seed)
        rollouts.log_probs[:] = self.log_probs(policy, instances, rollouts.actions).detach()
        return rollouts


def flat(self, policy, instances, n, *, seed):
    rollouts = Code().rollout(policy, instances, n, seed=seed)
    return replace(rollouts, rewards=rollouts.rewards.flatten())


WRONG = {
    "policy(3) is in training mode": changed(policy=lambda _, seed: Code().policy(seed).train()),
    "has the length 2": changed(
        instances=lambda _, count, seed, *, held_out=False: Code().instances(2, seed)
    ),
    "rewards of its rollout must be a tensor [3, 5]": changed(rollout=flat),
    "log_probs and the rollout differ": changed(log_probs=lambda *of: -Code.log_probs(*of)),
    "log_probs and the rollout differ: the shape is [15], not [3, 5]": changed(
        log_probs=lambda *of: Code.log_probs(*of).flatten()
    ),
    "log_probs and the rollout differ: list is no tensor": changed(
        log_probs=lambda *of: Code.log_probs(*of).tolist()
    ),
    "log_probs have no gradient": changed(log_probs=lambda *of: Code.log_probs(*of).detach()),
    "actions [A, T] and rewards [A], not [64, 3] and [64, 1]": changed(
        enumerate=lambda _, of: (Code().enumerate(of)[0], Code().enumerate(of)[1].unsqueeze(1))
    ),
    "the probabilities of all trajectories sum to 0.": changed(
        enumerate=lambda _, of: tuple(values[1:] for values in Code().enumerate(of))
    ),
    "the global random state has changed": Reads,
    "do not have the frequencies exp(log_probs)": Hot,
    "TypeError": changed(tokens=None),
}


@pytest.mark.parametrize("problem", WRONG)
def test_a_mistake_is_named(problem):
    broken = [text for _, text in contract(WRONG[problem]) if text]
    assert any(problem in text for text in broken), broken


# The rewards of rollout and of enumerate, from those of the example.
ALLOWED = {
    "missing rewards": (lambda rewards: rewards.where(rewards < 1, torch.nan),) * 2,
    "two precisions": (lambda rewards: (rewards + 0.1).float(), lambda rewards: rewards + 0.1),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_what_the_contract_allows(case):
    drawn, listed = ALLOWED[case]

    class Other(Code):
        def rollout(self, *arguments, seed):
            rollouts = super().rollout(*arguments, seed=seed)
            return replace(rollouts, rewards=drawn(rollouts.rewards))

        def enumerate(self, instances):
            actions, rewards = super().enumerate(instances)
            return actions, listed(rewards)

    assert [text for _, text in contract(Other) if text] == []


@pytest.mark.usefixtures("forked")
def test_check_is_a_command():
    done = CliRunner().invoke(app, ["check", f"{EXAMPLE}:Code"])
    assert done.exit_code == 0, done.output
    assert "keeps the contract of an environment" in done.stdout
    assert "7 of 7 laws hold" in done.stdout


def test_what_is_no_environment_is_refused(write):
    verdict = check_class(torch.nn.Module, "mine:Net")
    lacks = "it lacks policy, instances, rollout, log_probs, tokens, enumerate"
    assert (verdict.ok, verdict.verdict) == (False, f"is no environment: {lacks}")
    for path, message in (
        ("own_environment:Table", "cannot be made: TypeError"),
        ("fractions:Fraction", "cannot be made: AttributeError: .* no attribute 'enumerable'"),
        ("own_environment:token_statistics", "must be a class with the six methods"),
        ("collections:Counter", "lacks policy, instances, rollout, log_probs, tokens, enumerate"),
    ):
        with pytest.raises(LabError, match=message):
            small_environments.make("custom", env=path)
    text = """\
name: own
seeds: 1
environment: {name: custom}
gradient: {grid: {estimator: maxk, baseline: centred, n: 4, k: 2}}
"""
    (problem,) = problems(write(text))
    assert "env is missing: a class with the six methods" in problem
