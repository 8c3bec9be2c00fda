"""Names are nouns of the field, and sentences are short."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMES = re.compile(
    "found|told|tells?|known|own|given|kept|asked|meant|there|one|other|those|these|way|look|part"
    "|whole|wanted|left|met|taken|said|plain|far"
)
PREPOSITIONS = ("of_", "at_", "by_", "toward", "across", "beside")
PHRASES = re.compile(r"\b(told|anew|each alone|so many|of which|but for)\b", re.IGNORECASE)
MOST_WORDS = 25
MODULES = sorted((ROOT / "maxk_lab").rglob("*.py"))
# Templates have code between their words; their pages are here.
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if not {"_build", "templates"} & {*page.parts}]


def names(tree: ast.AST, dunder: bool = False) -> Iterator[str]:
    """Yield the bad names that a module assigns, takes as parameters or gives to functions."""
    for node in ast.iter_child_nodes(tree):
        inside = dunder
        if isinstance(node, ast.FunctionDef):
            inside = node.name.startswith("__")
            if NAMES.fullmatch(node.name) or node.name.lstrip("_").startswith(PREPOSITIONS):
                yield f"{node.lineno}: def {node.name}"
        stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id
        name = node.arg if isinstance(node, ast.arg) else stored
        if name and NAMES.fullmatch(name) and not (inside and name == "other"):
            yield f"{node.lineno}: {name}"
        yield from names(node, inside)


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_a_module_uses_the_words_of_the_field(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    phrases = [f"{text.count(chr(10), 0, m.start()) + 1}: {m[0]}" for m in PHRASES.finditer(text)]
    assert [*names(ast.parse(text)), *phrases] == []


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_a_page_has_short_sentences(path: Path) -> None:
    text = re.sub(
        r"```.*?```|<!--.*?-->|^( {4}|\||#|>|- \[).*?$", "", path.read_text(), flags=16 | 8
    )
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text)
    sentences = [s for p in paragraphs for s in re.split(r"(?<=[.!?:])\s+(?=[^a-z])", p)]
    assert [s for s in sentences if len(s.split()) > MOST_WORDS or PHRASES.search(s)] == []


def test_the_test_finds_bad_names() -> None:
    code = "def by_name(found, x):\n  for way in x: told = 1\ndef __eq__(self, other): one = 1"
    assert [line.split(": ")[1] for line in names(ast.parse(code))] == [
        *("def by_name", "found", "way", "told", "one"),
    ]
