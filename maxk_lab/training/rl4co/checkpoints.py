"""Lightning checkpoints of plain values, without the environment.

Torch reads them at its default, `weights_only=True`.
"""

from __future__ import annotations

import copy
import inspect
import os
import textwrap
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, ClassVar, Self, cast

import numpy as np
from rl4co.models.rl.common.base import RL4COLitModule
from rl4co.models.rl.reinforce.reinforce import REINFORCE

from maxk_lab.errors import LabError


def plain(value: Any) -> Any:
    """Return `value` in Python's own types.

    These are None, bool, int, float, str, and lists, tuples and dicts of them.

    Other mappings and sequences (OmegaConf's) become dicts and lists, NumPy's scalars Python's, and
    paths strings. Raises `TypeError` for anything else, such as modules, functions and optimisers.
    """
    if value is None:
        return None
    if isinstance(value, np.generic):
        return plain(value.item())
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {plain(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        entries = [plain(entry) for entry in value]
        return tuple(entries) if isinstance(value, tuple) else entries
    raise TypeError(f"{type(value).__name__} is no plain value")


class PlainCheckpoints(RL4COLitModule):  # type: ignore[misc]  # RL4CO has no types
    """Writing and reading of such checkpoints, for a REINFORCE module of RL4CO.

    The module inherits this class before RL4CO's.
    """

    # Left out of the hyperparameters, besides all that is no plain value.
    not_kept: ClassVar[tuple[str, ...]] = ("env", "policy")
    # The names of the latter; RL4CO's constructors save the hyperparameters three times over.
    left_out: tuple[str, ...] = ()

    def save_hyperparameters(
        self,
        *args: Any,
        ignore: Sequence[str] | str | None = None,
        frame: FrameType | None = None,
        logger: bool = True,
    ) -> None:
        """Keep the constructor's arguments that torch's `weights_only=True` reads.

        The environment and the policy are left out, too.
        """
        if frame is None:
            own = inspect.currentframe()
            frame = None if own is None else own.f_back
        also = [ignore] if isinstance(ignore, str) else ignore or ()
        super().save_hyperparameters(
            *args, ignore=[*also, *self.not_kept], frame=frame, logger=logger
        )
        for name, value in list(self.hparams.items()):
            try:
                self.hparams[name] = plain(value)
            except TypeError:
                del self.hparams[name]
                self.left_out = (*self.left_out, name)
        self._hparams_initial = copy.deepcopy(self.hparams)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the running moments of RL4CO's `reward_scale`, which RL4CO forgets."""
        scaler = self.advantage_scaler
        checkpoint["reward_scaler"] = {"count": scaler.count, "mean": scaler.mean, "M2": scaler.M2}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take up the running moments of the checkpoint."""
        for name, value in checkpoint.get("reward_scaler", {}).items():
            setattr(self.advantage_scaler, name, value)

    @classmethod
    def load_from_checkpoint(
        cls,
        checkpoint_path: Any,
        map_location: Any = None,
        hparams_file: Any = None,
        strict: bool = True,
        load_baseline: bool = True,
        *,
        weights_only: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Return the model of a checkpoint for the environment `env=`.

        Its policy is made from the kept `policy_kwargs` unless it is given. Other arguments
        override what was kept. The shared baseline has no parameters, so `load_baseline` changes
        nothing. Raises `LabError` without `env`, and where the parameters do not fit the policy.
        """
        if kwargs.get("env") is None:
            raise LabError(
                "a checkpoint holds no environment: give load_from_checkpoint(path, env=...)"
            )
        try:
            # Past RL4CO's own, which draws whole data sets for baselines with parameters and
            # never checks the policy's.
            loaded = super(REINFORCE, cls).load_from_checkpoint(
                checkpoint_path, map_location, hparams_file, strict, weights_only, **kwargs
            )
        except RuntimeError as error:
            if "state_dict" not in str(error):
                raise
            misfit = textwrap.shorten(str(error), 300)
            raise LabError(
                f"{checkpoint_path} does not fit the policy: "
                f"give the policy= or policy_kwargs= of its training; {misfit}"
            ) from error
        return cast("Self", loaded)
