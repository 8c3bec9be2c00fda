"""The user's functions: loaded by module or file, and called on groups of rewards."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maxk_lab.catalogue import did_you_mean, load
from maxk_lab.errors import LabError, first_line, shown
from maxk_lab.estimators.rows import MethodRow
from maxk_lab.installed import is_function_path, open_project_folders

# The positional arguments of each call form, from rewards [B, n] and K = k.
_FORMS: dict[str, Callable[[Tensor, int], tuple[Any, ...]]] = {
    "[n]": lambda rewards, k: (rewards[0],),
    "[B, n]": lambda rewards, k: (rewards,),
    "array": lambda rewards, k: (rewards[0].numpy(),),
    "list": lambda rewards, k: (rewards[0].tolist(),),
    "flat": lambda rewards, k: (rewards.flatten(), rewards.shape[1]),
    "verl": lambda rewards, k: (),
    "n, c": lambda rewards, k: (rewards.shape[1], int(rewards.sum()), k),
    "c, n": lambda rewards, k: (int(rewards.sum()), rewards.shape[1], k),
    "[n], [c]": lambda rewards, k: (np.array([rewards.shape[1]]), rewards.sum(1).int().numpy(), k),
}
# The call forms of each signature, tried in order until a call succeeds.
SIGNATURES = {
    "rewards": ("[n]", "[B, n]", "array", "list"),
    "flat": ("flat",),  # (rewards [B n], num_generations)
    "verl": ("verl",),  # (token_level_rewards [n, T], response_mask, index, config)
}
_METRICS = {
    "metric": ("[n]", "array", "list"),
    "counts": ("n, c", "[n], [c]"),
    "correct first": ("c, n",),
}
_BATCHED = ("[B, n]", "flat", "verl")


def load_function(path: str) -> Callable[..., Any]:
    """Return the function at `module:name` or `file.py:name`.

    A module is searched among the installed packages, then in the current folder and beside the
    sweep file. Raises `LabError` if there is no such function.
    """
    place, _, name = path.rpartition(":")
    if place.endswith(".py"):
        module = _load_file(Path(place).resolve())
        try:
            function = attrgetter(name)(module)
        except AttributeError:
            hint = did_you_mean(name, [key for key, v in vars(module).items() if callable(v)])
            raise LabError(f"{place} has no function {shown(name)}{hint}") from None
    elif is_function_path(path):
        open_project_folders()
        function = load(path, "the function ")
    else:
        raise LabError(f"name a function as module:name or file.py:name, got {shown(path)}")
    if not (callable(function) or isinstance(function, MethodRow)):
        raise LabError(f"{path} is no function but {shown(function)}")
    callable_object: Callable[..., Any] = function
    return callable_object


def _load_file(file: Path) -> ModuleType:
    """Return the module in a file; a file in a package is imported as a submodule."""
    if not file.is_file():
        raise LabError(f"there is no file {file}")
    folder, names = file.parent, [file.stem]
    while (folder / "__init__.py").is_file():
        folder, names = folder.parent, [folder.name, *names]
    # At the end of the path, so that no file in the folder hides a library.
    sys.path.append(str(folder))
    open_project_folders()
    name = str(file).replace(".", "_") if len(names) == 1 else ".".join(names)
    try:
        if len(names) > 1:
            sys.path.insert(0, str(folder))
            import_module(name)
            sys.path.remove(str(folder))
        elif name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, file)
            assert spec is not None
            assert spec.loader is not None
            module = sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        sys.modules.pop(name, None)
        raise LabError(f"cannot load {file}: {describe(error, file)}") from error
    return sys.modules[name]


def describe(error: BaseException, file: str | Path = "") -> str:
    """Return an exception's type and message, and the last line of `file` in its traceback."""
    line = _last_line(error, file)
    place = f" ({Path(file).name}:{line})" if line else ""
    return f"{type(error).__name__}: {first_line(error)}{place}"


def _as_tensor(weights: Any) -> Tensor:
    """Return weights as a tensor; a list of Python floats has float64."""
    if isinstance(weights, list | tuple) and any(isinstance(each, Tensor) for each in weights):
        return torch.stack([torch.as_tensor(each) for each in weights])  # NumPy has no bfloat16
    return weights if isinstance(weights, Tensor) else torch.as_tensor(np.asarray(weights))


def _last_line(error: BaseException, file: str | Path) -> int:
    """Return the last line number of a file in an exception's traceback, else 0."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((f.lineno or 0 for f in reversed(frames) if f.filename == str(file)), 0)


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function; none for built-in functions without a signature."""
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:
        return []


class Config(dict[str, Any]):
    """A mapping with its keys as attributes, like the settings of trainers."""

    def __getattr__(self, name: str) -> Any:
        """Return the value of a key."""
        if name in self:
            return self[name]
        raise AttributeError(f"the config that the check passes has no {name!r}")


class Caller:
    """A user's function of rewards, called in whichever form it accepts.

    K and n are passed by the function's parameter names. `values` are further arguments, also keys
    of `config`. `form` is the call form of the first successful call, empty before; `dtype` is the
    type of the last result.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        k: int,
        signature: str = "rewards",
        values: Mapping[str, Any] | None = None,
    ) -> None:
        if signature not in SIGNATURES | _METRICS:
            names = ", ".join(SIGNATURES)
            raise LabError(f"signature must be one of {names}, got {shown(signature)}")
        self.function = function.function if isinstance(function, MethodRow) else function
        self.k, self.values, self.dtype = k, dict(values or {}), torch.float64
        self.form, self._forms = "", (SIGNATURES | _METRICS)[signature]
        self.is_metric = signature in _METRICS
        self._parameters = parameters(self.function)

    @property
    def takes_batches(self) -> bool:
        """Whether one call takes several groups."""
        return self.form in _BATCHED

    def weigh(self, rewards: Tensor) -> Tensor:
        """Return the weights of a group [n] or of groups [B, n], or a metric's estimate [1].

        Raises `LabError` if the function raises or returns another shape.
        """
        weights = self._call(rewards if rewards.dim() == 2 else rewards[None])
        if self.is_metric and weights.numel() == 1:
            return weights.double().view(1)
        if weights.dim() == 2 and self.form == "verl":
            weights = weights[:, 0]
        shapes = [[size for size in x.shape if size > 1] for x in (weights, rewards)]
        if (
            self.is_metric
            or weights.numel() != rewards.numel()
            or (self.form[0] == "[" and shapes[0] != shapes[1])
        ):
            raise LabError(
                f"returns shape {list(weights.shape)} for rewards of shape {list(rewards.shape)}"
            )
        return weights.double().view(rewards.shape)

    def _call(self, rewards: Tensor) -> Tensor:
        errors = []
        for form in [self.form] if self.form else self._forms:
            arguments, names = self._arguments(form, rewards.clone())
            try:
                result = self.function(*arguments, **names)
                if inspect.iscoroutine(result):
                    result = asyncio.run(result)
                if isinstance(result, dict) and len(result) == 1:
                    (result,) = result.values()
                if isinstance(result, tuple) and len(result) == 2:
                    # Advantages and returns, or an estimate and its error; else two weights.
                    result = result[0] if self.is_metric or np.ndim(result[0]) else result
                if result is None:
                    raise TypeError("it returns None, not weights")
                tensor = _as_tensor(result).detach().cpu()
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                errors.append(error)
                continue
            self.form, self.dtype = form, tensor.dtype
            return tensor
        inner = getattr(self.function, "func", self.function)  # of a partial
        code = getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)
        file = code.co_filename if code else ""
        # The call that failed at the last line most likely had the right form.
        last = max(errors, key=lambda error: _last_line(error, file))
        raise LabError(f"raises {describe(last, file)}") from last

    def _arguments(self, form: str, rewards: Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional and the named arguments of a call."""
        groups, n = rewards.shape
        arguments = _FORMS[form](rewards, self.k)
        names: dict[str, Any] = {"k": self.k, "K": self.k, "n": n, "num_generations": n}
        names |= self.values
        if form == "verl":
            mask = torch.ones(groups * n, 1, dtype=torch.long)
            index = np.repeat(np.array([f"prompt {i}" for i in range(groups)], dtype=object), n)
            names = {"gamma": 1.0, "lam": 1.0, "lambd": 1.0} | names
            names |= {"response_mask": mask, "eos_mask": mask, "index": index}
            names["config"] = Config(names, maxk_k=self.k)
            names["token_level_rewards"] = rewards.reshape(-1, 1)
        accepted = self._parameters[len(arguments) :]
        every = any(p.kind is p.VAR_KEYWORD for p in accepted)
        accepted = [p for p in accepted if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        missing = [p.name for p in accepted if p.default is p.empty and p.name not in names]
        if missing:
            raise LabError(
                f"needs {', '.join(missing)}, which the check has no value for: check a function "
                "of (rewards, k) that calls it"
            )
        accepted_names = [name for name in names if every or name in [p.name for p in accepted]]
        return arguments, {name: names[name] for name in accepted_names}
