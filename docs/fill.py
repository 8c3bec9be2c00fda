"""Fill README.md, docs/files.md and the gallery in from the golden results and the code.

    python docs/fill.py            write the pages
    python docs/fill.py --check    fail when a page is not what its template and the records say

The templates are in docs/templates: README.md, files.md, and gallery.md for every study.
"""

from __future__ import annotations

import difflib
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import findings
import jinja2
import records
from studies import read_gallery

from maxk_lab.own.log import ADVANTAGES, FORMATS, STEPS, TEXTS

ROOT = Path(__file__).resolve().parents[1]


def environment(templates: Path) -> jinja2.Environment:
    """Return what renders the templates: they see the records, and the formats of logs."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        extensions=["jinja2.ext.do"],
    )
    made.globals |= vars(records) | vars(findings)
    made.globals |= {"formats": FORMATS, "texts": TEXTS, "steps": STEPS, "advantages": ADVANTAGES}
    return made


def pages() -> Iterator[tuple[Path, str]]:
    """Yield every page and what it should say. Raises where the records do not have it."""
    templates = ROOT / "docs/templates"
    groups = read_gallery()
    renders = [("README.md", ROOT / "README.md", {}), ("files.md", ROOT / "docs/files.md", {})]
    renders.append(("gallery_index.md", ROOT / "docs/gallery/index.md", {"groups": groups}))
    for name in ("selection.md", "more_samples_or_prompts.md"):
        renders.append((name, ROOT / "docs/explanation" / name, {}))
    for study in (study for studies in groups.values() for study in studies):
        page = ROOT / "docs/gallery" / f"{study.name}.md"
        renders.append(("gallery.md", page, {"study": study}))
    for name, page, values in renders:
        try:
            yield page, environment(templates).get_template(name).render(values)
        except (records.WrongReferenceError, jinja2.TemplateError) as error:
            line = _line(error, templates / name)
            raise SystemExit(f"docs/templates/{name}:{line}: {error}") from error


def _line(error: Exception, template: Path) -> int | None:
    """Return the line of a template at which it failed: jinja writes it into the traceback."""
    steps = traceback.extract_tb(error.__traceback__)
    lines = [step.lineno for step in steps if step.filename == str(template)]
    return lines[0] if lines else getattr(error, "lineno", None)


def main() -> int:
    """Write the pages, or compare them with what they should be. Returns the exit code."""
    check, stale = "--check" in sys.argv[1:], False
    for page, text in pages():
        written = page.read_text(encoding="utf-8") if page.is_file() else ""
        if written == text:
            continue
        stale = True
        name = str(page.relative_to(ROOT))
        if not check:
            page.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
            continue
        lines = difflib.unified_diff(
            written.splitlines(), text.splitlines(), name, "what the records say", lineterm="", n=0
        )
        print("\n".join(lines))
    if check and stale:
        print("run: python docs/fill.py (edit docs/templates/, not the pages)", file=sys.stderr)
    return int(check and stale)


if __name__ == "__main__":
    sys.exit(main())
