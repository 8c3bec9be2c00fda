"""The reward functions that the README and docs/ show run in every kind of study."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from maxk_lab.environments.language.rewards import RewardFunction, score

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
DEFINED = re.compile(r"^def (\w+)\(prompts, completions\b", re.MULTILINE)
EXAMPLES = [
    pytest.param(code, name, id=f"{page.name}-{name}")
    for page in PAGES
    for code in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for name in DEFINED.findall(code)
]


def test_the_pages_show_a_reward_function() -> None:
    assert EXAMPLES


@pytest.mark.parametrize(("code", "name"), EXAMPLES)
def test_a_reward_function_of_the_pages_gives_every_completion_a_number(
    code: str, name: str
) -> None:
    """Also the empty one: a gradient study needs a reward for every trajectory."""
    names: dict[str, object] = {}
    exec(code, names)
    completions = ["", "a", "aa", "abc", "abca", "12+3"]
    function = RewardFunction(name, names[name])  # type: ignore[arg-type]
    columns = {"answer": ["a"] * 6, "truncated": [False, True] * 3, "longest": [4] * 6}
    rewards, _ = score([function], [1.0], ["1+2="] * 6, completions, **columns)
    assert rewards.isfinite().all()
    assert len(rewards.unique()) > 1
