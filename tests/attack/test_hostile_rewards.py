"""A reward function can spoil its own cells, and nothing else, whatever it does.

Each is the body of a function of what is `given`, and what must become of its cells. What one does
beside the right `answer` changes nothing: its metrics are those of a function that only answers.
"""

import json
from dataclasses import dataclass

from attacked_runs import SECONDS_TO_END, complaints
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
import ctypes, os, random, re, signal, subprocess, sys, time

class NeedsTwo(Exception):
    def __init__(self, first, second):
        self.both = first, second

class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no text")

"""
CALM = "return given.sum(-1)"
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

    def module(self, calm):
        """The text of a module with the function, which only answers if it is to be calm."""
        answers = self.says is None or self.any
        body = f"{self.body}; {CALM}" if answers else self.body
        if calm or self.at_import:
            body = CALM
        at_import = self.body if self.at_import and not calm else ""
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


def written(folder, hostile, timeout, calm=False):
    """Write a sweep with a unit for each function."""
    folder.mkdir(exist_ok=True)
    for each in hostile:
        text = each.module(calm)
        (folder / f"hostile_{each.name}.py").write_text(text, encoding="utf-8")
    rewards = [f"hostile_{each.name}:{each.name}" for each in hostile]
    text = SWEEP.format(rewards=rewards, timeout=timeout)
    (folder / "hostile.yaml").write_text(text, encoding="utf-8")


def judged(records, right, hostile):
    """Yield what is wrong with the records of hostile functions: one cell each."""
    found = {one.cell["environment"]["reward"].partition(":")[2]: one for one in records}
    yield from (f"lost: {each.name} has no record" for each in hostile if each.name not in found)
    for each in (each for each in hostile if each.name in found):
        record, error = found[each.name], str(found[each.name].error)
        if record.status != ("done" if each.says is None else "failed") and not each.any:
            yield f"wrong: {each.name} is {record.status}: {error[-1000:]}"
        elif record.status == "done" and record.metrics != right[each.name]:
            yield f"wrong: {each.name} changed the metrics"
        elif record.status == "failed" and ((each.says or "") not in error or not error.strip()):
            yield f"silent: {each.name} failed with {error[-1000:]!r}, without {each.says!r}"


def test_rewards(launch, tmp_path, dice, attack_scale, monkeypatch):
    hostile = []
    for costly, count in ((True, attack_scale - 1), (False, CHEAP * attack_scale)):
        sort = [each for each in HOSTILE if each.costly == costly]
        hostile += dice.sample(sort, min(count, len(sort)))
    dice.shuffle(hostile)
    calm, wild = tmp_path / "calm", tmp_path / "hostile"
    monkeypatch.syspath_prepend(str(calm))
    written(calm, hostile, timeout=600, calm=True)
    right = {
        unit.environment["reward"].partition(":")[2]: next(iter(measured_here(unit).values()))
        for unit in plan_of(str(calm / "hostile.yaml")).units
    }
    written(wild, hostile, timeout=15)
    jobs = "1" if attack_scale == 1 else dice.choice("12")
    words = ("run", "hostile.yaml", "--jobs", jobs, "--json")
    launched = launch(*words, folder=wild, before=LIMITED, limit=280)
    code, problems = launched.wait(), [*complaints(launched)]
    if launched.gone_after(SECONDS_TO_END) > SECONDS_TO_END:
        problems.append(f"leftover: {len(launched.started())} processes")
    records = all_records(wild / "results" / "hostile")
    problems += judged(records, right, hostile)
    assert not problems, "\n".join(problems)
    assert code == 1, launched.err
    failed = [record.cell["id"] for record in records if record.status == "failed"]
    assert sorted(json.loads(launched.out)["failed"]) == sorted(failed)
