"""The page as a reader sees it: on a desktop and a phone, light and dark, with hostile texts."""

from __future__ import annotations

import re

import pytest
from chromium import DESKTOP, PHONE, Browser
from opened_pages import HOSTILE, Open, Pages

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def draw_all(browser: Browser) -> int:
    """Scroll through the page until every chart is drawn, and return their number."""
    count: int = browser.until(
        """const waiting = document.querySelector(".chart:not([data-state=drawn])");
        waiting?.scrollIntoView();
        return !waiting && document.querySelectorAll(".chart svg").length"""
    )
    return count


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("name", ["golden", "small"])
def test_a_chart_fills_its_card_in_readable_type(
    page: Open, pages: Pages, name: str, size: tuple[int, int]
) -> None:
    browser = page(getattr(pages, name), size=size)
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


def test_the_page_of_a_golden_run_has_at_most_3_mb(pages: Pages) -> None:
    assert pages.golden.stat().st_size <= 3_000_000


def test_a_chart_is_drawn_when_it_comes_into_view(page: Open, pages: Pages) -> None:
    browser = page(pages.small, size=PHONE)
    charts = browser.driver.find_elements("css selector", ".chart")
    assert charts[-1].find_elements("css selector", "svg") == []
    browser.run("arguments[0].scrollIntoView()", charts[-1])
    browser.until("return arguments[0].querySelector('svg')", charts[-1])


def test_a_pointer_on_a_mark_shows_its_name_value_and_interval(page: Open, pages: Pages) -> None:
    browser = page(pages.small)
    draw_all(browser)
    browser.point_at(browser.find(".chart .mark-symbol path"))
    words = browser.until("return document.querySelector('#vg-tooltip-element.visible')?.innerText")
    assert re.search(r"n = \d+", words)
    assert all(word in words for word in ("value", "from", "to"))


def test_every_figure_has_its_title_and_caption_as_a_name(page: Open, pages: Pages) -> None:
    browser = page(pages.small)
    for figure in browser.driver.find_elements("css selector", "figure"):
        title, caption = (figure.find_element("css selector", s).text for s in ("h3", "figcaption"))
        assert figure.get_attribute("aria-label") == f"{title}: {caption}"


def brightness(browser: Browser) -> dict[str, float]:
    """Return the brightness of paper, words and labels of axes, from 0 to 1."""
    draw_all(browser)
    colours: dict[str, float] = browser.run(
        """const light = (colour) => {
          const [r, g, b] = colour.match(/[\\d.]+/g).map(Number); return (r + g + b) / 765 };
        const style = (element) => getComputedStyle(element);
        return { paper: light(style(document.body).backgroundColor),
          words: light(style(document.body).color),
          labels: light(style(document.querySelector(".chart .role-axis-label text")).fill) };"""
    )
    return colours


def test_the_page_is_dark_on_a_dark_system_and_light_after_a_click(
    page: Open, pages: Pages
) -> None:
    browser = page(pages.small, dark=True)
    dark = brightness(browser)
    assert dark["paper"] < 0.25 < 0.75 < min(dark["words"], dark["labels"])
    browser.click("#theme")
    light = brightness(browser)
    assert max(light["words"], light["labels"]) < 0.25 < 0.75 < light["paper"]


def test_the_answer_comes_first_then_figures_and_tables_fold(page: Open, pages: Pages) -> None:
    browser = page(pages.small)
    headings = browser.run("return [...document.querySelectorAll('h2')].map((h) => h.textContent)")
    assert headings[:2] == ["Answer", "Figures"]
    folded = browser.find("details")
    table = folded.find_element("css selector", "table")
    assert not table.is_displayed()
    browser.click("summary")
    assert table.is_displayed()


def test_hostile_texts_are_words(page: Open, pages: Pages) -> None:
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
