"""Every verb as its user sees it: `transcripts.txt` has commands and all that they print.

`2>` begins a line of stderr, `[n]` is an exit code that is not 0, and `...` stands for any text.
"""

from __future__ import annotations

import doctest
import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from stored import change_line, damage
from sweep_files import SMALL
from written_runs import record_of

from maxk_lab.execution.archive import write_bundle
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.store import line_of
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.load import load_spec

from .conftest import TAUGHT

FILE = Path(__file__).with_name("transcripts.txt")
COMMAND = "$ maxk-lab "
BAD = """\
name: bad
seeds: [0]
environment: {name: tps}
gradient:
  poool: 64
  grid: {estimator: maxk, baseline: [nonne], n: 4, k: 2}
"""
ALONG = """\
name: along
seeds: [0]
environment: {name: gaussian}
objective: {parameter: policy.mean, from: 0, to: 1, grid: {estimator: maxk, k: [1, 2]}}
weights: {grid: {estimator: maxk, baseline: none, n: 4, k: 2}}
"""
FILES = {
    "careful.yaml": "timeout: 5h\n",
    "bad.yaml": BAD,
    "along.yaml": ALONG,
    "taught.yaml": TAUGHT,
    "mine.zip": "precious",
    "small.yaml": SMALL,
}
TRANSCRIPTS = dict(
    block.partition("\n")[::2] for block in FILE.read_text("utf-8").split(COMMAND) if block.strip()
)


@pytest.fixture(scope="module")
def folder(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("transcripts") / "copy"
    shutil.copytree(finished, copy)
    for name, text in FILES.items():
        (copy / name).write_text(text, encoding="utf-8")
    (copy / "empty").mkdir()
    (copy / "link").symlink_to("nowhere")
    write_bundle(RunDirectory(copy / "results" / "tiny"), copy / "carried.zip")
    shutil.copytree(copy / "results", copy / "claimed")
    claim = (
        "{name: c, kind: equals, metric: scale, where: {baseline: none}, value: 50, tolerance: 1}"
    )
    RunDirectory(copy / "claimed/tiny").write_spec(
        load_spec(copy / "tiny.yaml", [f"claims=[{claim}]"])
    )
    made(copy, "old", 0, 1, "claims=[{name: c, kind: unbiased, detectable: 9, where: {n: 4}}]")
    made(copy, "new", 3, 0)
    hurt = made(copy, "hurt", 0, 0, where="damaged")
    damaged, odd, *_ = hurt.ids()
    damage(hurt.root, damaged)
    change_line(hurt.root, odd, lambda line: line_of(head_of(line), {"nonsense": 1}))
    return copy


def made(
    folder: Path, name: str, missing: int, failed: int, *more: str, where: str = "made"
) -> RunDirectory:
    """A run of the small sweep without any measuring, the newer the later it is made."""
    plan = make_plan(load_spec(folder / "small.yaml", [f"name={name}", *more]))
    run = RunDirectory(folder / where / name)
    run.write_spec(plan.spec)
    for number, cell in enumerate(plan.cells[missing:]):
        run.write(record_of(cell, failed=number < failed))
    return run


def head_of(line: bytes) -> dict[str, Any]:
    head: dict[str, Any] = json.loads(line[9:].partition(b"\t")[0])
    return head


def printed(done: Result) -> str:
    """All that a command has printed, as the transcripts have it."""
    said = [line.rstrip() for line in done.stdout.splitlines()]
    said += [f"2> {line}".rstrip() for line in done.stderr.splitlines()]
    return "\n".join([*said, *([f"[{done.exit_code}]"] if done.exit_code else [])]) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("words", TRANSCRIPTS)
def test_a_command_prints_what_its_transcript_has(
    words: str, folder: Path, lab: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    said = re.sub(r"\n\n+", "\n\n", printed(lab(*shlex.split(words))))
    expected = TRANSCRIPTS[words].rstrip("\n") + "\n"
    same = doctest.OutputChecker().check_output(expected, said, doctest.ELLIPSIS)
    assert same, f"{COMMAND}{words}\n{said}"
