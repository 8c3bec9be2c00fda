"""The board takes functions out of wheels, and its page and README say the same."""

import re
import sys
import zipfile
from pathlib import Path

import pytest
import torch
import yaml

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import board

ROOT = Path(__file__).parents[2]
MAIN = """
import torch, heavy.package as heavy
from heavy.registry import register, Base
from .helpers import centred

EPS = 1e-4
logger = heavy.get_logger(__name__)

@register("rloo")
def advantage(rewards: heavy.Tensor, k=1):
    logger.info("called")
    return centred(rewards) / (1 + EPS)

class Trainer(Base):
    @register
    def step(self, rewards):
        with heavy.timer():
            pass
        return rewards

    def whole(self, batch):
        rewards = heavy.download(batch)
        mean = rewards.mean()
        if self.scale:
            advantages = rewards - mean
        advantages = advantages * self.scale
        return heavy.upload(advantages)
"""
HELPERS = "def centred(rewards):\n    return rewards - rewards.mean()\n"


@pytest.fixture
def source(tmp_path):
    with zipfile.ZipFile(tmp_path / "trainer-1.0-py3-none-any.whl", "w") as content:
        content.writestr("trainer/main.py", MAIN)
        content.writestr("trainer/helpers.py", HELPERS)
    files = ["trainer/main.py", "trainer/helpers.py"]
    return board.Source(tmp_path / "trainer-1.0-py3-none-any.whl", files)


def test_a_function_comes_with_what_it_needs(source):
    function = source.function("advantage")
    assert function(torch.tensor([0.0, 2.0]))[1] == pytest.approx(1, rel=1e-3)
    assert "Trainer" not in source.space


def test_statements_of_a_method_run_alone(source):
    function = source.slice("Trainer.whole", "mean", "advantages")
    rewards = torch.tensor([0.0, 2.0])
    assert function(rewards=rewards, self=board.types.SimpleNamespace(scale=3)).tolist() == [-3, 3]


def test_the_board_has_projects_and_expectations():
    table = yaml.safe_load(board.TABLE.read_text())
    entries = table["entries"]
    assert len(entries) >= 20
    assert len({entry["project"] for entry in entries}) >= 6
    expected = {(e["project"], e["name"]) for e in entries if {"expect", "gives"} & {*e}}
    assert {("verl", "grpo_passk"), ("SkyRL", "maxrl"), ("verl", "best@k")} <= expected
    assert all(reason for _, reason in table["not checked"])


def test_readme_has_the_counts_of_the_page():
    counts = re.search(
        r"^\d+ functions of \d+ projects: .*\.$", board.PAGE.read_text(), re.MULTILINE
    )
    assert counts is not None
    assert counts[0].removesuffix(".") in (ROOT / "README.md").read_text()
