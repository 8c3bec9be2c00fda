"""What the adapters of verl and ms-swift refuse and warn of, without these packages.

Stand-ins have the names that the adapters import; `make adapters` runs the real ones.
"""

import sys
import warnings
from collections import defaultdict
from importlib import import_module
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from maxk_lab.errors import LabError, LabWarning


def stand_in(monkeypatch, adapter, modules):
    """Import an adapter anew beside modules of these names and attributes."""
    for name, attributes in modules.items():
        module = ModuleType(name)
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, adapter, raising=False)
    imported = import_module(adapter)
    monkeypatch.delitem(sys.modules, adapter)
    return imported


@pytest.fixture
def maxk(monkeypatch):
    """The function of the adapter of verl."""
    register = {"register_adv_est": lambda name: lambda function: function}
    packages = ("verl", "verl.trainer", "verl.trainer.ppo")
    modules = {name: {} for name in packages} | {"verl.trainer.ppo.core_algos": register}
    return stand_in(monkeypatch, "maxk_lab.adapters.verl", modules).maxk_advantages


@pytest.fixture
def swift(monkeypatch):
    """The trainer of the adapter of ms-swift, of some settings."""
    pytest.importorskip("accelerate", reason="the adapter imports accelerate")

    class Trainer:
        def __init__(self, **settings):
            defaults = {"scale_rewards": "none", "advantage_estimator": "grpo", "loss_type": "grpo"}
            defaults |= {"kl_in_reward": False, "beta": 0.0, "num_generations": 4}
            vars(self).update(defaults | {"dynamic_sample": False, "args": SimpleNamespace()})
            vars(self).update({"dynamic_num_samples": False, "model": torch.nn.Identity()})
            vars(self).update(_metrics={"train": defaultdict(list)}, reward_weights=torch.ones(1))
            vars(self).update(settings)

        def _compute_advantages(self, samples, rewards_per_func, batch):
            rewards = rewards_per_func.view(-1, 4)
            return (rewards - rewards.mean(1, keepdim=True)).flatten()

    modules = {
        "swift": {},
        "swift.rlhf_trainers": {"GRPOTrainer": Trainer},
        "swift.trainers": {"TrainerFactory": SimpleNamespace(TRAINER_MAPPING={})},
    }
    trainer = stand_in(monkeypatch, "maxk_lab.adapters.swift.maxk_swift", modules).MaxKGRPOTrainer

    def make(baseline, k="2", **settings):
        monkeypatch.setenv("MAXK_K", k)
        monkeypatch.setenv("MAXK_BASELINE", baseline)
        return trainer(**settings)

    return make


def rows(sizes):
    """Rewards [rows, 2], a mask and uids of groups of these sizes."""
    uids = np.repeat([f"prompt-{i}" for i in range(len(sizes))], sizes).astype(object)
    generator = torch.Generator().manual_seed(0)
    rewards = torch.randn(len(uids), 2, generator=generator)
    return rewards, torch.ones_like(rewards), uids


def warned(function, *arguments):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*arguments)
    return [str(one.message) for one in caught if one.category is LabWarning]


def test_verl_refuses_advantages_over_their_deviation(maxk):
    batch = rows([4, 4])
    with pytest.raises(LabError, match=r"algorithm\.norm_adv_by_std_in_grpo=False"):
        maxk(*batch, {"maxk_k": 2, "norm_adv_by_std_in_grpo": True})
    assert not warned(maxk, *batch, {"maxk_k": 2, "norm_adv_by_std_in_grpo": False})


def test_verl_names_a_group_with_rows_of_padding(maxk):
    for sizes, copied, named in (
        ([4, 4, 4], [], None),
        ([4, 4, 4], [0], "prompt-0"),
        ([4, 4, 4], [5, 6], "prompt-1"),
        ([4, 4, 5], [], None),
        ([4, 5, 6], [0], None),
    ):
        batch = rows(sizes)
        order = np.random.default_rng(1).permutation([*range(sum(sizes)), *copied])
        messages = warned(maxk, *(column[order] for column in batch), {"maxk_k": 2})
        assert len(messages) == (named is not None), (sizes, copied)
        assert all(named in message and "padding" in message for message in messages)


def test_swift_drops_groups_without_gradient_only(swift):
    for baseline in ("none", "sample_loo", "pkpo_sloo"):
        assert not swift(baseline).dynamic_sample
        with pytest.raises(LabError, match=f"{baseline} has weights other than 0"):
            swift(baseline, dynamic_sample=True)
    for baseline in ("centred", "subloo"):
        assert swift(baseline, dynamic_sample=True).dynamic_sample


@pytest.mark.filterwarnings("ignore:--kl_in_reward")
def test_swift_logs_the_best_of_rewards_without_kl(swift):
    rewards = torch.arange(8.0).unsqueeze(1)
    for inside in (False, True):
        trainer = swift("centred", kl_in_reward=inside, beta=0.1)
        trainer._compute_advantages([], rewards, [])
        numbers = trainer._metrics["train"]
        assert (numbers["max@1"], numbers["max@4"]) == ([3.5], [5.0])


def test_swift_warns_of_truncated_samples(swift):
    args = SimpleNamespace(top_p=0.9, top_k=50)
    (message,) = warned(lambda: swift("centred", args=args))
    assert message.startswith("top_p=0.9, top_k=50: samples come from another distribution")
    assert not warned(lambda: swift("centred", args=SimpleNamespace(top_p=1.0, top_k=-1)))
