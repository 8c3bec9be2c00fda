"""Every verb as its user sees it: `transcripts.txt` has commands and all that they print.

`2>` begins a line of stderr, `[n]` is an exit code that is not 0, and `...` stands for any text.
"""

import doctest
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from stored import change_line, damage
from sweep_files import SMALL
from written_runs import record_of

from maxk_lab.execution.archive import write_bundle
from maxk_lab.execution.records import RunDirectory
from maxk_lab.execution.store import line_of
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.load import load_spec

from .conftest import TAUGHT, write_logs

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
BLOCKS = FILE.read_text("utf-8").split(COMMAND)
TRANSCRIPTS = dict(block.partition("\n")[::2] for block in BLOCKS if block.strip())


CLAIM = "claims=[{name: c, kind: equals, metric: scale, value: 50, tolerance: 1}]"


@pytest.fixture(scope="module")
def folder(finished, tmp_path_factory):
    """A copy of the folder of the tiny run with other sweeps, runs, a bundle and a bad link."""
    copy = tmp_path_factory.mktemp("transcripts") / "copy"
    shutil.copytree(finished, copy)
    for name, text in FILES.items():
        (copy / name).write_text(text, encoding="utf-8")
    write_logs(copy)
    (copy / "empty").mkdir()
    (copy / "link").symlink_to("nowhere")
    write_bundle(RunDirectory(copy / "results" / "tiny"), copy / "carried.zip")
    shutil.copytree(copy / "results", copy / "claimed")
    RunDirectory(copy / "claimed/tiny").write_spec(load_spec(copy / "tiny.yaml", [CLAIM]))

    def write_run(name, missing=0, failed=0, where="made"):
        plan = make_plan(load_spec(copy / "small.yaml", [f"name={name}"]))
        run = RunDirectory(copy / where / name)
        run.write_spec(plan.spec)
        for number, cell in enumerate(plan.cells[missing:]):
            run.write(record_of(cell, failed=number < failed))
        return run

    write_run("old", failed=1)
    write_run("new", missing=3)
    hurt = write_run("hurt", where="damaged")
    damaged, odd, *_ = hurt.ids()
    damage(hurt.root, damaged)
    change_line(
        hurt.root,
        odd,
        lambda line: line_of(json.loads(line[9:].partition(b"\t")[0]), {"nonsense": 1}),
    )
    return copy


@pytest.mark.slow
@pytest.mark.parametrize("words", TRANSCRIPTS)
def test_a_command_prints_what_its_transcript_has(words, folder, lab, monkeypatch):
    monkeypatch.chdir(folder)
    done = lab(*shlex.split(words))
    lines = [*done.stdout.splitlines(), *(f"2> {line}" for line in done.stderr.splitlines())]
    lines += [f"[{done.exit_code}]"] if done.exit_code else []
    output = re.sub(r"\n\n+", "\n\n", "".join(f"{line.rstrip()}\n" for line in lines))
    expected = TRANSCRIPTS[words].rstrip("\n") + "\n"
    same = doctest.OutputChecker().check_output(expected, output, doctest.ELLIPSIS)
    assert same, f"{COMMAND}{words}\n{output}"
