"""Pages in a browser; none requests anything or logs an error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import Browser
from opened_pages import Open, Pages


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    return Pages(tmp_path_factory.mktemp("pages"))


@pytest.fixture
def page(browser: Browser) -> Iterator[Open]:
    """Open a page; after the test it has requested nothing and has no error."""
    opened: list[Path] = []

    def open_page(path: Path, **settings: Any) -> Browser:
        opened.append(path)
        browser.open(path, **settings)
        return browser

    yield open_page
    assert browser.errors() == []
    assert browser.requests() == [path.resolve().as_uri() for path in opened[-1:]]
