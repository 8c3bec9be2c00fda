"""The browser itself: it tells errors and requests of a page, or other tests would see none."""

from __future__ import annotations

from pathlib import Path

import pytest
from chromium import PHONE, Browser

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def page(folder: Path, body: str) -> Path:
    path = folder / "page.html"
    head = "<meta charset=utf-8><meta name=viewport content=width=device-width><title>t</title>"
    path.write_text(f"<!doctype html>{head}<body>{body}", encoding="utf-8")
    return path


def test_errors_and_requests_are_told(browser: Browser, tmp_path: Path) -> None:
    wrong = "<script src='http://example.invalid/x.js'></script><script>nothing()</script>"
    browser.open(page(tmp_path, wrong))
    assert any("nothing is not defined" in error for error in browser.errors())
    assert "http://example.invalid/x.js" in browser.requests()
    sound = page(tmp_path, "<p>Sound.")
    browser.open(sound)
    assert browser.errors() == []
    assert browser.requests() == [sound.as_uri()]


def test_size_and_colours_are_those_asked_for(browser: Browser, tmp_path: Path) -> None:
    browser.open(page(tmp_path, "<p>Sound."), size=PHONE, dark=True)
    assert browser.run("return [innerWidth, innerHeight]") == [*PHONE]
    assert browser.run("return matchMedia('(prefers-color-scheme: dark)').matches")
