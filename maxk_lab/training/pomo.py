"""RL4CO's POMO with Max@K weights: another loss, i.i.d. samples, and a Max@K validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch

# Before any module imports RL4CO.
from maxk_lab.policies import quiet as quiet  # isort: split

from rl4co.envs import RL4COEnvBase
from rl4co.models.rl.reinforce.reinforce import REINFORCE
from rl4co.models.zoo.pomo import POMO
from rl4co.utils.ops import batchify, unbatchify
from rl4co.utils.pylogger import get_pylogger
from tensordict import TensorDict
from torch import Tensor, nn

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError
from maxk_lab.estimators import maxk_curve, objective_estimate
from maxk_lab.estimators.catalogue import choose_baseline, choose_estimator
from maxk_lab.estimators.method import Method
from maxk_lab.fields import AtLeastOne, Model, NotNegative, Start
from maxk_lab.training.settings import KScheduleSettings, WeightNormalization

log = get_pylogger(__name__)


class PomoSettings(Model):
    """The pair of the catalogue with its K, and settings that POMO lacks."""

    estimator: str = "maxk"
    baseline: str
    k: AtLeastOne = 8
    k_schedule: KScheduleSettings = KScheduleSettings()
    start: Start = "iid"
    entropy_bonus: NotNegative = 0.0
    weight_normalization: WeightNormalization = "none"
    stable_sort: bool = True
    val_samples: AtLeastOne = 64

    @classmethod
    def split(cls, options: Mapping[str, Any], baseline: str | None) -> tuple[Self, dict[str, Any]]:
        """Return the checked settings among the options of a model, and its other options."""
        ours = {name: options[name] for name in cls.model_fields if name in options}
        row = choose_estimator(ours.get("estimator", "maxk")).row
        if baseline is None or (baseline == "shared" and not row.takes_baseline):
            baseline = row.default_baseline
        name = choose_baseline("group_mean" if baseline == "shared" else baseline).name
        settings = cls.from_mapping(ours | {"baseline": name})
        settings.check()
        return settings, {name: value for name, value in options.items() if name not in ours}

    def method(self, k: int, n: int) -> Method:
        """The estimator with its baseline at K; Leader Reward has no K and gets one up to n."""
        name = choose_estimator(self.estimator).row.name
        return Method.parse(
            self.estimator, self.baseline, min(k, n) if name == "leader_reward" else k
        )

    def check(self) -> None:
        """Raise `LabError` if the pair or the validation needs more than RL4CO provides."""
        method = self.method(self.k, self.k)
        lacking = method.needed_beside_rewards
        if lacking:
            raise LabError(
                f"{self.estimator} with {self.baseline} needs {lacking}, which RL4CO's step does "
                "not have; train it with a training study of maxk-lab instead"
            )
        if method.pair_refusal:
            raise LabError(method.pair_refusal)
        if self.val_samples < self.k:
            raise LabError(f"val_samples must be at least {self.k}, got {self.val_samples}")

    def check_size(self, n: int) -> None:
        """Raise `LabError` if n samples are too few for the pair at a K of the schedule."""
        for k in self.k_schedule.all(self.k):
            refusal = self.method(k, n).refusal(n)
            if refusal is not None:
                raise LabError(refusal)


class MaxKSampling(REINFORCE):  # type: ignore[misc]  # RL4CO has no types
    """A base class that gives a REINFORCE model of RL4CO the loss, samples and validation of Max@K.

    It precedes the model among the bases of a class, whose constructor calls `prepare`.
    """

    settings: PomoSettings
    train_metrics: list[str]
    val_metrics: list[str]
    test_metrics: list[str]

    def prepare(self, settings: PomoSettings, n: int | None) -> None:
        """Set up the attributes besides RL4CO's; n is None if the environment determines it."""
        for name in ("env", "policy", "measuring"):
            self.hparams.pop(name, None)
        self.settings, self.num_starts = settings, n
        self.train_metrics = [*self.train_metrics, "rho_hat", "rho_hat_multistart", "k"]
        powers = (2**i for i in range(settings.val_samples.bit_length()))
        self.curve_ks = sorted({*powers, settings.k})
        curve = [f"max@{k}" for k in self.curve_ks]
        self.val_metrics, self.test_metrics = self.val_metrics + curve, self.test_metrics + curve
        if settings.start == "iid":
            for kind in ("train_decode_type", "val_decode_type", "test_decode_type"):
                # POMO has just forced the first action of all trajectories.
                setattr(self.policy, kind, getattr(self.policy, kind).removeprefix("multistart_"))
        else:
            log.warning("start multistart trains for another objective, J_K^starts")

    def calculate_loss(
        self,
        td: TensorDict,
        batch: TensorDict,
        policy_out: dict[str, Any],
        reward: Tensor | None = None,
        log_likelihood: Tensor | None = None,
    ) -> dict[str, Any]:
        """Add `loss`, `rho_hat` and `k` to `policy_out`, and return it.

        With forced starts, `rho_hat_multistart` of J_K^starts replaces `rho_hat`. reward,
        log_likelihood: [batch, n], unbatchified; by default those of `policy_out`. Raises
        `ValueError` for other shapes, and if the pair cannot weight n samples.
        """
        reward = policy_out["reward"] if reward is None else reward
        log_likelihood = policy_out["log_likelihood"] if log_likelihood is None else log_likelihood
        if reward.dim() != 2 or reward.shape != log_likelihood.shape:
            raise ValueError(
                "reward and log_likelihood must be unbatchified, both [batch, n], got shapes "
                f"{list(reward.shape)} and {list(log_likelihood.shape)}"
            )
        settings, n = self.settings, reward.shape[1]
        k = settings.k_schedule.at(self.global_step, settings.k)
        method = settings.method(k, n)
        with torch.no_grad():
            weights = method.weights(
                reward.detach(),
                weight_normalization=settings.weight_normalization,
            )
            if self.advantage_scaler.scale is not None:
                weights = self.advantage_scaler(n * weights) / n
            value = objective_estimate(reward.detach(), method.objective_at(n))
        loss = -(weights.detach() * log_likelihood).sum(-1).mean()
        policy_out["reinforce_loss"] = loss
        if settings.entropy_bonus > 0:
            loss = loss - settings.entropy_bonus * policy_out["entropy"].mean()
        rho_hat = "rho_hat" if settings.start == "iid" else "rho_hat_multistart"
        policy_out.update({"loss": loss, rho_hat: value.mean(), "k": float(method.k)})
        return policy_out

    def shared_step(
        self, batch: Any, batch_idx: int, phase: str, dataloader_idx: int | None = None
    ) -> dict[str, Any]:
        """Take one batch of training, validation or test, and return its loss and metrics.

        Metrics are logged like RL4CO's; the loss is None except in training.
        """
        td, settings = self.env.reset(batch), self.settings
        if phase != "train":
            samples = settings.val_samples
            curve = maxk_curve(unbatchify(self._sample(td, samples, phase)["reward"], samples))
            out = {f"max@{k}": curve[:, k - 1] for k in self.curve_ks}
            out |= {"reward": out[f"max@{settings.k}"], "max_reward": curve[:, -1]}
            return {"loss": None, **self.log_metrics(out, phase, dataloader_idx=dataloader_idx)}
        n = self.env.get_num_starts(td) if self.num_starts is None else self.num_starts
        settings.check_size(n)
        entropy = {"return_entropy": True} if settings.entropy_bonus > 0 else {}
        if settings.start == "iid":
            out = self._sample(td, n, phase, **entropy)
        else:
            out = self.policy(td, self.env, phase=phase, num_starts=n, **entropy)
        reward, log_likelihood = unbatchify(out["reward"], n), unbatchify(out["log_likelihood"], n)
        self.calculate_loss(td, batch, out, reward, log_likelihood)
        out["max_reward"] = reward.amax(-1)
        return {"loss": out["loss"], **self.log_metrics(out, phase, dataloader_idx=dataloader_idx)}

    def _sample(self, td: TensorDict, n: int, phase: str, **options: Any) -> dict[str, Any]:
        """Return RL4CO's output for n i.i.d. trajectories of every instance, as (n batch).

        An encoding per sample is right in every environment. A shared encoding is right only if the
        decoder supports it, and RL4CO's decoder of pdp drops the dimension of a single instance.
        """
        shared = n > 1 and len(td) > 1 and self.env.name in ENVIRONMENTS
        out: dict[str, Any] = self.policy(
            td if shared else batchify(td, n),
            self.env,
            phase=phase,
            decode_type="sampling",
            num_samples=n if shared else None,
            **options,
        )
        return out

    @classmethod
    def load_from_checkpoint(
        cls, checkpoint_path: Any, *args: Any, weights_only: bool = True, **kwargs: Any
    ) -> Self:
        """Return the model of a checkpoint as Lightning does; `env=` is required.

        RL4CO's own method draws data sets for a baseline with parameters and never checks the
        policy's parameters.
        """
        loaded: Self = super(REINFORCE, cls).load_from_checkpoint(
            checkpoint_path, *args, weights_only=weights_only, **kwargs
        )
        return loaded


class MaxKPOMO(MaxKSampling, POMO):  # type: ignore[misc]  # RL4CO has no types
    """POMO whose loss is −mean over instances of Σ_i w_i log π(τ_i).

    The weights w are those of any pair of the catalogue. A script for POMO changes its import,
    `from maxk_lab.training import MaxKPOMO as POMO`. Besides POMO's arguments there are:

        k                     the K of Max@K, for training and validation
        num_samples           n, the samples per instance; by default num_starts, or POMO's number
                              of starts
        start                 iid (default): n samples of the policy, its own first action
                              included. multistart: POMO's forced first actions. The objective is
                              then J_K^starts, the mean over the K-subsets of the starts of
                              E[max]; the first decision is not trained
        estimator, baseline   names of the catalogue, `maxk` and `centred` by default. `reinforce`
                              with `group_mean` is POMO's own loss; RL4CO's word for this baseline,
                              `shared`, is also accepted
        variance_reduction    none, sample_loo or subloo: the baseline under its older name
        k_schedule            {kind: fixed | step, first, until}: the K of every
                              optimisation step (`KScheduleSettings`)
        entropy_bonus         the factor of the entropies, summed over steps and averaged over
                              trajectories, in the maximised objective
        weight_normalization  as in `maxk_lab.estimators.advantages`
        stable_sort           accepted without effect: tied rewards get equal weights anyway
        val_samples           the i.i.d. samples of each instance in validation and test

    `reward_scale` is RL4CO's and scales the advantages n w. Validation and test log `max@1`,
    `max@2`, `max@4`, … and `max@k`: the unbiased estimate from i.i.d. samples, for any `start`.
    `val/reward` is that at k, so that existing monitors choose by the objective; `val/max_reward`
    is the best of val_samples. No augmentation is applied. A checkpoint holds neither environment
    nor policy, so that torch reads it at its default, `weights_only=True`.

    Raises `LabError` for contradicting settings, and for n samples too few for the pair.
    """

    def __init__(
        self,
        env: RL4COEnvBase,
        policy: nn.Module | None = None,
        policy_kwargs: Mapping[str, Any] | None = None,
        baseline: str | None = None,
        num_augment: int = 1,
        *,
        num_starts: int | None = None,
        num_samples: int | None = None,
        variance_reduction: str | None = None,
        **kwargs: Any,
    ) -> None:
        if variance_reduction is not None and baseline not in (None, "shared", variance_reduction):
            raise LabError(
                f"give variance_reduction or baseline, got {variance_reduction} and {baseline}"
            )
        settings, others = PomoSettings.split(kwargs, variance_reduction or baseline)
        if None not in (num_samples, num_starts) and num_samples != num_starts:
            raise LabError(f"give num_samples or num_starts, got {num_samples} and {num_starts}")
        n = num_starts if num_samples is None else num_samples
        if n is not None:
            settings.check_size(n)
        # As a plain mapping, so that a checkpoint can hold it.
        policy_kwargs = dict(policy_kwargs or {})
        super().__init__(
            env, policy, policy_kwargs, num_augment=num_augment, num_starts=n, **others
        )
        self.prepare(settings, n)
        if num_augment > 1:
            log.warning(f"num_augment {num_augment} is not applied: Max@K is of own samples")


class LeaderRewardPOMO(MaxKPOMO):
    """POMO with advantages R_i − mean R + α (max R − mean R) for the best i.

    Samples tied for the best share α equally. α = 0 is POMO's loss exactly; with start="multistart"
    it is POMO. `k` is only for validation: by default 8, or val_samples if these are fewer. All
    other arguments are those of `MaxKPOMO`. For α > 0 it is biased for every J_K. Wang et al.
    2024, arXiv 2405.13947. Raises `LabError` for α < 0.
    """

    def __init__(self, env: RL4COEnvBase, *args: Any, alpha: float = 1.0, **kwargs: Any) -> None:
        name = f"leader_reward[{alpha}]"
        # A checkpoint gives it, too.
        if kwargs.setdefault("estimator", name) != name:
            raise LabError(f"Leader Reward has a fixed estimator, got {kwargs['estimator']}")
        samples = kwargs.get("val_samples")
        if isinstance(samples, int) and samples > 0:
            kwargs.setdefault("k", min(samples, 8))
        super().__init__(env, *args, **kwargs)
