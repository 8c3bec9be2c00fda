"""The board takes functions out of wheels, and its page and README say the same."""

import re
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

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
    def whole(self, batch):
        rewards = heavy.download(batch)
        mean = rewards.mean()
        if self.scale:
            advantages = rewards - mean
        advantages = advantages * self.scale
        return heavy.upload(advantages)
"""
HELPERS = "def centred(rewards):\n    return rewards - rewards.mean()\n"


def test_functions_and_statements_of_methods_come_out_of_a_wheel(tmp_path):
    wheel = tmp_path / "trainer-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as content:
        content.writestr("trainer/main.py", MAIN)
        content.writestr("trainer/helpers.py", HELPERS)
    source = board.Source(wheel, ["trainer/main.py", "trainer/helpers.py"])
    rewards = torch.tensor([0.0, 2.0])
    assert source.function("advantage")(rewards)[1] == pytest.approx(1, rel=1e-3)
    assert "Trainer" not in source.space
    statements = source.slice("Trainer.whole", "mean", "advantages")
    assert statements(rewards=rewards, self=SimpleNamespace(scale=3)).tolist() == [-3, 3]


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
