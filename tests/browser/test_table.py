"""The table of a page as a reader uses it: sorted, filtered, explained and downloaded."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from chromium import PHONE, Browser
from opened_pages import PANEL, Open, Pages

pytestmark = [pytest.mark.browser, pytest.mark.slow]

GRID = f"{PANEL} .grid"
TABLE = "const table = Tabulator.findTable(arguments[0])[0]"
HEADING = f"{GRID} .tabulator-col[tabulator-field='%s']"
ENTER, DOWN, ESCAPE = "\ue007", "\ue015", "\ue00c"


def values(browser: Browser, name: str) -> list[Any]:
    """The values of a column in the rows that are left, in their order."""
    found: list[Any] = browser.run(
        f"{TABLE}; return table.getData('active').map((row) => row[arguments[1]])", GRID, name
    )
    return found


def filter_by(browser: Browser, name: str, value: Any) -> None:
    """Set the filter above a column, as a choice in its list does."""
    browser.run(
        f"{TABLE}; table.setHeaderFilterValue(arguments[1], arguments[2])", GRID, name, value
    )


def ascending(found: list[Any]) -> list[Any]:
    """The values in order; last what has none."""
    there = [value for value in found if value is not None]
    return sorted(there) + [None] * (len(found) - len(there))


def told(browser: Browser, selector: str) -> str:
    """What is told while the pointer is on an element."""
    browser.click(HEADING % "variance" + " .tabulator-col-title")
    browser.until("return !document.querySelector('.tabulator-tooltip')")
    browser.point_at(browser.find(selector))
    text: str = browser.until("return document.querySelector('.tabulator-tooltip')?.innerText")
    return text


def test_a_heading_sorts_both_ways_and_what_has_no_value_stays_last(
    page: Open, pages: Pages
) -> None:
    browser = page(pages.small)
    before = values(browser, "variance")
    for turn in (1, -1):
        browser.click(HEADING % "variance" + " .tabulator-col-title")
        there = [value for value in ascending(before) if value is not None]
        assert 1 < len(there) < len(before)
        assert values(browser, "variance") == there[::turn] + [None] * (len(before) - len(there))


FILTERS = {
    "< {0}": lambda value, end: value < end,
    ">= {0}": lambda value, end: value >= end,
    "0 .. {0}": lambda value, end: 0 <= value <= end,
    "{0}, > 1e9": lambda value, end: value == end,
    "nonsense": lambda value, end: False,
}


def test_filters_above_columns_leave_what_fits_all_of_them(page: Open, pages: Pages) -> None:
    browser = page(pages.small)
    whole = values(browser, "variance")
    filter_by(browser, "baseline", ["subloo", "centred"])
    assert set(values(browser, "baseline")) == {"subloo", "centred"}
    some = values(browser, "variance")
    end = ascending(some)[2]
    for asked, fits in FILTERS.items():
        filter_by(browser, "variance", asked.format(end))
        expected = [value for value in some if value is not None and fits(value, end)]
        assert values(browser, "variance") == expected
        assert browser.find(f"{PANEL} .count").text == f"{len(expected)} of {len(whole)} rows"
        assert ("No row matches" in browser.find(GRID).text) == (not expected)
    browser.click(f"{PANEL} .clear")
    assert values(browser, "variance") == whole
    browser.click(HEADING % "variance" + " input")
    browser.press(f"> {end}")
    browser.until(f"{TABLE}; return table.getDataCount('active') < arguments[1]", GRID, len(whole))


def test_columns_names_and_missing_values_are_explained_and_can_be_chosen(
    page: Open, pages: Pages
) -> None:
    browser = page(pages.small)
    assert "tr Cov" in told(browser, HEADING % "variance" + " .tabulator-col-title span")
    cell = f"{GRID} .tabulator-cell[tabulator-field=%s] .defined"
    assert "source:" in told(browser, cell % "baseline")
    browser.run(f"{TABLE}; table.scrollToRow(table.getRows('active').at(-1))", GRID)
    assert "seeds finished" in told(browser, cell % "variance")
    browser.click(f"{PANEL} .chooser summary")
    browser.click(f"{PANEL} .chooser input[value=baseline]")
    assert not browser.find(HEADING % "baseline").is_displayed()


def test_a_row_tells_the_cells_behind_its_numbers_without_a_pointer(
    page: Open, pages: Pages
) -> None:
    browser = page(pages.small, size=PHONE)
    browser.run("document.querySelector(arguments[0]).focus()", HEADING % "seeds_finished")
    browser.press(ENTER)
    browser.run("document.querySelector(arguments[0]).focus()", f"{GRID} .tabulator-row")
    browser.press(ENTER)
    details = browser.find("#details").text
    for word in ("maxk-lab show 0-none-8-2-0", "failed", "done", "MemoryError", "0123abcd"):
        assert word in details
    assert '"num_loc": 20' in details
    assert browser.run(
        """const box = document.querySelector("#details .wide").getBoundingClientRect();
        return [...document.querySelectorAll("#details .cells td")].every((cell) => {
          const at = cell.getBoundingClientRect();
          return at.width === 0 || (at.left >= box.left - 1 && at.right <= box.right + 1);
        })"""
    )
    browser.press(ESCAPE)
    assert browser.run("return document.querySelector('#details').open") is False
    browser.press(DOWN, ENTER)
    assert "baseline" in browser.find("#details-title").text


def test_a_download_has_every_column_of_the_rows_that_are_left(page: Open, pages: Pages) -> None:
    browser = page(pages.small)
    filter_by(browser, "baseline", ["centred"])
    text = browser.run(
        TABLE
        + """; let told; table.options.downloadEncoder = (text) => { told = text; return false; };
        document.querySelector(arguments[1]).click(); return told""",
        GRID,
        f"{PANEL} .download",
    )
    lines = list(csv.DictReader(io.StringIO(text.lstrip("\ufeff"))))
    assert {line["baseline"] for line in lines} == {"centred"}
    for name in ("variance", "variance_low", "variance_high"):
        assert [float(line[name]) for line in lines] == values(browser, name)


def test_several_runs_are_in_one_table(page: Open, pages: Pages) -> None:
    browser = page(pages.several)
    headings = browser.driver.find_elements("css selector", "h1")
    assert [one.text for one in headings] == ["first", "second"]
    assert set(values(browser, "run")) == {"first", "second"}
    filter_by(browser, "run", ["second"])
    browser.click(f"{GRID} .tabulator-row")
    assert browser.find("#details-title").text.startswith("second: ")
