"""The table of a page as a reader uses it: sorted, filtered, searched, explained and copied."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from chromium import DESKTOP, PHONE, Browser
from opened_pages import NUMBERS, PANEL, ROWS, Open, Pages

from maxk_lab.report.document import number

pytestmark = [pytest.mark.browser, pytest.mark.slow]

GRID = f"{PANEL} .grid"
TABLE = "const table = Tabulator.findTable(arguments[0])[0]"
SEARCH = """const search = document.querySelector('#search');
search.value = arguments[0];
search.dispatchEvent(new Event('input'))"""
HEADING = f"{GRID} .tabulator-col[tabulator-field='%s']"


def rows(browser: Browser) -> list[dict[str, Any]]:
    """The rows that are left, in their order."""
    found: list[dict[str, Any]] = browser.run(f"{TABLE}; return table.getData('active')", GRID)
    return found


def values(browser: Browser, name: str) -> list[Any]:
    """The values of a column in the rows that are left."""
    found: list[Any] = browser.run(
        f"{TABLE}; return table.getData('active').map((row) => row[arguments[1]])", GRID, name
    )
    return found


def cells(browser: Browser, name: str) -> list[str]:
    """The texts of a column, as far as they are in the window."""
    texts: list[str] = browser.run(
        "return [...document.querySelectorAll(arguments[0])].map((cell) => cell.innerText)",
        f"{GRID} .tabulator-cell[tabulator-field='{name}']",
    )
    return texts


def sort(browser: Browser, name: str) -> None:
    browser.click(HEADING % name + " .tabulator-col-title")


def ascending(found: list[Any]) -> list[Any]:
    """The values in order; last what has none."""
    there = [value for value in found if value is not None]
    return sorted(there) + [None] * (len(found) - len(there))


def test_a_click_on_a_heading_sorts_and_another_turns_it_round(page: Open, pages: Pages) -> None:
    browser = page(pages.small)
    before = values(browser, "variance")
    sort(browser, "variance")
    upwards = values(browser, "variance")
    assert upwards == ascending(before) != before
    assert float(cells(browser, "variance")[0].split()[0]) == pytest.approx(upwards[0], rel=0.01)
    sort(browser, "variance")
    there = [value for value in upwards if value is not None]
    assert values(browser, "variance")[: len(there)] == there[::-1]


def test_what_has_no_value_stays_last_both_ways(page: Open, pages: Pages) -> None:
    browser = page(pages.golden)
    name = browser.run(
        TABLE
        + """; return table.getColumns().map((column) => column.getField()).find((key) => {
          const found = table.getData().map((row) => row[key]);
          const numbers = found.filter((value) => typeof value === "number");
          return found.some((value) => value === null) && numbers.length > 1;
        })""",
        GRID,
    )
    browser.run(f"{TABLE}; table.showColumn(arguments[1])", GRID, name)
    for turn in (1, -1):
        sort(browser, name)
        found = values(browser, name)
        there = [value for value in found if value is not None]
        assert 1 < len(there) < len(found)
        assert found == sorted(there)[::turn] + [None] * (len(found) - len(there))


def test_filters_above_columns_leave_what_fits_all_of_them(page: Open, pages: Pages) -> None:
    browser = page(pages.small)
    whole = rows(browser)
    choose(browser, "baseline", "subloo")
    assert rows(browser) == [row for row in whole if row["baseline"] == "subloo"]
    middle = ascending(values(browser, "variance"))[2]
    browser.click(HEADING % "variance" + " input")
    browser.press(f"< {middle}")
    browser.until(f"{TABLE}; return table.getDataCount('active') < {len(whole) // 4}", GRID)
    left = rows(browser)
    assert left == [
        row for row in whole if row["baseline"] == "subloo" and row["variance"] < middle
    ]
    assert browser.find("#count").text == f"{len(left)} of {len(whole)} rows"
    browser.click("#clear")
    assert rows(browser) == whole
    assert browser.find("#count").text == f"{len(whole)} rows"


def choose(browser: Browser, name: str, value: str) -> None:
    """Choose a value above a column."""
    from selenium.webdriver.support.select import Select

    Select(browser.find(HEADING % name + " select")).select_by_visible_text(value)


def test_search_finds_rows_with_every_word(page: Open, pages: Pages) -> None:
    browser = page(pages.small)
    whole = rows(browser)
    browser.press("/", "baseline=subloo n=16")
    browser.until("return document.querySelector('#count').textContent.includes(' of ')")
    expected = [row for row in whole if row["baseline"] == "subloo" and row["n"] == 16]
    assert rows(browser) == expected
    assert 0 < len(expected) < len(whole)
    browser.press("\ue003" * 20, "nothing like it")
    browser.until("return document.querySelector('#count').textContent.startsWith('0 of')")
    assert "No row matches" in browser.find(GRID).text


def test_search_looks_at_what_a_row_is_not_at_what_was_found_of_it(
    page: Open, pages: Pages
) -> None:
    browser = page(pages.small)
    whole = rows(browser)
    # Each of these rows is compared with that of `centred`, too.
    assert sum("centred" in map(str, row.values()) for row in whole) < len(whole)
    for asked, n in (("centred", None), ("centred n=8", 8), ("centred N = 16", 16)):
        browser.run(SEARCH, asked)
        expected = [r for r in whole if r["baseline"] == "centred" and n in (None, r["n"])]
        places = [row["_id"] for row in expected]
        same = (
            "return String(table.getData('active').map((row) => row._id)) === String(arguments[1])"
        )
        browser.until(f"{TABLE}; {same}", GRID, places)
        assert 0 < len(places) < len(whole)


def test_numbers_are_written_as_in_the_report(page: Open, pages: Pages) -> None:
    browser = page(pages.numbers)
    assert cells(browser, "variance") == [number(value) for value in NUMBERS]


def test_a_filter_says_what_it_takes_and_what_it_did_not_understand(
    page: Open, pages: Pages
) -> None:
    browser = page(pages.numbers)
    field = HEADING % "variance" + " input"
    hint = browser.find(field).get_attribute("placeholder")
    assert hint in browser.find("#rows .hint").text
    for asked, left in (
        ("> 1,000", [v for v in NUMBERS if v > 1000]),
        ("0.5 .. 3", [v for v in NUMBERS if 0.5 <= v <= 3]),
        ("1.125, > 99,999", [v for v in NUMBERS if v == 1.125 or v > 99_999]),
        ("-2", [-2.0]),
        ("lots", NUMBERS),
        ("> x", NUMBERS),
    ):
        browser.run("arguments[0].value = ''", browser.find(field))
        browser.click(field)
        browser.press(asked)
        browser.until(
            f"{TABLE}; return table.getDataCount('active') === arguments[1]", GRID, len(left)
        )
        assert values(browser, "variance") == left
        lost = browser.find(field).get_attribute("aria-invalid") == "true"
        assert lost == (left is NUMBERS)


def test_a_choice_of_yes_and_no_has_the_words_of_the_cells(page: Open, pages: Pages) -> None:
    browser = page(pages.small)
    flag = browser.run(
        TABLE
        + """; return table.getColumns().map((column) => column.getField()).find((key) =>
          new Set(table.getData().map((row) => row[key]).filter((v) => v === true || v === false))
            .size === 2)""",
        GRID,
    )
    browser.run(f"{TABLE}; table.showColumn(arguments[1])", GRID, flag)
    offered = {one.text for one in options(browser, flag)} - {"all"}
    assert {text or "no ★" for text in cells(browser, flag)} == offered != {"true", "false"}


def options(browser: Browser, name: str) -> list[Any]:
    """The choices above a column."""
    from selenium.webdriver.support.select import Select

    return Select(browser.find(HEADING % name + " select")).options


def test_columns_are_found_by_their_names_in_a_list_that_scrolls_down(
    page: Open, pages: Pages
) -> None:
    for size in (DESKTOP, PHONE):
        browser = page(pages.small, size=size)
        browser.click("#chooser summary")
        wide, room, height = browser.run(
            """const all = document.querySelector(".choices"), names = all.lastElementChild;
            const over = Math.max(...[all, names].map((one) => one.scrollWidth - one.clientWidth));
            return [over, innerHeight, names.clientHeight]"""
        )
        assert wide <= 0
        assert height < 0.6 * room
    browser.click("#chooser input[type=search]")
    browser.press("variance")
    left = browser.run(
        """return [...document.querySelectorAll("#chooser label")]
          .filter((one) => one.offsetParent).map((one) => one.textContent + one.firstChild.value)"""
    )
    assert left
    assert all("variance" in name for name in left)


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_the_cells_of_a_row_are_seen_whole(page: Open, pages: Pages, size: tuple[int, int]) -> None:
    browser = page(pages.small, size=size)
    browser.click(f"{GRID} .tabulator-row")
    inside: bool = browser.run(
        """const box = document.querySelector("#details .wide").getBoundingClientRect();
        return [...document.querySelectorAll("#details .cells td")].every((cell) => {
          const own = cell.getBoundingClientRect();
          return own.width > 0 && own.left >= box.left - 1 && own.right <= box.right + 1;
        })"""
    )
    assert inside


def test_columns_are_chosen(page: Open, pages: Pages) -> None:
    browser = page(pages.small)
    assert browser.find(HEADING % "baseline").is_displayed()
    browser.click("#chooser summary")
    browser.click("#chooser input[value=baseline]")
    assert not browser.find(HEADING % "baseline").is_displayed()
    others = "#chooser input[type=checkbox]:not(:checked):not([value=baseline])"
    hidden = browser.run("return document.querySelector(arguments[0]).value", others)
    browser.click(f"#chooser input[value='{hidden}']")
    assert browser.find(HEADING % hidden).is_displayed()
    browser.press("\ue00c")
    assert browser.run("return document.querySelector('#chooser').open") is False


def test_headings_names_and_missing_values_are_explained(page: Open, pages: Pages) -> None:
    browser = page(pages.small)
    assert "tr Cov" in told(browser, HEADING % "variance" + " .tabulator-col-title span")
    sort(browser, "baseline")
    name = f"{GRID} .tabulator-cell[tabulator-field=baseline]"
    definition = told(browser, name)
    assert definition.startswith(browser.find(name).text)
    assert "source:" in definition


def told(browser: Browser, selector: str) -> str:
    """What is told while the pointer is on an element."""
    browser.point_at(browser.find("h1"))
    browser.until("return !document.querySelector('.tabulator-tooltip')")
    browser.point_at(browser.find(selector))
    text: str = browser.until("return document.querySelector('.tabulator-tooltip')?.innerText")
    return text


def test_a_row_tells_the_cells_behind_its_numbers(page: Open, pages: Pages) -> None:
    browser = page(pages.small)
    (failed,) = [r for r in rows(browser) if (r["baseline"], r["n"], r["k"]) == ("none", 8, 2)]
    browser.press("/", "none n=8 k=2")
    browser.until("return document.querySelector('#count').textContent.startsWith('1 of')")
    assert browser.find(".badge.failed").text == "1 failed"
    browser.click(f"{GRID} .tabulator-row")
    details = browser.find("#details").text
    for word in ("0-none-8-2-0", "0-none-8-2-1", "failed", "done", "MemoryError", "0123abcd"):
        assert word in details
    assert "torch 2.13.0" in details
    assert "num_loc: 20" in details
    browser.click("#details .cells button")
    assert browser.clipboard() == "maxk-lab show 0-none-8-2-0"
    browser.press("\ue00c")
    assert browser.run("return document.querySelector('#details').open") is False
    assert failed["seeds_finished"] == 1


def test_copies_are_the_view(page: Open, pages: Pages) -> None:
    browser = page(pages.small)
    choose(browser, "baseline", "centred")
    sort(browser, "variance")
    shown = rows(browser)
    browser.click("#copy-csv")
    browser.until("return document.querySelector('#said').textContent.includes('CSV')")
    copied = list(csv.DictReader(io.StringIO(browser.clipboard())))
    assert [row["baseline"] for row in copied] == ["centred"] * len(shown)
    for name in ("variance", "variance_low", "variance_high"):
        assert [float(row[name]) for row in copied] == [row[name] for row in shown]
    browser.click("#copy-latex")
    browser.until("return document.querySelector('#said').textContent.includes('LaTeX')")
    latex = browser.clipboard()
    assert latex.count("\\\\\n") == 1 + len(shown)
    assert latex.index("\\toprule") < latex.index("\\midrule") < latex.index("\\bottomrule")
    assert cells(browser, "variance")[0] in latex


def test_it_goes_without_a_pointer(page: Open, pages: Pages) -> None:
    browser = page(pages.small)
    browser.run("document.querySelector(arguments[0]).focus()", HEADING % "variance")
    browser.press("\ue007")
    assert values(browser, "variance") == ascending(values(browser, "variance"))
    browser.run("document.querySelector(arguments[0]).focus()", f"{GRID} .tabulator-row")
    browser.press("\ue015", "\ue007")
    second = rows(browser)[1]
    assert f"baseline {second['baseline']}" in browser.find("#details-title").text
    browser.press("\ue00c")
    first, other = browser.driver.find_elements("css selector", "[role=tab]")
    browser.run("arguments[0].focus()", first)
    browser.press("\ue014")
    assert other.get_attribute("aria-selected") == "true"
    browser.until("return document.querySelector(arguments[0]).dataset.ready", PANEL)
    assert {row["estimator"] for row in rows(browser)} == {"reinforce", "maxk"}


def test_several_runs_are_in_one_table(page: Open, pages: Pages) -> None:
    browser = page(pages.several)
    assert [one.text for one in browser.driver.find_elements("css selector", "h1")] == [
        "first",
        "second",
    ]
    assert set(values(browser, "run")) == {"first", "second"}
    choose(browser, "run", "second")
    assert set(values(browser, "run")) == {"second"}
    browser.click(f"{GRID} .tabulator-row")
    assert browser.find("#details-title").text.startswith("second: ")


def test_ten_thousand_rows_are_sorted(
    page: Open, pages: Pages, capsys: pytest.CaptureFixture[str]
) -> None:
    browser = page(pages.long)
    assert len(values(browser, "n")) == ROWS
    took = {}
    for name in ("variance", "baseline"):
        took[name] = browser.run(
            TABLE
            + """; const start = performance.now();
            table.setSort(arguments[1], "asc");
            document.querySelector(arguments[0]).getBoundingClientRect();
            return performance.now() - start""",
            GRID,
            name,
        )
        found = values(browser, name)
        assert found == ascending(found)
    with capsys.disabled():
        print(f"\n{ROWS:,} rows sorted in", *(f"{ms:.0f} ms ({by})" for by, ms in took.items()))
