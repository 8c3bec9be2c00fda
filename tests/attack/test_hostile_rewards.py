"""A reward function can spoil its own cells, and nothing else, whatever it does.

What a function does beside the right answer changes nothing: its metrics are those of a function
that only answers.
"""

import json

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
# Functions by name: the body, and words in the error of their cells; None if no cell fails.
# The body of one named `import_` runs when its module is imported.
CHEAP = {
    # It raises, or gives what is no reward.
    "exits": ("sys.exit(0)", "SystemExit"),
    "interrupts": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "raises_unpicklable": ("raise NeedsTwo(1, lambda: 2)", "NeedsTwo"),
    "raises_mute": ("raise Mute", "Mute"),
    "raises_surrogate": (r"raise ValueError('bad \ud800 text')", "bad"),
    "raises_much": ("raise ValueError('much' * 1_000_000)", "much"),
    "recurses": ("return recurses(given)", "RecursionError"),
    "gives_nan": ("return [float('nan')] * len(given)", ""),
    "gives_lambdas": ("return [lambda: 1] * len(given)", ""),
    "gives_nothing": ("return None", ""),
    "bursts_memory": ("return [bytearray(10**12)]", "MemoryError"),
    # It gives the right answer, and does something beside.
    "prints_much": ("print('x' * 10_000_000); os.write(1, b'y' * 100_000)", None),
    "moves_away": ("os.chdir('/')", None),
    "changes_randomness": ("import torch; torch.manual_seed(1); random.seed(1)", None),
    "ignores_signals": ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", None),
    "starts_process": ("subprocess.Popen(['sleep', '900'])", None),
    "forks": ("os.fork() or time.sleep(900)", None),
    "import_exits": ("sys.exit(0)", "SystemExit"),
    "import_raises": ("raise RuntimeError('not today')", "today"),
}
# Each ends or blocks the worker.
COSTLY = {
    # The worker does not survive it, or does not come back.
    "leaves": ("os._exit(0)", ""),
    "is_killed": ("os.kill(os.getpid(), signal.SIGKILL)", ""),
    "crashes": ("ctypes.string_at(0)", ""),
    "forks_twice": ("os.fork()", ""),
    "sleeps": ("time.sleep(900)", ""),
    # A match that takes longer than the world lasts.
    "waits_in_c": ("re.match('(a+)+$', 'a' * 60 + 'b')", ""),
    "stops_itself": ("os.kill(os.getpid(), signal.SIGSTOP)", ""),
    "import_leaves": ("os._exit(0)", ""),
    "import_waits": ("time.sleep(900)", ""),
}
# Of its two copies one fails, or none.
EITHER = "forks_twice"


def write(folder, names, timeout, calm=False):
    """Write a sweep with a unit for each function; a calm function only answers."""
    folder.mkdir()
    for name in names:
        body, words = (CHEAP | COSTLY)[name]
        at_import = name.startswith("import_")
        inside = f"{body}; {CALM}" if words is None or name == EITHER else body
        inside = CALM if calm or at_import else inside
        before = body if at_import and not calm else ""
        text = f"{HEAD}{before}\n\ndef {name}(given):\n    {inside}\n"
        (folder / f"hostile_{name}.py").write_text(text, encoding="utf-8")
    rewards = [f"hostile_{name}:{name}" for name in names]
    (folder / "hostile.yaml").write_text(SWEEP.format(rewards=rewards, timeout=timeout))


def judged(records, right, names):
    """Yield what is wrong with the records of hostile functions: one cell each."""
    by_name = {one.cell["environment"]["reward"].partition(":")[2]: one for one in records}
    yield from (f"lost: {name} has no record" for name in names if name not in by_name)
    for name, record in by_name.items():
        words, error = (CHEAP | COSTLY)[name][1], str(record.error)
        if record.status != ("done" if words is None else "failed") and name != EITHER:
            yield f"wrong: {name} is {record.status}: {error[-1000:]}"
        elif record.status == "done" and record.metrics != right[name]:
            yield f"wrong: {name} changed the metrics"
        elif record.status == "failed" and ((words or "") not in error or not error.strip()):
            yield f"silent: {name} failed with {error[-1000:]!r}, without {words!r}"


def test_rewards(launch, tmp_path, dice, attack_scale, monkeypatch):
    # Those that take a worker with them wait for `make attack`.
    names = dice.sample(list(CHEAP), min(8 * attack_scale, len(CHEAP)))
    names += dice.sample(list(COSTLY), min(attack_scale - 1, len(COSTLY)))
    dice.shuffle(names)
    calm, wild = tmp_path / "calm", tmp_path / "hostile"
    monkeypatch.syspath_prepend(str(calm))
    write(calm, names, timeout=600, calm=True)
    right = {
        unit.environment["reward"].partition(":")[2]: next(iter(measured_here(unit).values()))
        for unit in plan_of(str(calm / "hostile.yaml")).units
    }
    write(wild, names, timeout=15)
    jobs = "1" if attack_scale == 1 else dice.choice("12")
    words = ("run", "hostile.yaml", "--jobs", jobs, "--json")
    launched = launch(*words, folder=wild, before=LIMITED, limit=280)
    code, problems = launched.wait(), [*complaints(launched)]
    if launched.gone_after(SECONDS_TO_END) > SECONDS_TO_END:
        problems.append(f"leftover: {len(launched.started())} processes")
    records = all_records(wild / "results" / "hostile")
    problems += judged(records, right, names)
    assert not problems, "\n".join(problems)
    assert code == 1, launched.err
    failed = [record.cell["id"] for record in records if record.status == "failed"]
    assert sorted(json.loads(launched.out)["failed"]) == sorted(failed)
