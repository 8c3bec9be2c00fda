"""Sweep files that would grow without bound, and values that are none: refused before that."""

from __future__ import annotations

import time

import pytest
from sweep_files import SMALL, Write, problems

from maxk_lab.errors import LabError, shown
from maxk_lab.sweeps.spec.load import load_spec


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
    odd = type("Odd", (), {"__repr__": lambda self: 1 / 0})()
    assert shown(odd) == "an object of Odd that cannot be shown"
    assert shown("a\nb") == "'a\\nb'"


def counted(first: int, last: int) -> str:
    return ", ".join(map(str, range(first, last)))


@pytest.mark.parametrize(
    ("changes", "more", "told"),
    [
        (
            {"n: [4, 8]": f"n: [4, {counted(1, 301)}]", "k: 2": f"k: [{counted(1, 301)}]"},
            "",
            "7:57: gradient.grid.n: the sweep has 180,600 cells of each seed, more than the "
            "50,000 that it may have; 301 values are given here: split the sweep",
        ),
        (
            {},
            "vary:\n  policy.dtype: [float32, float64]\n"
            f"  environment.arms: [{counted(2, 10_002)}]\n",
            "10:21: vary.environment.arms: the sweep has 80,000 cells of each seed, more than the "
            "50,000 that it may have; 10,000 values are given here: split the sweep",
        ),
        (
            {"seeds: [0, 1]": f"seeds: [{counted(0, 30_000)}]", "k: 2": f"k: [{counted(1, 21)}]"},
            "",
            "2:8: seeds: the sweep has 2,400,000 cells, more than the 1,000,000 that it may have; "
            "30,000 values are given here: split the sweep",
        ),
        *(
            ({"bandit, arms: 4": sizes}, "", "too large for any machine")
            for sizes in (
                "toy_llm, max_length: 1000000",
                "toy_llm, prompt_length: 1000000, max_length: 1000000",
                "flp, num_loc: 900000000, to_choose: 800000000",
            )
        ),
    ],
)
def test_what_is_too_much_is_counted_before_it_is_made(
    write: Write, changes: dict[str, str], more: str, told: str
) -> None:
    text = SMALL
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    started = time.monotonic()
    (problem,) = problems(write(text + more))
    assert time.monotonic() - started < 60
    assert told in problem
