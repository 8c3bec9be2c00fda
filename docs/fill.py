"""Fill the pages that show numbers in from the records of the golden results.

    python docs/fill.py            write README.md and the pages of docs/ that have a template
    python docs/fill.py --check    fail when a page is not what its template and the records say

A page `docs/NAME.md` comes from `docs/templates/NAME.md`, and README.md from its template there.
docs/records.py, comparisons.py and words.py have what a template may ask for.
"""

from __future__ import annotations

import difflib
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import jinja2
from comparisons import COMPARISONS
from records import Golden
from words import WrongReferenceError, between, given, number, span, word

from maxk_lab.own.log import ADVANTAGES, FORMATS, STEPS, TEXTS

ROOT = Path(__file__).resolve().parents[1]
FUNCTIONS = (between, given, *COMPARISONS)


def environment(golden: Golden | None, templates: Path) -> jinja2.Environment:
    """Return what renders the templates: they see the runs, the formats of logs, few functions."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        extensions=["jinja2.ext.do"],
    )
    made.globals |= {one.__name__: one for one in FUNCTIONS}
    made.globals |= {"run": golden, "formats": FORMATS, "texts": TEXTS}
    made.globals |= {"steps": STEPS, "advantages": ADVANTAGES}
    made.filters |= {"number": number, "word": word, "span": span}
    return made


def page_of(template: str) -> Path:
    """Return the page that a template is for."""
    return ROOT / template if template == "README.md" else ROOT / "docs" / template


def pages(golden: Golden) -> Iterator[tuple[Path, str]]:
    """Yield every page and what it should say. Raises where the records do not have it."""
    templates = ROOT / "docs/templates"
    made = environment(golden, templates)
    for name in made.list_templates(extensions=["md"]):
        try:
            yield page_of(name), made.get_template(name).render()
        except (WrongReferenceError, jinja2.TemplateError) as error:
            line = _line(error, templates / name)
            raise SystemExit(f"docs/templates/{name}:{line}: {error}") from error


def _line(error: Exception, template: Path) -> int | None:
    """Return the line of a template at which it failed: jinja writes it into the traceback."""
    steps = traceback.extract_tb(error.__traceback__)
    lines = [step.lineno for step in steps if step.filename == str(template)]
    return lines[0] if lines else getattr(error, "lineno", None)


def main() -> int:
    """Write the pages, or look whether they are as they should be. Returns the exit code."""
    check, stale = "--check" in sys.argv[1:], False
    for page, wanted in pages(Golden()):
        there = page.read_text(encoding="utf-8") if page.is_file() else ""
        if there == wanted:
            continue
        stale = True
        name = str(page.relative_to(ROOT))
        if not check:
            page.write_text(wanted, encoding="utf-8")
            print(f"wrote {name}")
            continue
        lines = difflib.unified_diff(
            there.splitlines(), wanted.splitlines(), name, "what the records say", lineterm="", n=0
        )
        print("\n".join(lines))
    if check and stale:
        print("run: python docs/fill.py (edit docs/templates/, not the pages)", file=sys.stderr)
    return int(check and stale)


if __name__ == "__main__":
    sys.exit(main())
