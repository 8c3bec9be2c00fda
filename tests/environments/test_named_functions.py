"""Functions that a sweep names are imported by a run only, which survives whatever they do then."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from maxk_lab.environments.language.reward_rows import check_reward, load_reward_object
from maxk_lab.errors import LabError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which is on the path from the first load on, for this test alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.mark.parametrize(
    ("module", "source", "reason"),
    [
        ("exits", "import sys; sys.exit(0)", "importing exits raised SystemExit: 0$"),
        ("closes", "raise GeneratorExit", "importing closes raised GeneratorExit: no message$"),
        ("stops", "raise KeyboardInterrupt('mine')", "reward function 'stops:reward': mine$"),
        ("odd", "raise type('Odd', (BaseException,), {})('x\\ny')", "raised Odd: x$"),
        ("lacks", "import nowhere", "No module named 'nowhere'"),
        ("classy", "reward = type('R', (), {})", "must be a function .*, got the class R$"),
        ("forgets", "del reward", "has no attribute 'reward'$"),
    ],
)
def test_a_module_that_breaks_is_told(folder: Path, module: str, source: str, reason: str) -> None:
    (folder / f"{module}.py").write_text(f"def reward(): ...\n{source}\n")
    with pytest.raises(LabError, match=reason):
        load_reward_object(f"{module}:reward")


def test_the_folder_is_open_from_the_first_load_on(folder: Path) -> None:
    (folder / "own_reward.py").write_text("def reward():\n    import own_sibling\n    return 7\n")
    (folder / "own_sibling.py").write_text("")
    check_reward("own_reward:reward")
    assert not {"own_reward", "own_sibling"} & set(sys.modules)
    assert str(folder) not in sys.path
    assert load_reward_object("own_reward:reward")() == 7
    assert sys.path[-1] == str(folder)


def test_an_import_is_a_call(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever watches the calls can end an import that hangs."""

    class Told(list[str]):
        begins = list.append

        def ends(self) -> None:
            self.append("ended")

    told = Told()
    (folder / "watched.py").write_text("def reward(): ...\n")
    monkeypatch.setattr("maxk_lab.calls._watchers", [told])
    load_reward_object("watched:reward")
    assert told == ["the import of reward function 'watched:reward'", "ended"]
