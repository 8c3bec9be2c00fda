"""The page as a whole: on a phone, in the dark, with figures, and with texts that mean harm."""

from __future__ import annotations

from typing import Any

import pytest
from chromium import PHONE, Browser
from opened_pages import HOSTILE, Open, Pages

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def drawn(browser: Browser) -> int:
    """Have every figure drawn; how many there are."""
    count: int = browser.until(
        """const waiting = [...document.querySelectorAll(".plot")].filter((plot) =>
          !plot.querySelector(".main-svg, img"));
        waiting[0]?.scrollIntoView();
        return waiting.length ? 0 : document.querySelectorAll(".plot").length"""
    )
    return count


def traces(browser: Browser, plot: str) -> list[dict[str, Any]]:
    """The traces of a figure, as Plotly has them now."""
    found: list[dict[str, Any]] = browser.run(
        """return document.querySelector(arguments[0]).data.map((trace) => (
          {name: trace.name, group: trace.legendgroup}))""",
        plot,
    )
    return found


def figure_with(browser: Browser, what: str) -> str:
    """The selector of the first figure for which a script, given its traces, returns true."""
    place = browser.until(
        f"""const fits = {what};
        for (const plot of document.querySelectorAll(".plot")) {{
          if (!plot.querySelector(".main-svg, img")) {{
            plot.scrollIntoView();
            return null;
          }}
          if (plot.data && fits(plot.data)) return plot.dataset.figure;
        }}
        return "none" """
    )
    assert place != "none"
    return f".plot[data-figure='{place}']"


def test_every_figure_is_drawn_from_its_numbers(page: Open, pages: Pages) -> None:
    browser = page(pages.golden)
    count = drawn(browser)
    assert count == len(browser.driver.find_elements("css selector", ".plot .svg-container")) > 1
    titles = browser.driver.find_elements("css selector", "figure h3")
    assert all(title.text for title in titles)


def test_a_click_in_the_legend_switches_a_series_off_in_every_panel(
    page: Open, pages: Pages
) -> None:
    browser = page(pages.golden)
    plot = figure_with(browser, "(data) => data.filter((t) => t.showlegend).length > 1")
    first = browser.find(f"{plot} .legend .traces .legendtoggle")
    name = browser.find(f"{plot} .legend .traces .legendtext").text
    first.click()
    of_it = [trace for trace in traces(browser, plot) if trace["group"] == name]
    assert len(of_it) > 0
    browser.until(
        """return document.querySelector(arguments[0]).data.every((trace) =>
          (trace.visible === "legendonly") === (trace.legendgroup === arguments[1]))""",
        plot,
        name,
    )
    browser.find(f"{plot} .legend .traces .legendtoggle").click()
    browser.until(
        "return document.querySelector(arguments[0]).data.every((t) => t.visible !== 'legendonly')",
        plot,
    )


def test_the_tools_of_a_figure_cover_no_word_of_it(page: Open, pages: Pages) -> None:
    browser = page(pages.golden)
    drawn(browser)
    covered = browser.run(
        """const box = (element) => element.getBoundingClientRect();
        const over = (a, b) =>
          a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
        return [...document.querySelectorAll("figure")].flatMap((figure) => {
          const tools = [...figure.querySelectorAll(".modebar-group")].map(box);
          const said = [...figure.querySelectorAll("h3, .plot text")]
            .filter((text) => text.textContent.trim());
          if (!tools.length || !said.length) return ["no tools or no words"];
          // They end above a panel, wherever its words stand.
          const below = (tool) => box(figure.querySelector(".nsewdrag")).top >= tool.bottom;
          if (!tools.every(below)) return ["a panel"];
          return said.filter((text) => tools.some((tool) => over(tool, box(text))))
            .map((text) => text.textContent);
        })"""
    )
    assert covered == []


def test_a_figure_is_an_image_with_its_words(page: Open, pages: Pages) -> None:
    browser = page(pages.golden)
    for figure in browser.driver.find_elements("css selector", "figure"):
        title, caption = (figure.find_element("css selector", s).text for s in ("h3", "figcaption"))
        image = figure.find_element("css selector", "[role=img]")
        assert image.get_attribute("aria-label") == f"{title}: {caption}"


def test_rows_of_the_short_tables_are_one_line_high_on_a_phone(page: Open, pages: Pages) -> None:
    browser = page(pages.golden, size=PHONE)
    lines = browser.run(
        """return [...document.querySelectorAll(".short .sheet tbody tr")].map((row) =>
          row.getBoundingClientRect().height / parseFloat(getComputedStyle(row).lineHeight))"""
    )
    assert lines
    assert max(lines) < 2


# Where the first point with an interval is in the window, and what it tells.
POINT = """
const plot = document.querySelector(arguments[0]);
const has = (told) => told.includes("[");
const trace = plot.data.find((one) => one.name && one.customdata?.some(has));
const place = trace.customdata.findIndex(has);
const [x, y] = ["x", "y"].map((which) => {
  const axis = plot._fullLayout[trace[which + "axis"].replace(which, which + "axis")];
  return axis._offset + axis.d2p(trace[which][place]);
});
const box = plot.getBoundingClientRect();
return [box.left + x, box.top + y, trace.name, trace.customdata[place]]"""


def test_the_pointer_on_a_point_tells_its_value_and_interval(page: Open, pages: Pages) -> None:
    browser = page(pages.golden)
    interval = "one.customdata?.some && one.customdata.some((told) => told.includes?.('['))"
    plot = figure_with(browser, f"(data) => data.some((one) => one.name && {interval})")
    browser.find(plot)
    x, y, name, value = browser.run(POINT, plot)
    assert "[" in value
    assert " at " in value
    browser.cdp("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    told = browser.until(
        "return document.querySelector(arguments[0] + ' .hoverlayer .hovertext')?.textContent", plot
    )
    assert told == f"{name}: {value}"


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
              ticks: light(style(document.querySelector(".plot .xtick text")).fill),
              lines: [...document.querySelectorAll(".plot .js-line")]
                .map((line) => light(style(line).stroke)),
            }"""
        )
        return found

    browser = page(pages.golden, dark=True)
    found = looks(browser)
    assert found["theme"] == "dark"
    assert max(found["paper"], found["rows"]) < 0.25
    assert min(found["words"], found["ticks"], *found["lines"]) > 0.25
    browser.click("#theme")
    found = looks(browser)
    assert found["theme"] == "light"
    assert min(found["paper"], found["rows"]) > 0.75
    assert max(found["words"], found["ticks"]) < 0.25


@pytest.mark.parametrize("name", ["small", "several", "hostile"])
def test_a_phone_scrolls_down_alone(page: Open, pages: Pages, name: str) -> None:
    assert fits_its_window(page(getattr(pages, name), size=PHONE))


def fits_its_window(browser: Browser) -> bool:
    """Whether nothing is wider than the window."""
    fits: bool = browser.run(
        """const root = document.documentElement;
        return root.clientWidth === arguments[0] && root.scrollWidth <= root.clientWidth""",
        PHONE[0],
    )
    return fits


def test_figures_fit_a_phone_with_their_panels_below_each_other(page: Open, pages: Pages) -> None:
    browser = page(pages.golden, size=PHONE)
    drawn(browser)
    assert fits_its_window(browser)
    plot = figure_with(browser, "(data) => new Set(data.map((t) => t.xaxis)).size > 1")
    lefts, tops = browser.run(
        """const boxes = [...document.querySelectorAll(arguments[0])]
          .map((one) => one.getBoundingClientRect());
        return [boxes.map((box) => box.left), boxes.map((box) => box.top)]""",
        f"{plot} .draglayer .nsewdrag",
    )
    assert len(tops) == len(set(tops)) > 1
    assert max(lefts) - min(lefts) <= 1


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
    # A page remembers the button of another.
    if browser.run(theme) == "light":
        browser.click("#theme")
    assert browser.run(theme) == "dark"
    browser.run(
        """const search = document.querySelector('#search');
        search.value = 'baseline=subloo';
        search.dispatchEvent(new Event('input'))"""
    )
    browser.until("return document.querySelector('#count').textContent.includes(' of ')")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run(theme) == "light"
    printed = browser.run(
        """return [...document.querySelectorAll('.tabulator-print-table tbody tr')]
          .map((row) => row.textContent)"""
    )
    assert printed
    assert all("subloo" in row for row in printed)
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run(theme) == "dark"
