"""The pages of the gallery: what the report of each golden study says, in eight rows or fewer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "results/golden"
# What a table of a page shows at most.
ROWS = 8


@dataclass(frozen=True)
class Study:
    """A golden study: `text` is its report as Markdown, without the escapes of names."""

    name: str
    title: str
    limits: str
    text: str

    @property
    def question(self) -> str:
        """The description of the sweep."""
        return self.text.split("\n\n")[1].partition("  \n")[0]

    @property
    def sweep(self) -> str:
        """The sweep file, as a path in the repository."""
        (path,) = (p for p in (ROOT / "experiments").rglob(f"{self.name}.yaml"))
        return str(path.relative_to(ROOT))

    @property
    def yaml(self) -> str:
        """The sweep file itself."""
        return (ROOT / self.sweep).read_text(encoding="utf-8").rstrip()

    @property
    def answer(self) -> list[str]:
        """The first three sentences of the answer, and the verdicts on the claims."""
        lines = re.findall(r"^(\*\*.*?)(?:  )?$", self._section("Answer"), re.MULTILINE)
        claims = [line for line in lines if line.startswith("**Claims**")]
        return [*[line for line in lines if line not in claims][:3], *claims]

    def _section(self, title: str) -> str:
        """Return the section whose heading is `title`."""
        return self.text.partition(f"\n## {title}\n")[2].partition("\n## ")[0].strip()

    @property
    def table_title(self) -> str:
        """The heading of the last table before the figures, which the page shows."""
        before_figures = self.text.partition("\n## Figures\n")[0]
        return re.findall(r"^## (.*)$", before_figures, re.MULTILINE)[-1]

    def _table(self) -> list[str]:
        section = self._section(self.table_title)
        return re.findall(r"^\|.*\|$", section.partition("\n\n|")[0], re.MULTILINE)

    @property
    def table(self) -> list[str]:
        """The head of this table and at most eight rows."""
        return self._table()[: 2 + ROWS]

    @property
    def legend(self) -> list[str]:
        """The notes of the report about marks and verdicts of the table."""
        notes = self._section(self.table_title).splitlines()
        return [line for line in notes if line.startswith(("lowest:", "close:", "†:"))]

    @property
    def more(self) -> int:
        """How many rows of the table are left out."""
        return max(0, len(self._table()) - 2 - ROWS)

    def _figure(self) -> re.Match[str]:
        match = re.search(r"!\[(.*)\]\((.*)\)\n\n\*\*.*?\*\*\. (.*)", self._section("Figures"))
        if match is None:
            raise SystemExit(f"results/golden/{self.name}/report.md has no figure with a caption")
        return match

    @property
    def chart_title(self) -> str:
        """The title of the first figure."""
        return self._figure()[1]

    @property
    def chart(self) -> str:
        """The path of the first figure from a page of the gallery."""
        return f"../../results/golden/{self.name}/{self._figure()[2]}"

    @property
    def caption(self) -> str:
        """The caption of the first figure: its formula and marks."""
        return self._figure()[3]

    @property
    def report(self) -> str:
        """The path of the report from a page of the gallery."""
        return f"../../results/golden/{self.name}/report.md"


def read_gallery(golden: Path = GOLDEN) -> Mapping[str, list[Study]]:
    """Return the golden studies by their group; a study without a report has no page yet."""
    groups: dict[str, list[Study]] = {}
    listed = yaml.safe_load(Path(__file__).with_name("gallery.yaml").read_text(encoding="utf-8"))
    for group, studies in listed.items():
        for name, (title, limits) in studies.items():
            path = golden / name / "report.md"
            if path.is_file():
                text = path.read_text(encoding="utf-8")
                text = re.sub(r"\\(?=[_\[\]*])", "", text)
                groups.setdefault(group, []).append(Study(name, title, limits, text))
    return groups
