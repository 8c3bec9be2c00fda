"""A removed verb, option, key or row exits with 2 and one line that says what to use instead."""

import pytest
from sweep_files import problems

from maxk_lab import removed
from maxk_lab.catalogue import Catalogue, Row
from maxk_lab.planning.identity import with_removed_defaults

SWEEP = """\
name: old
seeds: 1
environment: {name: toy_llm}
training:
  evaluate: {every: 1, instances: 4, samples: 4}
  grid: {estimator: maxk, baseline: none, n: 4, k: 2, with: {steps: 2}}
claims: [{name: c, kind: equals, metric: variance, value: 0, tolerance: 1}]
"""
# Where a sweep file names a row of each kind.
PLACES = {
    "environment": "environment.name",
    "estimator": "training.grid.estimator",
    "baseline": "training.grid.baseline",
    "measure": "claims.0.metric",
    "task": "environment.task",
    "reward function": "environment.rewards",
    "Gaussian reward": "environment.reward",
}


@pytest.mark.parametrize("words", [*removed.VERBS, *removed.OPTIONS])
def test_a_removed_verb_or_option_exits_with_2(lab, words):
    result = lab(*words.split())
    name, advice = words.split()[-1], {**removed.VERBS, **removed.OPTIONS}[words]
    what = f"maxk-lab {words}" if words in removed.VERBS else name
    assert (result.exit_code, result.stderr) == (2, f"error: {what} was removed: {advice}\n")


def test_a_removed_key_value_or_row_is_a_problem_of_its_place(write):
    path = write(SWEEP)
    lines = problems(path, *(f"{key}=1" for key in removed.KEYS))
    for key, advice in removed.KEYS.items():
        assert [line for line in lines if line.endswith(f" {key}: was removed: {advice}")], key
    for setting, advice in removed.VALUES.items():
        value = setting.partition("=")[2]
        lines = problems(path, setting)
        assert [line for line in lines if line.endswith(f"{value} was removed: {advice}")], setting
    for (kind, name), advice in removed.ROWS.items():
        other = ("environment={name: gaussian}",) if kind == "Gaussian reward" else ()
        lines = problems(path, *other, f"{PLACES[kind]}={name}")
        assert [line for line in lines if f"{kind} {name!r} was removed: {advice}" in line], name


def test_a_removed_row_of_any_catalogue_says_what_to_use(monkeypatch):
    monkeypatch.setattr(removed, "ROWS", {("gadget", "old"): "use new"})
    row = Row(name="new", meaning="", implementation="")
    with pytest.raises(ValueError, match=r"gadget 'old\[3\]' was removed: use new"):
        Catalogue("gadget", [row], "maxk_lab.gadgets").get("old[3]")


def test_removed_settings_are_hashed_at_their_old_defaults():
    block = {"a": 1, "inner": {"b": 2}}
    defaults = {"training.c": 3, "training.inner.d": 4, "training.inner.b": 5, "other.e": 6}
    restored = {"a": 1, "inner": {"b": 2, "d": 4}, "c": 3}
    assert with_removed_defaults(block, "training", defaults) == restored
    assert block == {"a": 1, "inner": {"b": 2}}
