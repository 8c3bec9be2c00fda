"""The pages in docs/ name files that are there, and the check of the picture sees when it lies."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_SPEC = importlib.util.spec_from_file_location("drawing", ROOT / "docs/draw_architecture.py")
assert _SPEC is not None
assert _SPEC.loader is not None
drawing = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(drawing)


def test_every_file_that_the_house_names_is_there() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_/]+(?:/|\.py))`", text))
    assert len(named) > 40
    found = [
        path for folder in ("maxk_lab", "tests", "docs") for path in (ROOT / folder).rglob("*")
    ]
    there = {f"/{path.relative_to(ROOT).as_posix()}{'/' * path.is_dir()}" for path in found}
    there |= {"/maxk_lab/", "/docs/", "/tests/"}
    assert not {name for name in named if not any(path.endswith(f"/{name}") for path in there)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda rooms: rooms["estimators"]["imports"].append("cli"),
            "estimators no longer imports",
        ),
        (lambda rooms: rooms["cli"]["imports"].remove("sweeps"), "cli now imports sweeps"),
        (lambda rooms: rooms["cli"].update(lines=9), "cli had 9 lines and has"),
        (lambda rooms: rooms.update(cellar=rooms.pop("policies")), "cellar is gone"),
    ],
)
def test_a_picture_that_fits_no_longer_is_told(change, said: str) -> None:
    old, new = drawing.survey(), drawing.survey()
    assert not list(drawing.differences(old, new))
    change(old)
    assert any(line.startswith(said) for line in drawing.differences(old, new))


def test_rooms_that_import_each_other_cannot_be_drawn() -> None:
    rooms = drawing.survey()
    rooms["estimators"]["imports"].append("cli")
    with pytest.raises(SystemExit, match=r"in a circle: .*estimators → cli"):
        drawing.layers(rooms)
