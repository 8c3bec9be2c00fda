"""Mutants of every experiment are refused at the line of the fault, or can run."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml

from maxk_lab.errors import LabError, SpecError
from maxk_lab.planning.plan import Plan, make_plan
from maxk_lab.sweep_file.load import load_spec
from maxk_lab.sweep_file.studies import STUDIES

ROOT = Path(__file__).resolve().parents[2]
SEEDS = sorted((ROOT / "experiments").rglob("*.yaml"))
# The number of mutants at scale 1 that are validated, and that are measured.
ROUNDS, MEASURED = 500, 3
# A unit with a larger size is not measured.
LARGEST = 2000
# The least share of mutants with a known line of the fault that report this line.
RIGHT_LINE = 0.99
# The most seconds of a validation, and the timeout of any call.
SLOW, HANGS = 5.0, 60.0
LONGEST_LINE, MOST_LINES = 2000, 21


@dataclass(frozen=True)
class Mutant:
    """A changed sweep file; `lines` are the lines of its fault, empty if they are unknown.

    The lines are known for an invalid value and for an unknown key. If a key is missing or has
    another valid value, a conflict may be reported at another line.
    """

    seed: Path
    what: str
    text: str
    lines: tuple[int, ...] = ()


# Values that no setting accepts, except settings for any text or list.
WRONG = (
    *("null", "x y", "[]", "{}", "[[1]]", "{a: {b: 1}}", "[null]", "''", "'naïve ∞ 漢字 \\'"),
    *("1e300", "-1e300", ".inf", "-.inf", ".nan", "4000000000000000000", "-1000000000000000000"),
    *("[.inf]", "[.nan, 1]", "[-5]", "{.inf: 1}", "2001-12-14", "!!binary aGk=", "!!set {a}"),
    *("!!python/object/apply:os.getcwd []", "*nowhere", "${oc.env:HOME}", "${nowhere}", "${"),
    *("'${oc.decode:1}'", "[" * 60 + "]" * 60, "x" * 5_000, '"\\ud800"', "!!int x"),
    *("[*nowhere]", "&a [*a]", "@x", "`x`", "%x", "? x", "|\n", "true", "[yes, no]"),
)
# Values that some settings accept.
OTHER = ("0", "1", "-1", "2", "3", "0.5", "1.5", "7", "64", "1000", "10000000", "none", "auto", "~")
JUNK = ("}\n", "]\n", "x\n", "- x\n", "? x\n", "\t\n", "...\nx: 1\n", "---\na: 1\n", "x: &x\n")
LETTERS = "\0\xff:{}[],&*#?|-<>=!%@`'\"\\ \n\t0aZ~\x80é"

# The description of a change, the changed text, and the lines of the fault.
Made = tuple[str, str, tuple[int, ...]]
Kind = Callable[[random.Random, str, "Place"], Made]


@dataclass(frozen=True)
class Place:
    """A key and its value in a seed, with the positions of their text."""

    key: yaml.ScalarNode
    value: yaml.Node
    block: bool

    @property
    def lines(self) -> tuple[int, int]:
        return self.key.start_mark.line + 1, self.value.start_mark.line + 1


def places(node: yaml.Node) -> Iterator[Place]:
    """Yield every key of a sweep file with its value, also in nested mappings and lists."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield Place(key, value, not node.flow_style)
            yield from places(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from places(value)


def mutants(dice: random.Random, seeds: list[Path]) -> Iterator[Mutant]:
    """Yield mutants of the seeds in turn, endlessly."""
    texts = {seed: seed.read_text(encoding="utf-8") for seed in seeds}
    keys = {seed: [*places(yaml.compose(text, yaml.SafeLoader))] for seed, text in texts.items()}
    while True:
        for seed, text in texts.items():
            yield Mutant(seed, *dice.choice(KINDS)(dice, text, dice.choice(keys[seed])))


def _replaced(text: str, node: yaml.Node, new: str) -> str:
    start, end = node.start_mark.index, node.end_mark.index
    # The text of a block includes its last newline.
    tail = "\n" if text[start:end].endswith("\n") else ""
    return text[:start] + new + tail + text[end:]


def _wrong_value(dice: random.Random, text: str, place: Place) -> Made:
    value = dice.choice(WRONG)
    what = f"{place.key.value}: {value[:40]}"
    return what, _replaced(text, place.value, value), place.lines


def _other_value(dice: random.Random, text: str, place: Place) -> Made:
    value = dice.choice(OTHER)
    return f"{place.key.value}: {value}", _replaced(text, place.value, value), ()


def _renamed(dice: random.Random, text: str, place: Place) -> Made:
    name = dice.choice([f"{place.key.value}x", f"x{place.key.value}", "ключ", "a b", "1", "null"])
    what = f"{place.key.value} called {name}"
    return what, _replaced(text, place.key, name), place.lines[:1]


def _left_out(dice: random.Random, text: str, place: Place) -> Made:
    start, end = place.key.start_mark.index, place.value.end_mark.index
    rest = text[end:].lstrip(" ,") if not place.block else text[end:]
    return f"without {place.key.value}", text[:start] + rest, ()


def _doubled(dice: random.Random, text: str, place: Place) -> Made:
    start, end = place.key.start_mark.index, place.value.end_mark.index
    pair = text[start:end].rstrip()
    between = "\n" + " " * place.key.start_mark.column if place.block else ", "
    changed = text[:start] + pair + between + pair + text[start + len(pair) :]
    line = place.lines[0] + pair.count("\n") + place.block
    return f"{place.key.value} twice", changed, (line,)


def _nested(dice: random.Random, text: str, place: Place) -> Made:
    value = text[place.value.start_mark.index : place.value.end_mark.index]
    if "\n" in value.strip():
        return _wrong_value(dice, text, place)
    form = dice.choice(["{{inside: {}}}", "[[{}]]", "{{{}: 1}}"])
    return (
        f"{place.key.value} nested",
        _replaced(text, place.value, form.format(value)),
        place.lines,
    )


def _with_junk(dice: random.Random, text: str, place: Place) -> Made:
    junk = dice.choice(JUNK)
    return f"with {junk!r}", text + junk, ()


def _scrambled(dice: random.Random, text: str, place: Place) -> Made:
    for _ in range(dice.choice([1, 1, 2, 5, 50])):
        at, letter = dice.randrange(len(text)), dice.choice(LETTERS)
        gone = dice.choice([0, 1, 1, 20])
        text = text[:at] + (letter if gone < 2 else "") + text[at + gone :]
    return "scrambled", text, ()


KINDS: tuple[Kind, ...] = (
    *(_wrong_value, _wrong_value, _wrong_value, _wrong_value, _other_value, _other_value),
    *(_renamed, _left_out, _doubled, _nested, _with_junk, _scrambled),
)


class TooLongError(BaseException):
    """A call timed out. It is a `BaseException`, so that `except Exception` does not catch it."""


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def planned(mutant: Mutant, folder: Path) -> Plan | LabError | str:
    """Return the plan of a mutant or its refusal; a text describes a crash or a bad refusal."""
    path, started = folder / "mutant.yaml", time.monotonic()
    path.write_text(mutant.text, encoding="utf-8")
    try:
        with limit(HANGS):
            plan = make_plan(load_spec(path))
    except LabError as error:
        lines = str(error).splitlines()
        if len(lines) > MOST_LINES or max(map(len, lines)) > LONGEST_LINE:
            return f"{len(lines)} lines, the longest of {max(map(len, lines))}"
        return error
    except BaseException as error:
        return f"{type(error).__name__} {str(error)[:200]}"
    seconds = time.monotonic() - started
    return plan if seconds < SLOW else f"{seconds:.0f} s"


def test_mutants_are_refused_where_they_are_wrong_or_can_be_planned(
    dice: random.Random, attack_scale: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    for seed in SEEDS:  # import the modules first, so that imports do not count as time
        load_spec(seed)
    of_one_line, wrong, elsewhere = 0, list[str](), list[str]()
    for mutant in islice(mutants(dice, SEEDS), ROUNDS * attack_scale):
        answer, what = planned(mutant, tmp_path), f"{mutant.seed.name}, {mutant.what}"
        if isinstance(answer, str):
            wrong.append(f"{what}: {answer}")
        elif mutant.lines and isinstance(answer, SpecError):
            of_one_line += 1
            if {problem.line for problem in answer.problems}.isdisjoint(mutant.lines):
                elsewhere.append(f"{what} (line {mutant.lines}): {str(answer)[:300]}")
    assert not wrong
    assert len(elsewhere) <= (1 - RIGHT_LINE) * of_one_line, "\n".join(elsewhere)


def sizes(value: Any) -> Iterator[int]:
    """Yield the whole numbers of a unit, without its seed."""
    if isinstance(value, dict):
        for key in value.keys() - {"seed"}:
            yield from sizes(value[key])
    elif type(value) is int:
        yield value


def measured(plan: Plan) -> Iterator[Any]:
    """Measure a small unit of each kind in this process; yield the results of its cells."""
    for kind in plan.spec.studies:
        units = [unit for unit in plan.units if unit.study == kind and unit.cells]
        for unit in [unit for unit in units if max(sizes(unit.as_dict())) <= LARGEST][:1]:
            cells = [cell.as_dict() for cell in unit.cells[:20]]
            measure = STUDIES.get(kind).load_module("work").measure
            results = measure(unit.as_dict(), cells, cache=None, event=lambda *_: None)
            yield from dict(results).values()


@pytest.mark.deep
@pytest.mark.timeout(3600)
def test_accepted_mutants_run(
    dice: random.Random, attack_scale: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    endless = mutants(dice, [seed for seed in SEEDS if seed.parent.name == "ci"])
    answers = ((mutant, planned(mutant, tmp_path)) for mutant in endless)
    accepted = ((mutant, plan) for mutant, plan in answers if isinstance(plan, Plan))
    failed = []
    for mutant, plan in islice(accepted, MEASURED * attack_scale):
        try:
            with limit(HANGS):
                results = list(measured(plan))
        except TooLongError:
            continue
        failed += [
            f"{mutant.seed.name}, {mutant.what}: {type(result).__name__} {str(result)[:300]}"
            for result in results
            if isinstance(result, BaseException)
        ]
    assert not failed, "\n".join(failed)
