"""The pictures of a report as a page in the docs, from golden results in a headless Chromium.

    python benchmarks/screenshots.py               docs/report_desktop.png, docs/report_phone.png
    python benchmarks/screenshots.py --into DIR    elsewhere, and the pages beside them

They are to be taken again where the page, or what these results say, has changed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/fixtures")]

# The picture, the golden result in it, the size of the window, and where the page is scrolled to.
PICTURES = {
    "report_desktop": ("tsp_sweep", (1280, 1600), "body"),
    "report_phone": ("tsp_training", (390, 1100), "#figures"),
}


def main() -> None:
    """Write the pages, open each and write what is to be seen."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--into", type=Path, help="the folder; docs/ if left out")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        take(arguments.into or ROOT / "docs", arguments.into or Path(folder))


def take(into: Path, pages: Path) -> None:
    """Take the pictures, from pages that are written to their own folder."""
    from chromium import found_browser
    from golden import bundle_of, with_fewer_colours

    from maxk_lab.report.formats.html.page import html
    from maxk_lab.report.report import Report
    from maxk_lab.report.summarise import summarise
    from maxk_lab.sweeps.run.find import find_run

    with tempfile.TemporaryDirectory() as profile, found_browser(Path(profile)) as browser:
        for picture, (name, size, place) in PICTURES.items():
            page = pages / f"{name}.html"
            page.write_text(html(Report(summarise(find_run(bundle_of(name))))), encoding="utf-8")
            browser.cdp("Emulation.setScrollbarsHidden", hidden=True)
            browser.open(page, size=size)
            browser.until("return document.documentElement.dataset.ready")
            browser.until(
                """const place = document.querySelector(arguments[0]);
                place.scrollIntoView();
                const near = [...document.querySelectorAll(".plot")].filter((plot) => {
                  const box = plot.getBoundingClientRect();
                  return box.top < innerHeight && box.bottom > 0;
                });
                return near.every((plot) => plot.querySelector(".main-svg, img"))""",
                place,
            )
            target = into / f"{picture}.png"
            browser.picture(target)
            target.write_bytes(with_fewer_colours(target))
            print(f"{target}: {target.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
