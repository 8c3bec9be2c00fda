"""The pages that are opened: none may ask for anything or report an error."""

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
    """Opens a page, and waits until its table is there; at the end it has asked for nothing."""
    opened: list[Path] = []

    def open_page(path: Path, **how: Any) -> Browser:
        opened.append(path)
        browser.open(path, **how)
        browser.until("return document.documentElement.dataset.ready")
        browser.until("return document.querySelector('details.rows[open]').dataset.ready")
        return browser

    yield open_page
    assert browser.errors() == []
    assert browser.requests() == [path.resolve().as_uri() for path in opened[-1:]]
