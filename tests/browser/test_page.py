"""The page as a reader sees it: on a desktop and a phone, light and dark, with hostile texts."""

import re
from typing import Any

import pytest
from chromium import DESKTOP, PHONE
from opened_pages import HOSTILE, Pages

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    return Pages(tmp_path_factory.mktemp("pages"))


@pytest.fixture
def page(browser):
    """Opens a page; after the test the page has requested nothing and logged no error."""
    opened = []

    def open_page(path, **settings: Any):
        opened.append(path)
        browser.open(path, **settings)
        return browser

    yield open_page
    assert browser.errors() == []
    assert browser.requests() == [path.resolve().as_uri() for path in opened[-1:]]


def draw_all(browser):
    """Scroll through the page until every chart is drawn, and return their number."""
    count = browser.until(
        """const waiting = document.querySelector(".chart:not([data-state=drawn])");
        waiting?.scrollIntoView();
        return !waiting && document.querySelectorAll(".chart svg").length"""
    )
    return count


def test_the_browser_reports_errors_requests_size_and_colours(browser, tmp_path):
    path = tmp_path / "page.html"
    head = "<meta charset=utf-8><meta name=viewport content=width=device-width><title>t</title>"
    wrong = "<script src='http://example.invalid/x.js'></script><script>nothing()</script>"
    path.write_text(f"<!doctype html>{head}<body>{wrong}", encoding="utf-8")
    browser.open(path, size=PHONE, dark=True)
    assert any("nothing is not defined" in error for error in browser.errors())
    assert "http://example.invalid/x.js" in browser.requests()
    assert browser.run("return [innerWidth, innerHeight]") == [*PHONE]
    assert browser.run("return matchMedia('(prefers-color-scheme: dark)').matches")


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("name", ["golden", "small"])
def test_a_chart_fills_its_card_in_readable_type(page, pages, name, size):
    path = getattr(pages, name)
    assert path.stat().st_size <= 3_000_000
    browser = page(path, size=size)
    assert draw_all(browser) > 1
    charts = browser.run(
        """return [...document.querySelectorAll(".panel")].map((panel) => {
          const box = panel.getBoundingClientRect(), svg = panel.querySelector("svg");
          const drawn = svg.getBoundingClientRect();
          return { left: drawn.left - box.left, right: box.right - drawn.right, width: drawn.width,
            inside: box.left >= 0 && box.right <= arguments[0],
            type: Math.min(...[...svg.querySelectorAll("text")].map((text) =>
              parseFloat(getComputedStyle(text).fontSize))) };
        })""",
        size[0],
    )
    for chart in charts:
        assert chart["inside"]
        assert chart["type"] >= 12
        assert chart["width"] >= 250
        assert -1 <= chart["left"] <= 1
        assert -1 <= chart["right"] <= 2
    assert browser.run("return document.documentElement.scrollWidth <= arguments[0]", size[0])


def test_a_chart_is_drawn_when_it_comes_into_view_and_shows_the_numbers_of_a_mark(page, pages):
    from selenium.webdriver import ActionChains

    browser = page(pages.small, size=PHONE)
    charts = browser.driver.find_elements("css selector", ".chart")
    assert charts[-1].find_elements("css selector", "svg") == []
    draw_all(browser)
    mark = browser.find(".chart .mark-symbol path")
    ActionChains(browser.driver).move_to_element(mark).perform()
    words = browser.until("return document.querySelector('#vg-tooltip-element.visible')?.innerText")
    assert re.search(r"n = \d+", words)
    assert all(word in words for word in ("value", "from", "to"))


def test_the_answer_comes_first_then_named_figures_and_tables_fold(page, pages):
    browser = page(pages.small)
    headings = browser.run("return [...document.querySelectorAll('h2')].map((h) => h.textContent)")
    assert headings[:2] == ["Answer", "Figures"]
    for figure in browser.driver.find_elements("css selector", "figure"):
        title, caption = (figure.find_element("css selector", s).text for s in ("h3", "figcaption"))
        assert figure.get_attribute("aria-label") == f"{title}: {caption}"
    table = browser.find("details").find_element("css selector", "table")
    assert not table.is_displayed()
    browser.find("summary").click()
    assert table.is_displayed()


def test_the_page_is_dark_on_a_dark_system_and_light_after_a_click(page, pages):
    browser = page(pages.small, dark=True)

    def brightness():
        """Return the brightness of paper, words and labels of axes, from 0 to 1."""
        draw_all(browser)
        colours = browser.run(
            """const light = (element, name) => {
              const [r, g, b] = getComputedStyle(element)[name].match(/[\\d.]+/g).map(Number);
              return (r + g + b) / 765 };
            const label = document.querySelector(".chart .role-axis-label text");
            return [light(document.body, "backgroundColor"), light(document.body, "color"),
              light(label, "fill")];"""
        )
        return colours

    paper, *texts = brightness()
    assert paper < 0.25 < 0.75 < min(texts)
    browser.find("#theme").click()
    paper, *texts = brightness()
    assert max(texts) < 0.25 < 0.75 < paper


def test_hostile_texts_are_words(page, pages):
    browser = page(pages.hostile, size=PHONE)
    draw_all(browser)
    assert HOSTILE in browser.find("h1").text
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    assert browser.run("return window.hacked") is None
    assert browser.run("return document.querySelectorAll('img, main b > b').length") == 0
    assert browser.run(
        "return [...document.querySelectorAll('b')].every((one) => one.textContent !== 'bold')"
    )
    assert browser.run("return document.documentElement.scrollWidth <= arguments[0]", PHONE[0])
