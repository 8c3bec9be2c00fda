"""The exact words for what is wrong with a sweep file, and its place: the tables in `refused`.

A table is a sweep, a line `%%`, and cases: changes of the sweep, then the problems that it has with
them, indented. `3| text` replaces line 3, by several lines where it is there more often; `3-` takes
it out, `+ text` adds one at the end, and `--set a=1` sets a value over it. `…` stands for the rest.
"""

import re
from itertools import chain, groupby
from pathlib import Path

import pytest
from sweep_files import problems

TABLES = Path(__file__).parent / "refused"


def cases():
    """Yield the name of every case, its sweep, its options and its problems."""
    for table in sorted(TABLES.glob("*.txt")):
        sweep, _, rest = table.read_text(encoding="utf-8").partition("\n%%\n")
        groups = groupby(rest.splitlines(), key=lambda line: line.startswith("    "))
        blocks = [list(lines) for _, lines in groups]
        for changes, told in zip(blocks[::2], blocks[1::2], strict=True):
            lines = {number: [line] for number, line in enumerate(sweep.splitlines(), start=1)}
            lines |= {
                int(one.removesuffix("-")): []
                for one in changes
                if one[:-1].isdigit() and one.endswith("-")
            }
            replaced = {}
            for number, separator, text in (one.partition("| ") for one in changes):
                if separator and number.isdigit():
                    replaced.setdefault(int(number), []).append(text)
            added = [one.removeprefix("+ ") for one in changes if one.startswith("+ ")]
            text = "\n".join([*chain.from_iterable((lines | replaced).values()), *added])
            options = [one.removeprefix("--set ") for one in changes if one.startswith("--set ")]
            yield f"{table.stem}: {told[0].strip()}", text, options, [one.strip() for one in told]


@pytest.mark.parametrize(("text", "options", "told"), [pytest.param(*r, id=i) for i, *r in cases()])
def test_what_is_wrong_is_told_where_it_stands(write, text, options, told):
    found = [one.removeprefix("sweep.yaml:") for one in problems(write(text + "\n"), *options)]
    pattern = "\n".join(re.escape(one).replace("…", ".*") for one in told)
    assert re.fullmatch(pattern, "\n".join(found)), found
