"""The page as a whole: on a phone, in the dark, with figures, and with texts that mean harm."""

from __future__ import annotations

import re
from typing import Any

import pytest
from chromium import PHONE, Browser
from opened_pages import HOSTILE, PANEL, Open, Pages

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def drawn(browser: Browser) -> int:
    """Have every figure drawn; how many there are."""
    count: int = browser.until(
        """const waiting = [...document.querySelectorAll(".plot")].filter((plot) =>
          !plot.querySelector("svg"));
        waiting[0]?.scrollIntoView();
        return waiting.length ? 0 : document.querySelectorAll(".plot").length"""
    )
    return count


def test_figures_are_drawn_and_are_images_with_their_words(page: Open, pages: Pages) -> None:
    browser = page(pages.golden)
    count = drawn(browser)
    assert count == len(browser.driver.find_elements("css selector", ".plot svg.marks")) > 1
    for figure in browser.driver.find_elements("css selector", "figure"):
        title, caption = (figure.find_element("css selector", s).text for s in ("h3", "figcaption"))
        image = figure.find_element("css selector", "[role=img]")
        assert image.get_attribute("aria-label") == f"{title}: {caption}"
    browser.point_at(browser.find(".plot .mark-symbol path"))
    told = browser.until("return document.querySelector('#vg-tooltip-element.visible')?.innerText")
    assert re.search(r"n = \d+, K = \d+", told)
    assert all(word in told for word in ("value", "from", "to"))


def test_a_dark_page_has_light_words_and_lines(page: Open, pages: Pages) -> None:
    def looks(browser: Browser) -> dict[str, Any]:
        drawn(browser)
        found: dict[str, Any] = browser.run(
            """const light = (colour) => {
              const [r, g, b] = colour.match(/[\\d.]+/g).map(Number); return (r + g + b) / 765 };
            const style = (element) => getComputedStyle(element);
            return {
              theme: document.documentElement.dataset.theme,
              paper: light(style(document.body).backgroundColor),
              words: light(style(document.body).color),
              rows: light(style(document.querySelector(".tabulator-row")).backgroundColor),
              ticks: light(style(document.querySelector(".plot .role-axis-label text[fill]")).fill),
            }"""
        )
        return found

    browser = page(pages.golden, dark=True)
    found = looks(browser)
    assert found["theme"] == "dark"
    assert max(found["paper"], found["rows"]) < 0.25
    assert min(found["words"], found["ticks"]) > 0.25
    browser.click("#theme")
    found = looks(browser)
    assert found["theme"] == "light"
    assert min(found["paper"], found["rows"]) > 0.75
    assert max(found["words"], found["ticks"]) < 0.25


@pytest.mark.parametrize("name", ["golden", "several", "hostile"])
def test_a_phone_scrolls_down_alone(page: Open, pages: Pages, name: str) -> None:
    browser = page(getattr(pages, name), size=PHONE)
    if name == "golden":
        drawn(browser)
    assert browser.run(
        """const root = document.documentElement;
        return root.clientWidth === arguments[0] && root.scrollWidth <= root.clientWidth""",
        PHONE[0],
    )
    inside, lines = browser.run(
        """const boxes = [...document.querySelectorAll(".plot .role-frame")]
          .map((one) => one.getBoundingClientRect());
        const rows = [...document.querySelectorAll(".short .sheet tbody tr")];
        return [boxes.every((box) => box.left >= 0 && box.right <= arguments[0]), rows.map((row) =>
          row.getBoundingClientRect().height / parseFloat(getComputedStyle(row).lineHeight))]""",
        PHONE[0],
    )
    assert inside
    assert max(lines) < 2


def test_the_charts_come_right_after_the_answer(page: Open, pages: Pages) -> None:
    browser = page(pages.golden)
    heads = browser.run("return [...document.querySelectorAll('h2')].map((h) => h.textContent)")
    assert heads == ["Answer", "Figures", "Claims", "All rows", "The rest"]


def test_hostile_texts_are_words(page: Open, pages: Pages) -> None:
    browser = page(pages.hostile)
    drawn(browser)
    assert browser.find("h1").text == HOSTILE
    browser.click(".grid .tabulator-row")
    assert "onerror" in browser.find("#details").text
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    assert browser.run("return window.hacked") is None
    assert browser.run("return document.querySelectorAll('img[src=x], main b > b').length") == 0
    assert browser.run(
        "return [...document.querySelectorAll('b')].every((one) => one.textContent !== 'bold')"
    )


def test_a_page_is_printed_in_light_colours_with_the_rows_that_are_left(
    page: Open, pages: Pages
) -> None:
    browser = page(pages.small, dark=True)
    theme = "return document.documentElement.dataset.theme"
    assert browser.run(theme) == "dark"
    browser.run(
        """Tabulator.findTable(arguments[0])[0].setHeaderFilterValue("baseline", ["subloo"]);
        dispatchEvent(new Event("beforeprint"))""",
        f"{PANEL} .grid",
    )
    assert browser.run(theme) == "light"
    printed = browser.run(
        """return [...document.querySelectorAll('.tabulator-print-table tbody tr')]
          .map((row) => row.textContent)"""
    )
    assert printed
    assert all("subloo" in row for row in printed)
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run(theme) == "dark"
