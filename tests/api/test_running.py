"""`maxk_lab.run`: what it hands on to the execution, what it says, and the handle it returns."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from sweep_files import SMALL

import maxk_lab
from maxk_lab.execution.run import Outcome, Run
from maxk_lab.sweep_file.load import load_spec

Called = dict[str, Any]


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Called:
    """What the execution was called with; `outcome` is what it returns."""
    monkeypatch.chdir(tmp_path)
    called: Called = {"outcome": Outcome((), (), (), (), 0.0)}

    def execute(run: Run, **options: Any) -> Outcome:
        called.update(options, plan=run.plan, run=run.folder)
        outcome: Outcome = called["outcome"]
        return outcome

    monkeypatch.setattr("maxk_lab.api.execute", execute)
    return called


def ids(called: Called) -> list[str]:
    return [cell.id for cell in called["plan"].cells]


def test_a_file_a_dict_and_a_spec_are_the_same_sweep(small: str, executed: Called) -> None:
    maxk_lab.run(Path(small))
    found = ids(executed)
    tree = yaml.safe_load(SMALL)
    tree["seeds"] = np.arange(2)
    tree["gradient"]["grid"]["n"] = (np.int64(4), 8)
    for same in (small, tree, load_spec(small)):
        maxk_lab.run(same)
        assert ids(executed) == found
    assert executed["run"].root == Path("results/small")


def test_overrides_and_options_reach_the_execution(small: str, executed: Called) -> None:
    maxk_lab.run(small, overrides={"gradient.grid.n": [4], "name": "other"}, jobs=3, only="k=2")
    assert len(ids(executed)) == 4
    assert executed["run"].root == Path("results/other")
    assert (executed["jobs"], executed["only"]) == (3, "k=2")
    maxk_lab.run(small, overrides=["gradient.grid.n=[4]"], shift_seeds=5, results="elsewhere")
    assert {cell.seed for cell in executed["plan"].cells} == {5, 6}
    assert executed["run"].root == Path("elsewhere/small")
    maxk_lab.run(small, progress=print)
    assert executed["on_event"] == print


def test_problems_of_a_dict_are_told_without_lines(executed: Called) -> None:
    tree = yaml.safe_load(SMALL)
    tree["gradient"]["poool"] = tree["gradient"].pop("pool")
    with pytest.raises(ValueError, match=r"gradient\.poool: unknown key") as caught:
        maxk_lab.run(tree, overrides=["seeds", "gradient.instances=3"])
    first, *_, last = str(caught.value).splitlines()
    assert first.startswith("(sweep): gradient.poool: unknown key 'poool' (did you mean pool?)")
    assert last.startswith("--set:1:1: seeds: must read key=value")
    assert "run" not in executed


@pytest.mark.parametrize(
    ("spec", "overrides", "said"),
    [
        (3, (), "spec must be .*, got 3"),
        ({"name": object()}, (), "a sweep is made of plain values"),
        ({}, "seeds=[0]", "overrides must be Mapping"),
        ({}, {"seeds": object()}, "overrides must be plain values"),
        ("nowhere.yaml", (), "nowhere.yaml does not exist"),
    ],
)
def test_what_cannot_be_used_is_a_mistake(
    spec: Any, overrides: Any, said: str, executed: Called
) -> None:
    with pytest.raises(maxk_lab.MistakeError, match=said):
        maxk_lab.run(spec, overrides=overrides)


def test_cells_without_a_result_are_warned_of(small: str, executed: Called) -> None:
    executed["outcome"] = Outcome(("a",), ("b",), (), ("c",), 1.0, missing=("d",))
    with pytest.warns(maxk_lab.LabWarning, match="1 cells failed.*1 cells have no record"):
        run = maxk_lab.run(small)
    assert not run.ok
    folder = Path("results/small").absolute()
    assert repr(run) == f"<Run {folder}: 1 measured, 1 already done, 1 failed>"
    executed["outcome"] = Outcome(("a",), (), (), (), 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert maxk_lab.run(small).ok


def test_a_run_stands_for_its_folder(small: str, executed: Called) -> None:
    executed["outcome"] = Outcome((), (), (), (), 0.0)
    run = maxk_lab.run(small)
    assert os.fspath(run) == str(Path("results/small").absolute())
    for read in (run.load, run.report):
        with pytest.raises(maxk_lab.LabError, match="no runs under results"):
            read()
