"""`maxk-lab list runs` as a table, and the runs that it lists, in which order."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest
from click.testing import Result
from written_runs import WriteRun

Lab = Callable[..., Result]


@pytest.fixture
def two(write_run: WriteRun) -> None:
    """Two runs, of which the first one changed last, and one of whose claims nothing is known."""
    for time, (name, words) in enumerate({"old": {"failed": 1}, "new": {"missing": 3}}.items()):
        claim = (
            "[{name: c, kind: unbiased, detectable: 9, where: {baseline: none}}]"
            if name == "old"
            else "[]"
        )
        run, _ = write_run(name, "description=Which one?", f"claims={claim}", **words)
        for path in (run.spec_path, *run.records_path.iterdir()):
            os.utime(path, (1e9 + 60 * time, 1e9 + 60 * time))


def test_a_line_for_every_run_the_newest_first(two: None, lab: Lab) -> None:
    heading, *lines = lab("list", "runs").stdout.splitlines()
    assert heading.split() == [
        *("run", "changed", "done", "failed", "stale", "missing", "verdicts", "size"),
        "description",
    ]
    words = [line.split() for line in lines]
    assert [one[0] for one in words] == ["new", "old"]
    assert [one[3:7] for one in words] == [["5", "·", "·", "3"], ["7", "1", "·", "·"]]
    assert [" ".join(one[7:9]) for one in words] == ["no claims", "not reported"]
    assert all(line.rstrip().endswith("Which one?") for line in lines)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ((), ["new", "old"]),
        (("--sort", "name"), ["new", "old"]),
        (("--sort", "done"), ["old", "new"]),
        (("--sort", "missing"), ["new", "old"]),
        (("o*",), ["old"]),
        (("x*",), []),
    ],
)
def test_runs_are_sorted_and_filtered(
    two: None, lab: Lab, words: tuple[str, ...], names: list[str]
) -> None:
    listed = json.loads(lab("list", "runs", *words, "--json").stdout)
    assert [one["name"] for one in listed] == names


def test_json_has_all_that_is_known(two: None, lab: Lab) -> None:
    new, _ = json.loads(lab("list", "runs", "--json").stdout)
    assert new["changed"] == "2001-09-09T01:47:40Z"
    assert (new["planned"], new["done"], new["missing"], new["verdicts"]) == (8, 5, 3, None)
    assert new["size"] > 1000
