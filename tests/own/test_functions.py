"""Functions are loaded by file whatever its name, and called in the form that they take."""

import sys
from functools import partial

import numpy as np
import pytest
import torch

from maxk_lab.errors import LabError
from maxk_lab.own.functions import Caller, load_function

CENTRED = "def f(rewards, k):\n    return rewards - rewards.mean()\n"


FILES = {
    "here/adv.py": CENTRED,
    "here/helpers.py": "mean = None\n",
    **{f"b/{name}.py": CENTRED for name in ("test", "statistics", "trl", "my-adv", "has space")},
    "b/adv.py": "def f(rewards, k):\n    return rewards * 0 + 1.0\n",
    "b/helpers.py": "def mean(rewards):\n    return rewards.mean()\n",
    "b/uses.py": "from helpers import mean\n" + CENTRED.replace("rewards.mean()", "mean(rewards)"),
    "b/pkg_of_user/__init__.py": "",
    "b/pkg_of_user/core.py": CENTRED,
    "b/pkg_of_user/adv.py": "from .core import f\n",
    "b/syntax.py": "def f(rewards k):\n    return 1\n",
    "b/raises.py": "import math\n\nmath.sqrt(-1)\n",
}


@pytest.fixture
def _folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    modules = set(sys.modules)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path / "here")
    yield
    for name in set(sys.modules) - modules:
        del sys.modules[name]


@pytest.mark.usefixtures("_folder")
@pytest.mark.parametrize(
    "file", ["test", "statistics", "trl", "my-adv", "has space", "uses", "pkg_of_user/adv"]
)
def test_a_file_is_loaded_by_its_path_whatever_its_name(file):
    function = load_function(f"../b/{file}.py:f")
    assert function(torch.tensor([0.0, 2.0]), 1).tolist() == [-1, 1]


@pytest.mark.usefixtures("_folder")
def test_the_file_counts_and_not_a_module_of_its_name():
    assert load_function("adv:f")(torch.zeros(2), 1).tolist() == [0, 0]
    assert load_function("../b/adv.py:f")(torch.zeros(2), 1).tolist() == [1, 1]


@pytest.mark.usefixtures("_folder")
def test_what_cannot_be_loaded():
    for path, message in {
        "../b/nothing.py:f": "there is no file",
        "../b/adv.py:g": "has no function 'g'",
        "../b/syntax.py:f": r"SyntaxError: .*\(syntax.py, line 1\)$",
        "../b/raises.py:f": r"ValueError: .*\(raises.py:3\)$",
        "adv": "name a function as module:name or file.py:name",
    }.items():
        with pytest.raises(LabError, match=message):
            load_function(path)


async def asynchronous(rewards):
    return rewards - rewards.mean()


def in_place(rewards):
    rewards -= rewards.mean()
    return list(rewards)


def k_by_default(rewards, *, k=7):
    assert k == 1
    return rewards - rewards.mean()


class Estimator:
    def __call__(self, rewards, k=7):
        return k_by_default(rewards, k=k)

    @staticmethod
    def compute(rewards):
        return rewards - rewards.mean()


def verl(token_level_rewards, eos_mask, index, config=None):
    same = torch.from_numpy(index[:, None] == index[None, :]).float()
    scores = token_level_rewards.sum(-1)
    assert config.maxk_k == config.get("k") == config["maxk_k"]
    token = (scores - same @ scores / same.sum(1)).unsqueeze(-1) * eos_mask
    return token, token


@pytest.mark.parametrize(
    ("function", "signature", "form"),
    [
        (lambda r: r - r.mean(), "rewards", "[n]"),
        (lambda r, *, k: r - r.mean(), "rewards", "[n]"),
        (lambda r, n, k: r - r.sum() / n, "rewards", "[n]"),
        (lambda r, k: (r - r.mean(), r), "rewards", "[n]"),
        (lambda r: tuple(x - sum(r) / 2 for x in r), "rewards", "[n]"),
        (lambda r: r - r.mean(dim=1, keepdim=True), "rewards", "[B, n]"),
        (lambda r: r.astype(float) - np.ptp(r[np.argsort(-r)]) / 2, "rewards", "array"),
        (lambda r: [x - sum(sorted(r, reverse=True)) / 2 for x in r], "rewards", "[n]"),
        (lambda r: [x - r.count(2) for x in r], "rewards", "list"),
        (lambda r, g: (r.view(-1, g) - r.view(-1, g).mean(1)[:, None]).flatten(), "flat", "flat"),
        (asynchronous, "rewards", "[n]"),
        (in_place, "rewards", "[n]"),
        (k_by_default, "rewards", "[n]"),
        (Estimator(), "rewards", "[n]"),
        (Estimator.compute, "rewards", "[n]"),
        (partial(k_by_default, k=1), "rewards", "[n]"),
        (verl, "verl", "verl"),
    ],
)
def test_forms_of_a_group(function, signature, form):
    caller, rewards = Caller(function, 1, signature), torch.tensor([0.0, 2.0])
    assert caller.weigh(rewards).tolist() == [-1, 1]
    assert rewards.tolist() == [0, 2]
    assert caller.form == form
    if caller.takes_batches:
        groups = torch.tensor([[0.0, 2.0], [5.0, 9.0]])
        assert caller.weigh(groups).tolist() == [[-1, 1], [-2, 2]]


def fails_after_its_form(rewards):
    """Takes [B, n], and raises another error there than for [n]."""
    off = rewards - rewards.mean(dim=1, keepdim=True)
    return off / missing  # noqa: F821


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda r, eps: r / eps, "needs eps, which the check has no value for"),
        (lambda r: r[:1], r"returns shape \[1\] for rewards of shape \[2\]"),
        (lambda r: r / 0 + None, r"raises TypeError: unsupported .*\(test_functions.py:\d+\)$"),
        (lambda r: sys.exit(3), r"raises SystemExit: 3"),
        (lambda r: None, "raises TypeError: it returns None, not weights"),
        (fails_after_its_form, r"raises NameError: name 'missing' is not .*py:\d+\)$"),
    ],
)
def test_what_cannot_be_called(function, message):
    with pytest.raises(LabError, match=message):
        Caller(function, 1).weigh(torch.tensor([0.0, 2.0]))
