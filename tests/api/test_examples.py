"""docs/notebook.ipynb runs and gives what it shows, and so do the examples of docs/python.md."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from notebooks import code_cells, run_cell, stored_text

DOCS = Path(__file__).parents[2] / "docs"
CELLS = code_cells(DOCS / "notebook.ipynb")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", (DOCS / "python.md").read_text(), re.M | re.S)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder in which the notebook and the examples run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(found := tmp_path_factory.mktemp("notebook"))
        patch.setattr(plt, "show", plt.close)
        yield found


@pytest.fixture(scope="module")
def notebook(folder: Path) -> tuple[dict[str, Any], list[Any]]:
    """The names that the notebook leaves, and the values of its cells."""
    names: dict[str, Any] = {}
    return names, [run_cell(cell, names) for cell in CELLS]


def test_the_notebook_gives_what_it_shows(notebook: tuple[dict[str, Any], list[Any]]) -> None:
    found = [
        (repr(value), stored_text(cell))
        for cell, value in zip(CELLS, notebook[1], strict=True)
        if "compared" in cell["metadata"].get("tags", ())
    ]
    assert len(found) > 4
    for value, stored in found:
        assert value == stored


def test_its_table_agrees_with_the_report_s_csv_to_the_last_digit(
    notebook: tuple[dict[str, Any], list[Any]],
) -> None:
    names = notebook[0]
    variance = names["rows"].query("measure == 'variance'")
    shown = {
        (row.baseline, int(row.k)): (row.value, row.low, row.high) for row in variance.itertuples()
    }
    told = {
        (line["baseline"], int(line["k"])): tuple(
            float(line[f"variance{end}"]) for end in ("", "_low", "_high")
        )
        for line in csv.DictReader(io.StringIO(names["report"].to("csv")))
        if line["baseline"]
    }
    assert len(shown) == 10
    assert shown == told


def test_the_examples_of_the_page_on_python_run(
    folder: Path, notebook: tuple[dict[str, Any], list[Any]]
) -> None:
    # Its sweep file is that of the notebook: nothing is measured again.
    (folder / "sweep.yaml").write_text(json.dumps(notebook[0]["sweep"]))
    names: dict[str, Any] = {}
    for block in BLOCKS:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert len(BLOCKS) > 5
    assert names["run"].ok
    assert names["run"].outcome.done == ()
    assert (folder / "quick-report/report.md").is_file()
    assert names["page"].startswith("# maxk-lab: again compared with notebook")
