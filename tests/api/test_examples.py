"""docs/notebook.ipynb gives the outputs that it shows, and the examples of docs/python.md run."""

import ast
import csv
import io
import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from maxk_lab.reports.charts import Figure

DOCS = Path(__file__).parents[2] / "docs"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", (DOCS / "python.md").read_text(), re.M | re.S)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked")]


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """The names that the notebook leaves, in the folder where it ran; `compared` has its values."""
    content = json.loads((DOCS / "notebook.ipynb").read_text(encoding="utf-8"))
    names = {"compared": []}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("notebook"))
        patch.setattr(plt, "show", plt.close)
        # Drawing takes seconds, and tests/reports draws.
        patch.setattr(Figure, "write", lambda figure, folder: [folder / f"{figure.name}.png"])
        for cell in content["cells"]:
            if cell["cell_type"] == "code":
                value = run_cell(cell, names)
                if "compared" in cell["metadata"].get("tags", ()):
                    (output,) = cell["outputs"]
                    names["compared"].append((repr(value), "".join(output["data"]["text/plain"])))
        yield names


def run_cell(cell, names):
    """Run a cell, and return the value of its last line, as Jupyter does."""
    tree = ast.parse("".join(cell["source"]))
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "a cell", "exec"), names)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), "a cell", "eval"), names)
    return None


def test_the_notebook_gives_the_outputs_that_it_shows(names):
    assert len(names["compared"]) > 4
    for value, stored in names["compared"]:
        assert value == stored
    # Its table agrees with the CSV of the report to the last digit.
    variance = names["rows"].query("measure == 'variance'")
    lines = csv.DictReader(io.StringIO(names["report"].to("csv")))
    table = {(line["baseline"], line["k"]): line for line in lines if line["baseline"]}
    assert len(variance) == len(table) == 10
    for row in variance.itertuples():
        line = table[row.baseline, str(int(row.k))]
        ends = [float(line[f"variance{end}"]) for end in ("", "_low", "_high")]
        assert ends == [row.value, row.low, row.high]


def test_the_examples_of_the_page_on_python_run(names):
    # The sweep of the notebook: nothing is measured again.
    Path("sweep.yaml").write_text(json.dumps(names["sweep"]))
    page = {}
    for block in BLOCKS:
        exec(compile(block, "docs/python.md", "exec"), page)
    assert len(BLOCKS) > 5
    assert page["run"].ok
    assert page["run"].outcome.done == ()
    assert Path("quick-report/report.md").is_file()
    assert page["page"].startswith("# maxk-lab: again compared with notebook")
