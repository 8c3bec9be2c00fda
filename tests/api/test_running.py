"""`maxk_lab.run`: the arguments of the execution, its messages, and the handle that it returns."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import yaml
from sweep_files import SMALL

import maxk_lab
from maxk_lab.execution.run import Outcome
from maxk_lab.sweep_file.load import load_spec


@pytest.fixture
def executed(monkeypatch, tmp_path):
    """The arguments of the execution; `outcome` is the value that it returns."""
    monkeypatch.chdir(tmp_path)
    called = {"outcome": Outcome((), (), (), (), 0.0)}

    def execute(run, **options):
        called.update(options, run=run.folder, cells=run.plan.cells)
        return called["outcome"]

    monkeypatch.setattr("maxk_lab.api.execute", execute)
    return called


def test_sweeps_overrides_and_options_reach_the_execution(small, executed):
    tree = yaml.safe_load(SMALL)
    tree["seeds"] = np.arange(2)
    tree["gradient"]["grid"]["n"] = (np.int64(4), 8)
    maxk_lab.run(Path(small))
    cells = executed["cells"]
    for same in (small, tree, load_spec(small)):
        maxk_lab.run(same)
        assert executed["cells"] == cells
    maxk_lab.run(small, overrides={"gradient.grid.n": [4], "name": "other"}, jobs=3, only="k=2")
    assert (len(executed["cells"]), executed["run"].root) == (4, Path("results/other"))
    assert (executed["jobs"], executed["only"]) == (3, "k=2")
    options = {"overrides": ["gradient.grid.n=[4]"], "shift_seeds": 5, "results": "elsewhere"}
    maxk_lab.run(small, **options, progress=print)
    assert {cell.seed for cell in executed["cells"]} == {5, 6}
    assert (executed["run"].root, executed["on_event"]) == (Path("elsewhere/small"), print)


def test_problems_of_a_dict_have_no_lines(executed):
    tree = yaml.safe_load(SMALL)
    tree["gradient"]["poool"] = tree["gradient"].pop("pool")
    with pytest.raises(ValueError, match=r"gradient\.poool: unknown key") as caught:
        maxk_lab.run(tree, overrides=["seeds", "gradient.instances=3"])
    first, *_, last = str(caught.value).splitlines()
    assert first.startswith("(sweep): gradient.poool: unknown key 'poool' (did you mean pool?)")
    assert last.startswith("--set:1:1: seeds: must read key=value")
    assert "run" not in executed


def test_a_run_is_its_folder_and_warns_about_cells_without_a_result(small, executed):
    executed["outcome"] = Outcome(("a",), ("b",), (), ("c",), 1.0, missing=("d",))
    with pytest.warns(maxk_lab.LabWarning, match="1 cells failed.*1 cells have no record"):
        run = maxk_lab.run(small)
    assert not run.ok
    folder = Path("results/small").absolute()
    assert os.fspath(run) == str(folder)
    assert repr(run) == f"<Run {folder}: 1 measured, 1 already done, 1 failed>"
    for read in (run.load, run.report):
        with pytest.raises(maxk_lab.LabError, match="no runs under results"):
            read()
    executed["outcome"] = Outcome(("a",), (), (), (), 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert maxk_lab.run(small).ok
