"""docs/adapters.md does what it says."""

import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from maxk_lab import advantages

PAGE = (Path(__file__).parents[2] / "docs/adapters.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

REWARDS = [[3.0, 1.0, 0.0, 2.0, 5.0, 4.0, 1.0, 1.0, 0.0], [0.0] * 8 + [1.0, 0.5]]
FLAT = [reward for group in REWARDS for reward in group]
WEIGHTS = [len(group) * advantages(group, k=8).float() for group in REWARDS]


@pytest.fixture(autouse=True)
def registries(monkeypatch):
    """Where SkyRL and rLLM register functions: what is registered, by its name."""
    registered = {}
    for name, function in {
        "skyrl.backends.skyrl_train.utils.ppo_utils": "register_advantage_estimator",
        "rllm.trainer.algorithms.advantage": "register_rllm_adv_estimator",
    }.items():
        module = ModuleType(name)
        setattr(module, function, lambda key: lambda made: registered.setdefault(key, made))
        monkeypatch.setitem(sys.modules, name, module)
    return registered


def run(trainer):
    """What the lines for a trainer define."""
    (block,) = (block for block in BLOCKS if block.startswith(f"# {trainer}:"))
    names = {}
    exec(compile(block, "adapters.md", "exec"), names)
    return names


def test_skyrl(registries):
    run("SkyRL")
    order = torch.randperm(19, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1.0, 1.0, 0.0]]).repeat(19, 1)
    rewards = torch.zeros(19, 3)
    rewards[:, 1] = torch.tensor(FLAT)[order]
    uids = np.array(["a"] * 9 + ["b"] * 10)[order]
    found, returns = registries["maxk"](
        token_level_rewards=rewards, response_mask=mask, index=uids, values=None, config=None
    )
    exact = torch.cat(WEIGHTS)[order][:, None] * mask
    torch.testing.assert_close(found, exact)
    torch.testing.assert_close(returns, exact)


def test_rllm(registries):
    run("rLLM")
    groups = [np.array(group) for group in REWARDS]
    found, returns = registries["maxk"](groups, algorithm_config=None, traj_groups=[])
    for one, exact in zip(found, WEIGHTS, strict=True):
        np.testing.assert_allclose(one, exact, rtol=1e-6)
    assert returns is found


def test_slime():
    samples = [
        SimpleNamespace(group_index=number, get_reward_value=lambda args, value=value: value)
        for number, group in enumerate(REWARDS)
        for value in group
    ]
    rewards, found = run("slime")["maxk"](SimpleNamespace(), samples)
    assert rewards == FLAT
    assert found == pytest.approx(torch.cat(WEIGHTS).tolist(), rel=1e-6)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0])
def test_python(block):
    names: dict[str, object] = {}
    exec(compile(block, "adapters.md", "exec"), names)
    assert len(names) > 1  # beside the builtins
