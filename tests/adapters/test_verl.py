"""verl in the environment of `make adapters`: its plug-in, and parity with its estimators."""

import subprocess
import sys

import numpy as np
import pytest
import torch

pytestmark = pytest.mark.foreign
verl = pytest.importorskip("verl", reason="verl has an environment of its own: make adapters")

from hydra import compose, initialize_config_module  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from verl.trainer.ppo import core_algos  # noqa: E402

from maxk_lab import advantages  # noqa: E402
from maxk_lab.errors import LabError, LabWarning  # noqa: E402

SIZES = (4, 7, 2, 5)


def batch(seed=0):
    """Rewards [rows, T], a mask and uids: groups of several sizes, their rows shuffled."""
    generator = torch.Generator().manual_seed(seed)
    rows = sum(SIZES)
    lengths = torch.randint(1, 7, (rows,), generator=generator)
    mask = (torch.arange(6) < lengths[:, None]).float()
    rewards = torch.zeros(rows, 6)
    rewards[torch.arange(rows), lengths - 1] = torch.randn(rows, generator=generator)
    order = torch.randperm(rows, generator=generator)
    uids = np.repeat([f"prompt-{i}" for i in range(len(SIZES))], SIZES).astype(object)
    return rewards[order], mask[order], uids[order.numpy()]


def ours(rewards, mask, uids, **options):
    config = OmegaConf.create({f"maxk_{name}": value for name, value in options.items()})
    function = core_algos.get_adv_estimator_fn("maxk")
    return function(token_level_rewards=rewards, response_mask=mask, index=uids, config=config)


def test_importing_verl_is_enough():
    code = (
        "import verl, sys\n"
        "assert 'maxk_lab.adapters.groups' not in sys.modules\n"
        "from verl.trainer.ppo.core_algos import get_adv_estimator_fn\n"
        "print(get_adv_estimator_fn('maxk').__module__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "maxk_lab.adapters.verl"


@pytest.mark.parametrize(
    ("theirs", "config", "options"),
    [
        (core_algos.compute_rloo_outcome_advantage, None, {"baseline": "rloo"}),
        (core_algos.compute_rloo_vectorized_outcome_advantage, None, {"baseline": "centred"}),
        (core_algos.compute_opo_outcome_advantage, None, {"baseline": "opo"}),
        (core_algos.compute_grpo_outcome_advantage, None, {"estimator": "grpo[1e-6]"}),
        (
            core_algos.compute_grpo_outcome_advantage,
            {"norm_adv_by_std_in_grpo": False},
            {"baseline": "mean"},
        ),
    ],
)
def test_what_verl_has_is_the_same_to_rounding(theirs, config, options):
    rewards, mask, uids = batch()
    options = {"estimator": "reinforce", **options}
    found, returns = ours(rewards, mask, uids, **options)
    exact, _ = theirs(rewards.clone(), mask, uids, **(config or {}))
    torch.testing.assert_close(found, exact, rtol=1e-6, atol=1e-6)
    assert returns is found
    assert exact.abs().max() > 0.5


def test_grpo_passk_without_std_is_subloo_over_n():
    rewards, mask, uids = batch()
    config = OmegaConf.create({"norm_adv_by_std_in_grpo": False})
    theirs, _ = core_algos.compute_grpo_passk_outcome_advantage(rewards, mask, uids, config=config)
    for number, n in enumerate(SIZES):
        rows = uids == f"prompt-{number}"
        found, _ = ours(rewards[rows], mask[rows], uids[rows], baseline="subloo", k=n)
        torch.testing.assert_close(found / n, theirs[rows], rtol=1e-6, atol=1e-6)


def test_groups_are_those_of_uids_through_the_trainers_configuration_and_function():
    ray_trainer = pytest.importorskip("verl.trainer.ppo.ray_trainer")
    rewards, mask, uids = batch()
    data = verl.DataProto.from_dict(
        tensors={"token_level_rewards": rewards, "response_mask": mask},
        non_tensors={"uid": uids},
    )
    written = "algorithm.adv_estimator=maxk +algorithm.maxk_k=3 +algorithm.maxk_small_groups=zero"
    written += " algorithm.norm_adv_by_std_in_grpo=False"
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", written.split()).algorithm
    found = ray_trainer.compute_advantage(data, config.adv_estimator, config=config)
    found = found.batch["advantages"]
    for number, n in enumerate(SIZES):
        rows = uids == f"prompt-{number}"
        weights = n * advantages(rewards[rows].sum(1), k=3) if n > 3 else torch.zeros(n)
        torch.testing.assert_close(found[rows], weights[:, None] * mask[rows])


def test_what_cannot_be_right_is_refused_by_name():
    rewards, mask, uids = batch()
    for index, options, message in (
        (uids, {"k": 3}, r"1 of 4 groups have 2 samples.*K = 3 and n = 2"),
        (uids, {"K": 3}, r"algorithm\.maxk_K is none of maxk_k, "),
        (uids, {}, "needs k"),
        (None, {"k": 1}, "uid"),
    ):
        with pytest.raises(LabError, match=message):
            ours(rewards, mask, index, **options)
    config = {"maxk_k": 1, "use_kl_in_reward": True}
    with pytest.warns(LabWarning, match="inside the maximum"):
        core_algos.get_adv_estimator_fn("maxk")(rewards, mask, uids, config)
