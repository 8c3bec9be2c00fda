"""Every verb as its user sees it: `transcripts.txt` has commands and all that they print.

`2>` begins a line of stderr, `[n]` is an exit code that is not 0, and `...` stands for any text.
"""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from maxk_lab.sweeps.run.bundle import write_bundle
from maxk_lab.sweeps.run.records import RunDirectory

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
CONFIG = """\
profiles:
  cluster: {backend: slurm, partition: gpu, time: 4h, memory: 4GB, options: {nice: 1}}
  careful: {retries: 5, timeout: 90min}
"""
FILES = {
    "bad.yaml": BAD,
    "along.yaml": ALONG,
    "taught.yaml": TAUGHT,
    "config.yaml": CONFIG,
    "mine.zip": "precious",
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
    write_bundle(RunDirectory(copy / "results" / "tiny"), copy / "carried.zip")
    return copy


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
    monkeypatch.setenv("MAXK_LAB_CONFIG", "config.yaml")
    said = re.sub(r"\n\n+", "\n\n", printed(lab(*shlex.split(words))))
    expected = TRANSCRIPTS[words].rstrip("\n") + "\n"
    same = doctest.OutputChecker().check_output(expected, said, doctest.ELLIPSIS)
    assert same, f"{COMMAND}{words}\n{said}"
