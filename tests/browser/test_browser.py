"""The browser itself: it tells errors and requests of a page, or other tests would see none."""

from __future__ import annotations

from pathlib import Path

import pytest
from chromium import PHONE, Browser

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_errors_requests_size_and_colours_are_told(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    head = "<meta charset=utf-8><meta name=viewport content=width=device-width><title>t</title>"
    wrong = "<script src='http://example.invalid/x.js'></script><script>nothing()</script>"
    path.write_text(f"<!doctype html>{head}<body>{wrong}", encoding="utf-8")
    browser.open(path, size=PHONE, dark=True)
    assert any("nothing is not defined" in error for error in browser.errors())
    assert "http://example.invalid/x.js" in browser.requests()
    assert browser.run("return [innerWidth, innerHeight]") == [*PHONE]
    assert browser.run("return matchMedia('(prefers-color-scheme: dark)').matches")
    path.write_text(f"<!doctype html>{head}<body><p>Sound.", encoding="utf-8")
    browser.open(path)
    assert browser.errors() == []
    assert browser.requests() == [path.as_uri()]
