"""A reward function can spoil its own cells, and nothing else, whatever it does.

Each is the body of a function of what is `given`, and what must become of its cells. What one does
beside the right `answer` changes nothing: its metrics are those of a function that only answers.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from attacked_runs import SECONDS_TO_END, complaints
from launched import HangError, Launch
from stored import all_records
from sweep_files import measured_here, plan_of

SWEEP = """\
name: hostile
seeds: [0]
environment: {{name: gaussian}}
policy: {{mean: 0.5, scale: 0.2}}
vary: {{environment.reward: {rewards}}}
gradient:
  instances: 2
  pool: 16
  grid: {{estimator: maxk, baseline: centred, n: 4, k: 2}}
execution: {{timeout: {timeout}}}
tracking: {{wandb: disabled}}
"""
HEAD = """\
import ctypes, itertools, os, random, re, signal, subprocess, sys, threading, time

def answer(given):
    return given.sum(-1) if hasattr(given, "sum") else [float(len(text)) for text in given]

class NeedsTwo(Exception):
    def __init__(self, first, second):
        self.both = first, second

class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")

"""
CALM = "return answer(given)"
# So much address space has a worker, far more than it needs.
LIMITED = ["bash", "-c", 'ulimit -v 16000000; exec "$@"', "bash"]
# So many functions at scale 1; those that take a worker with them wait for `make attack`.
CHEAP = 8


@dataclass(frozen=True)
class Hostile:
    """A reward function: its body, and words in the reason why its cells fail; None: they do not.

    One that ends or blocks the worker is `costly`, and one that may do either has `any` end.
    """

    name: str
    body: str
    says: str | None = ""
    costly: bool = False
    at_import: bool = False
    any: bool = False

    def module(self, *, calm: bool) -> str:
        """The text of a module with the function, which only answers if it is to be calm."""
        body = f"{self.body}; {CALM}" if self.says is None or self.any else self.body
        at_import, body = (body, CALM) if self.at_import else ("", body)
        at_import, body = ("", CALM) if calm else (at_import, body)
        return f"{HEAD}{at_import}\n\ndef {self.name}(given):\n    {body}\n"


HOSTILE = [
    # It raises, or gives what is no reward.
    Hostile("exits", "sys.exit(0)", "SystemExit"),
    Hostile("interrupts", "raise KeyboardInterrupt", "KeyboardInterrupt"),
    Hostile("raises_unpicklable", "raise NeedsTwo(1, lambda: 2)", "NeedsTwo"),
    Hostile("raises_mute", "raise Mute", "Mute"),
    Hostile("raises_surrogate", r"raise ValueError('bad \ud800 text')", "bad"),
    Hostile("raises_much", "raise ValueError('much' * 1_000_000)", "much"),
    Hostile("recurses", "return recurses(given)", "RecursionError"),
    Hostile("gives_nan", "return [float('nan')] * len(given)"),
    Hostile("gives_lambdas", "return [lambda: 1] * len(given)"),
    Hostile("gives_nothing", "return None"),
    Hostile("bursts_memory", "return [bytearray(10**12)]", "MemoryError"),
    # It gives the right answer, and does something beside.
    Hostile("prints_much", "print('x' * 10_000_000); os.write(1, b'y' * 100_000)", None),
    Hostile("moves_away", "os.chdir('/')", None),
    Hostile("changes_randomness", "import torch; torch.manual_seed(1); random.seed(1)", None),
    Hostile("ignores_signals", "signal.signal(signal.SIGTERM, signal.SIG_IGN)", None),
    Hostile("starts_process", "subprocess.Popen(['sleep', '900'])", None),
    Hostile("forks", "os.fork() or time.sleep(900)", None),
    # The worker does not survive it, or does not come back.
    Hostile("leaves", "os._exit(0)", costly=True),
    Hostile("is_killed", "os.kill(os.getpid(), signal.SIGKILL)", costly=True),
    Hostile("crashes", "ctypes.string_at(0)", costly=True),
    Hostile("forks_twice", "os.fork()", costly=True, any=True),
    Hostile("sleeps", "time.sleep(900)", costly=True),
    # A match that takes longer than the world lasts.
    Hostile("waits_in_c", "re.match('(a+)+$', 'a' * 60 + 'b')", costly=True),
    Hostile("stops_itself", "os.kill(os.getpid(), signal.SIGSTOP)", costly=True),
    Hostile("import_exits", "sys.exit(0)", "SystemExit", at_import=True),
    Hostile("import_raises", "raise RuntimeError('not today')", "today", at_import=True),
    Hostile("import_leaves", "os._exit(0)", costly=True, at_import=True),
    Hostile("import_waits", "time.sleep(900)", costly=True, at_import=True),
]


def written(folder: Path, hostile: list[Hostile], timeout: float, *, calm: bool = False) -> None:
    """Write a sweep with a unit for each function."""
    folder.mkdir(exist_ok=True)
    for each in hostile:
        text = each.module(calm=calm)
        (folder / f"hostile_{each.name}.py").write_text(text, encoding="utf-8")
    rewards = [f"hostile_{each.name}:{each.name}" for each in hostile]
    text = SWEEP.format(rewards=rewards, timeout=timeout)
    (folder / "hostile.yaml").write_text(text, encoding="utf-8")


def by_name(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the record of each function's one cell, without its id, which holds a hash of code."""
    records = map(asdict, all_records(folder / "results" / "hostile"))
    found = {one["cell"]["environment"]["reward"].partition(":")[2]: one for one in records}
    for record in found.values():
        (record["metrics"] or {}).pop("cell", None)
    return found


def judged(found: dict[str, Any], right: dict[str, Any], hostile: list[Hostile]) -> Iterator[str]:
    """Yield what is wrong with the records of hostile functions."""
    for each in hostile:
        if (record := found.get(each.name)) is None:
            yield f"lost: {each.name} has no record"
            continue
        error = str(record["error"])
        if record["status"] != ("done" if each.says is None else "failed") and not each.any:
            yield f"wrong: {each.name} is {record['status']}: {error[-1000:]}"
        elif record["status"] == "failed":
            if (each.says or "") not in error or not error.strip():
                yield f"silent: {each.name} failed with {error[-1000:]!r}, without {each.says!r}"
        elif record["metrics"] != right[each.name]:
            yield f"wrong: {each.name} changed the metrics"


def metrics_in_peace(folder: Path, hostile: list[Hostile]) -> dict[str, Any]:
    """Return the metrics of functions that only answer, measured in this process."""
    written(folder, hostile, timeout=600, calm=True)
    metrics = {}
    for unit in plan_of(str(folder / "hostile.yaml")).units:
        (measured,) = measured_here(unit).values()
        measured.pop("cell", None)
        metrics[unit.environment["reward"].partition(":")[2]] = measured
    return metrics


def test_rewards(
    launch: Launch,
    tmp_path: Path,
    dice: random.Random,
    attack_scale: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hostile = []
    for costly, count in ((True, attack_scale - 1), (False, CHEAP * attack_scale)):
        sort = [each for each in HOSTILE if each.costly == costly]
        hostile += dice.sample(sort, min(count, len(sort)))
    dice.shuffle(hostile)
    monkeypatch.syspath_prepend(str(tmp_path / "calm"))
    calm = metrics_in_peace(tmp_path / "calm", hostile)
    jobs = "1" if attack_scale == 1 else dice.choice("12")
    problems = list(struck(launch, tmp_path, hostile, jobs, calm))
    assert not problems, "\n".join(problems)


def struck(
    launch: Launch, folder: Path, hostile: list[Hostile], jobs: str, calm: dict[str, Any]
) -> Iterator[str]:
    """Run a sweep of hostile functions, and yield what is wrong with it and what it leaves."""
    wild = folder / "hostile"
    written(wild, hostile, timeout=15)
    words = ("run", "hostile.yaml", "--jobs", jobs, "--json")
    launched = launch(*words, folder=wild, before=LIMITED, limit=280)
    try:
        if (code := launched.wait()) != 1:
            yield f"exit code: {code}, {launched.err[-2000:]}"
        yield from complaints(launched)
        if launched.gone_after(SECONDS_TO_END) > SECONDS_TO_END:
            yield f"leftover: {len(launched.started())} processes"
        found = by_name(wild)
        yield from judged(found, calm, hostile)
        told = json.loads(launched.out)["failed"]
        if len(told) != sum(record["status"] == "failed" for record in found.values()):
            yield f"wrong: {len(told)} cells are said to have failed"
    except HangError as error:
        yield f"hang: {error}"
    except ValueError:
        yield f"wrong: stdout is no JSON but {launched.out[:100]!r}"
