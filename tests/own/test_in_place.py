"""Estimators and baselines named in place, in sweeps and in Python."""

import sys

import pytest
import torch
from typer.testing import CliRunner

from maxk_lab import advantages, load
from maxk_lab.cli import app
from maxk_lab.errors import LabError
from maxk_lab.estimators.catalogue import choose_baseline
from maxk_lab.estimators.method import Method

MODULE = '''
from maxk_lab import advantages
from maxk_lab.estimators import baseline, estimator, lines

IMPORTED = print("imported")

def at_two(n, k):
    """K = 2"""
    return k == 2

@baseline(where=lambda n, k: 1 <= k < n - 1)
def half_centred(rewards, k):
    """Half of what centred subtracts."""
    return (advantages(rewards, k=k) + advantages(rewards, k=k, baseline="none")) / 2

def plain(rewards, k):
    return advantages(rewards, k=k)

@estimator()
def doubled(rewards, k):
    return 2 * advantages(rewards, k=k)

def wrong(rewards, k):
    return rewards[..., :1]

@baseline()
def line(n, k):
    return lines.score(n, k)
'''
pytestmark = pytest.mark.usefixtures("forked")
SWEEP = """
name: own
description: functions in place
seeds: [0]
environment: {name: bandit, arms: 5}
gradient:
  instances: 3
  pool: 32
  complete: true
  grid:
    - estimator: maxk
      baseline: [centred, "mine_in_place:half_centred", "mine_in_place:plain"]
      n: 4
      k: [2, 3]
    - {estimator: "mine_in_place:doubled", baseline: none, n: 4, k: 2}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "mine_in_place.py").write_text(MODULE)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("mine_in_place", None)


def maxk_lab(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_plan_reads_where_it_runs_and_imports_nothing(folder):
    said = maxk_lab("plan", "sweep.yaml")
    assert said.exit_code == 0
    assert "mine_in_place:half_centred needs 1 <= K < n - 1, got K = 3 and n = 4" in said.output
    assert f"mine_in_place:plain is in {folder / 'mine_in_place.py'}" in said.output
    assert "imported" not in said.output
    assert "mine_in_place" not in sys.modules


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("at_two", "half_centred does not run at K = 3 and n = 4"),
        ("lambda n, k: k <= abs(2)", "half_centred does not run at K = 3 and n = 4"),
        ('"1 <= K < n"', "where must be a function of n and K, such as lambda n, k: 1 <= k < n"),
    ],
)
def test_where_is_a_function(folder, where, problem):
    """One that uses names of its module is asked there, and a text is refused."""
    module = MODULE.replace("lambda n, k: 1 <= k < n - 1", where).replace('    """K = 2"""\n', "")
    name = f"where_{abs(hash(where))}"  # a plan of this process does not read a module twice
    (folder / f"{name}.py").write_text(module)
    (folder / "sweep.yaml").write_text(SWEEP.replace("mine_in_place", name))
    said = maxk_lab("plan", "sweep.yaml")
    assert problem in " ".join(said.output.split())


def test_a_module_that_is_nowhere_is_refused_with_its_place(folder):
    (folder / "sweep.yaml").write_text(SWEEP.replace("mine_in_place:plain", "nowhere:plain"))
    said = maxk_lab("plan", "sweep.yaml")
    assert said.exit_code == 2
    assert "gradient.grid.0.baseline.2: cannot load nowhere:plain" in said.output
    assert "sweep.yaml:12" in said.output


@pytest.mark.slow
def test_a_sweep_measures_them_and_what_they_are_made_of(folder):
    assert maxk_lab("run", "sweep.yaml", "--results", "results").exit_code == 0
    table = load("own", results="results")
    variance = table[table.measure == "variance"].set_index(["estimator", "baseline", "k"]).value
    same = variance["maxk", "mine_in_place:plain"]
    assert same.to_dict() == pytest.approx(variance["maxk", "centred"].to_dict(), rel=1e-9)
    doubled = variance["mine_in_place:doubled", "none", 2]
    assert doubled == pytest.approx(4 * variance["maxk", "centred", 2], rel=1e-9)
    assert "half_centred" in maxk_lab("report", "own", "--results", "results", "--full").output
    before = maxk_lab("plan", "sweep.yaml", "--results", "results").output
    assert "0 missing" in before
    (folder / "mine_in_place.py").write_text(MODULE.replace("return 2 *", "return 3 *"))
    assert "0 missing" not in maxk_lab("plan", "sweep.yaml", "--results", "results").output


def test_weights_of_a_function_itself_and_by_name(folder):
    rewards = torch.randn(3, 6, dtype=torch.float64)

    def mine(rewards, k):
        return advantages(rewards, k=k, baseline="subloo")

    assert torch.equal(advantages(rewards, k=2, baseline=mine), mine(rewards, 2))
    by_name = advantages(rewards, k=2, baseline="mine_in_place:plain")
    torch.testing.assert_close(by_name, advantages(rewards, k=2))
    by_line = advantages(rewards, k=2, baseline="mine_in_place:line")
    torch.testing.assert_close(by_line, advantages(rewards, k=2, baseline="none"))
    with pytest.raises(LabError, match=r"gives shape \[3, 1\] for rewards of shape \[3, 6\]"):
        advantages(rewards, k=2, baseline="mine_in_place:wrong")


def test_nothing_is_said_of_a_bias_that_nobody_derived(folder):
    method = Method.parse("maxk", "mine_in_place:half_centred", 2)
    assert not method.is_unbiased
    assert method.catalogue_order > Method.parse("maxk", "subloo", 2).catalogue_order
    condition = choose_baseline("mine_in_place:half_centred").row.condition
    assert "maxk-lab check mine_in_place:half_centred" in condition


def test_a_decorated_function_is_checked_as_it_is(folder):
    said = maxk_lab("check", "mine_in_place:half_centred", "--k", 2)
    assert said.exit_code == 0
    assert "unbiased for the gradient of J_2" in said.output
