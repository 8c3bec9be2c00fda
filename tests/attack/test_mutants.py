"""Mutants of every experiment are refused at the line of the fault, or can run."""

import difflib
import signal
import time
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from maxk_lab.errors import LabError, SpecError
from maxk_lab.planning.plan import Plan, make_plan
from maxk_lab.sweep_file.load import load_spec
from maxk_lab.sweep_file.studies import STUDIES

ROOT = Path(__file__).resolve().parents[2]
SEEDS = sorted((ROOT / "experiments").rglob("*.yaml"))
# To plan a sweep with a checkpoint imports RL4CO, which takes longer than all mutants.
QUICK_SEEDS = [seed for seed in SEEDS if "policy.checkpoint" not in seed.read_text("utf-8")]
# The number of mutants at scale 1 that are validated, and that are measured.
ROUNDS, MEASURED = 500, 3
# A unit with a larger number is not measured.
LARGEST = 2000
# The least share of mutants with a known line of the fault that report this line.
RIGHT_LINE = 0.99
# The most seconds of a validation, and the timeout of any call.
SLOW, HANGS = 5, 60
LONGEST_LINE, MOST_LINES = 2000, 21

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


class Place(NamedTuple):
    """A key and its value in a seed, with the positions of their text."""

    key: yaml.ScalarNode
    value: yaml.Node
    block: bool

    @property
    def span(self):
        return self.key.start_mark.index, self.value.end_mark.index

    @property
    def lines(self):
        return self.key.start_mark.line + 1, self.value.start_mark.line + 1


def places(node):
    """Yield every key of a sweep file with its value, also in nested mappings and lists."""
    for item in node.value if isinstance(node, yaml.CollectionNode) else ():
        if isinstance(node, yaml.MappingNode):
            yield Place(*item, not node.flow_style)
        yield from places(item[1] if isinstance(node, yaml.MappingNode) else item)


def _replaced(text, node, new):
    start, end = node.start_mark.index, node.end_mark.index
    # The text of a block includes its last newline.
    tail = "\n" if text[start:end].endswith("\n") else ""
    return text[:start] + new + tail + text[end:]


def _wrong_value(dice, text, place):
    return _replaced(text, place.value, dice.choice(WRONG)), place.lines


def _other_value(dice, text, place):
    return _replaced(text, place.value, dice.choice(OTHER)), ()


def _renamed(dice, text, place):
    name = dice.choice([f"{place.key.value}x", f"x{place.key.value}", "ключ", "a b", "1", "null"])
    return _replaced(text, place.key, name), place.lines[:1]


def _left_out(dice, text, place):
    start, end = place.span
    return text[:start] + (text[end:] if place.block else text[end:].lstrip(" ,")), ()


def _doubled(dice, text, place):
    start, end = place.span
    pair = text[start:end].rstrip()
    between = "\n" + " " * place.key.start_mark.column if place.block else ", "
    changed = text[:start] + pair + between + pair + text[start + len(pair) :]
    return changed, (place.lines[0] + pair.count("\n") + place.block,)


def _nested(dice, text, place):
    value = text[place.value.start_mark.index : place.value.end_mark.index]
    form = dice.choice(["{{inside: {}}}", "[[{}]]", "{{{}: 1}}"])
    new = form.format(value) if "\n" not in value.strip() else dice.choice(WRONG)
    return _replaced(text, place.value, new), place.lines


def _with_junk(dice, text, place):
    return text + dice.choice(JUNK), ()


def _scrambled(dice, text, place):
    for _ in range(dice.choice([1, 1, 2, 5, 50])):
        at, letter = dice.randrange(len(text)), dice.choice(LETTERS)
        gone = dice.choice([0, 1, 1, 20])
        text = text[:at] + (letter if gone < 2 else "") + text[at + gone :]
    return text, ()


# Each returns the changed text, and the lines of its fault. They are known for an invalid value and
# an unknown key. If a key is missing or has another valid value, a conflict is reported elsewhere.
KINDS = (
    *(_wrong_value, _wrong_value, _wrong_value, _wrong_value, _other_value, _other_value),
    *(_renamed, _left_out, _doubled, _nested, _with_junk, _scrambled),
)


def answers(dice, seeds, folder):
    """Yield the difference, the answer and the fault's lines of mutants of the seeds, endlessly."""
    texts = {seed: seed.read_text(encoding="utf-8") for seed in seeds}
    keys = {seed: [*places(yaml.compose(text, yaml.SafeLoader))] for seed, text in texts.items()}
    while True:
        for seed, text in texts.items():
            changed, lines = dice.choice(KINDS)(dice, text, dice.choice(keys[seed]))
            difference = difflib.unified_diff(text.splitlines(), changed.splitlines(), seed.name)
            (folder / "mutant.yaml").write_text(changed, encoding="utf-8")
            yield "\n".join(difference)[:1000], planned(folder / "mutant.yaml"), lines


class TooLongError(BaseException):
    """A call timed out. It is a `BaseException`, so that `except Exception` does not catch it."""


@contextmanager
def limit(seconds):
    def stop(*_):
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def planned(path):
    """Return the plan of a sweep or its refusal; a text describes a crash or a bad refusal."""
    started = time.monotonic()
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
    dice, attack_scale, tmp_path, monkeypatch
):
    monkeypatch.chdir(ROOT)
    seeds = SEEDS if attack_scale > 1 else QUICK_SEEDS
    for seed in seeds:  # import the modules first, so that imports do not count as time
        load_spec(seed)
    of_one_line, wrong, elsewhere = 0, list[str](), list[str]()
    for what, answer, lines in islice(answers(dice, seeds, tmp_path), ROUNDS * attack_scale):
        if isinstance(answer, str):
            wrong.append(f"{what}: {answer}")
        elif lines and isinstance(answer, SpecError):
            of_one_line += 1
            if {problem.line for problem in answer.problems}.isdisjoint(lines):
                elsewhere.append(f"{what} (line {lines}): {str(answer)[:300]}")
    assert not wrong
    assert len(elsewhere) <= (1 - RIGHT_LINE) * of_one_line, "\n".join(elsewhere)


def largest_number(value):
    """Return the largest whole number of a unit, without its seed."""
    if isinstance(value, dict):
        return max((largest_number(value[key]) for key in value.keys() - {"seed"}), default=0)
    return value if type(value) is int else 0


def measured(plan):
    """Measure a small unit of each kind in this process; yield the results of its cells."""
    for kind in plan.spec.studies:
        units = [unit for unit in plan.units if unit.study == kind and unit.cells]
        small = (unit for unit in units if largest_number(unit.as_dict()) <= LARGEST)
        for unit in islice(small, 1):
            cells = [cell.as_dict() for cell in unit.cells[:20]]
            measure = STUDIES.get(kind).load_module("work").measure
            yield from dict(measure(unit.as_dict(), cells, cache=None, event=print)).values()


@pytest.mark.deep
@pytest.mark.timeout(3600)
def test_accepted_mutants_run(dice, attack_scale, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    seeds = [seed for seed in SEEDS if seed.parent.name == "ci"]
    plans = ((w, plan) for w, plan, _ in answers(dice, seeds, tmp_path) if isinstance(plan, Plan))
    failed, count = list[str](), 0
    for what, plan in islice(plans, MEASURED * attack_scale):
        try:
            with limit(HANGS):
                results = list(measured(plan))
        except TooLongError:
            continue
        count += len(results)
        errors = [result for result in results if isinstance(result, BaseException)]
        failed += [f"{what}: {type(error).__name__} {str(error)[:300]}" for error in errors]
    assert count > 0
    assert not failed, "\n".join(failed)
