"""Sweep files that would grow without bound, and values that are none: refused before that."""

from __future__ import annotations

import time

import pytest
from sweep_files import SMALL, Write, problems

from maxk_lab.errors import LabError, shown
from maxk_lab.sweeps.spec.load import load_spec


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000, "1" + ":59" * 2000])
def test_numbers_of_thousands_of_digits(write: Write, number: str) -> None:
    (problem,) = problems(write(SMALL.replace("pool: 16", f"pool: {number}")))
    assert problem.startswith("sweep.yaml:6:9: ")
    assert len(problem) < 300


def test_a_message_quotes_no_more_than_its_reader_reads(write: Write) -> None:
    word = "x" * 100_000
    text = SMALL.replace("pool: 16", f"pool: {word}").replace("small", word) + f"{word[:1000]}: 1\n"
    found = problems(write(text))
    assert len(found) == 3
    assert all(len(problem) < 1000 and "\n" not in problem for problem in found)
    assert "100,002 letters" in found[0]


def test_many_problems_are_told_by_the_first(write: Write) -> None:
    with pytest.raises(LabError) as caught:
        load_spec(write(SMALL + "".join(f"k{i}: 1\n" for i in range(500))))
    lines = str(caught.value).splitlines()
    assert (len(lines), lines[-1]) == (21, "and 480 more problems")


def test_what_python_cannot_write_is_still_shown() -> None:
    assert shown(10**5000) == "a whole number of very many digits"
    assert (
        shown(type("Odd", (), {"__repr__": lambda self: 1 / 0})())
        == "an object of Odd that cannot be shown"
    )
    assert shown("a\nb") == "'a\\nb'"


def test_lengths_that_count_to_no_end_are_not_counted(write: Write) -> None:
    started = time.monotonic()
    for sizes in (
        "toy_llm, max_length: 1000000",
        "toy_llm, prompt_length: 1000000, max_length: 1000000",
        "flp, num_loc: 900000000, to_choose: 800000000",
    ):
        (problem,) = problems(write(SMALL.replace("bandit, arms: 4", sizes)))
        assert "too large for any machine" in problem
    assert time.monotonic() - started < 60


def test_cells_are_counted_before_they_are_made(write: Write) -> None:
    many = ", ".join(map(str, range(1, 301)))
    text = SMALL.replace("n: [4, 8]", f"n: [4, {many}]").replace("k: 2", f"k: [{many}]")
    started = time.monotonic()
    found = problems(write(text))
    assert time.monotonic() - started < 60
    assert found == [
        "sweep.yaml:7:57: gradient.grid.n: the sweep has 180,600 cells of each seed, more than the "
        "50,000 that it may have; 301 values are given here: split the sweep"
    ]


def test_combinations_are_counted_before_they_are_made(write: Write) -> None:
    arms = ", ".join(map(str, range(2, 10_002)))
    text = SMALL + f"vary:\n  policy.dtype: [float32, float64]\n  environment.arms: [{arms}]\n"
    (problem,) = problems(write(text))
    assert problem.startswith("sweep.yaml:10:21: vary.environment.arms: the sweep has 80,000 ")


def test_claims_about_points_are_counted_before_they_are_looked_at(write: Write) -> None:
    claim = "kind: equals, metric: scale, value: 1, tolerance: 1"
    claims = "".join(f"  - {{name: c{i}, {claim}}}\n" for i in range(500))
    sizes = ", ".join(map(str, range(2, 42)))
    text = SMALL.replace("n: [4, 8], k: 2", f"n: [{sizes}], k: [{sizes}]").replace(
        "pool: 16", "pool: 100"
    )
    started = time.monotonic()
    found = problems(write(text + "claims:\n" + claims))
    assert time.monotonic() - started < 60
    assert found == [
        "sweep.yaml:9:3: claims: 500 claims about 1,600 points are more than can be judged; split "
        "the sweep"
    ]


def test_cells_of_all_seeds_are_counted_before_they_are_made(write: Write) -> None:
    seeds = ", ".join(map(str, range(30_000)))
    many = ", ".join(map(str, range(1, 21)))
    text = SMALL.replace("seeds: [0, 1]", f"seeds: [{seeds}]").replace("k: 2", f"k: [{many}]")
    assert f"seeds: [{seeds}]" in text
    started = time.monotonic()
    (problem,) = problems(write(text))
    assert time.monotonic() - started < 60
    assert "seeds: the sweep has 2,400,000 cells, more than the 1,000,000 that it may" in problem
