"""A reward function can spoil its own cells, and nothing else, whatever it does."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attacked_runs import SECONDS_TO_END, complaints
from hostile_rewards import HOSTILE, Hostile, module_of
from launched import HangError, Launch, Launched
from stored import all_records

HEAD = """\
name: hostile
seeds: [0]
gradient:
  instances: 2
  pool: 16
  grid: {{estimator: maxk, baseline: centred, n: 4, k: 2}}
execution: {{timeout: {timeout}, reward_timeout: {reward_timeout}}}
tracking: {{wandb: disabled}}
"""
GAUSSIAN = """\
environment: {{name: gaussian}}
policy: {{mean: 0.5, scale: 0.2}}
vary: {{environment.reward: {rewards}}}
"""
# So much address space has a worker, far more than it needs.
LIMITED = ["bash", "-c", 'ulimit -v 16000000; exec "$@"', "bash"]
# So many at scale 1, in each family: of those that take a worker with them, and of all others.
COSTLY, CHEAP = 1, 8


def written(folder: Path, hostile: list[Hostile], timeout: float, *, calm: bool = False) -> Path:
    """Write a sweep with a unit for each function, and return the folder of its run."""
    folder.mkdir(exist_ok=True)
    names = [each.name for each in hostile]
    for each in hostile:
        text = module_of(each, calm=calm)
        (folder / f"hostile_{each.name}.py").write_text(text, encoding="utf-8")
    rewards = [f"hostile_{name}:{name}" for name in names]
    sweep = GAUSSIAN.format(rewards=rewards) + HEAD.format(
        timeout=20 * timeout, reward_timeout=timeout
    )
    (folder / "hostile.yaml").write_text(sweep, encoding="utf-8")
    return folder / "results" / "hostile"


def by_name(run: Path) -> dict[str, dict[str, Any]]:
    """Return the record of each function's one cell."""
    records = map(asdict, all_records(run))
    return {one["cell"]["environment"]["reward"].partition(":")[2]: one for one in records}


def measured(record: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics of a record without the id of its cell, which holds the code's hash."""
    return {name: value for name, value in record["metrics"].items() if name != "cell"}


def judged(run: Path, calm: Path, hostile: list[Hostile]) -> Iterator[str]:
    """Yield what is wrong with the records of hostile functions."""
    found, right = by_name(run), by_name(calm)
    for each in hostile:
        if (record := found.get(each.name)) is None:
            yield f"lost: {each.name} has no record"
            continue
        error = str(record["error"])
        if record["status"] not in each.status:
            yield f"wrong: {each.name} is {record['status']}: {error[-1000:]}"
        elif record["status"] == "failed":
            if each.says not in error or not error.strip():
                yield f"silent: {each.name} failed with {error[-1000:]!r}, without {each.says!r}"
        elif measured(record) != measured(right[each.name]):
            yield f"wrong: {each.name} changed the metrics"


def left(launched: Launched) -> Iterator[str]:
    """Yield what is wrong with what a run has said and left, whatever its end."""
    yield from complaints(launched)
    if launched.gone_after(SECONDS_TO_END) > SECONDS_TO_END:
        yield f"leftover: {len(launched.started())} processes"


def test_rewards(launch: Launch, tmp_path: Path, dice: random.Random, attack_scale: int) -> None:
    hostile = []
    for costly, count in ((True, COSTLY * attack_scale), (False, CHEAP * attack_scale)):
        sort = [each for each in HOSTILE if each.costly == costly]
        hostile += dice.sample(sort, min(count, len(sort)))
    dice.shuffle(hostile)
    problems = list(struck(launch, tmp_path, hostile, str(dice.choice([1, 2]))))
    assert not problems, "\n".join(problems)


def struck(launch: Launch, folder: Path, hostile: list[Hostile], jobs: str) -> Iterator[str]:
    """Run a sweep of hostile functions, and yield what is wrong with it."""
    calm = written(folder / "calm", hostile, timeout=30, calm=True)
    in_peace = launch("run", "hostile.yaml", folder=folder / "calm", limit=200)
    if in_peace.wait() != 0:
        yield f"exit code: {in_peace.process.returncode} in peace: {in_peace.err[-2000:]}"
    run = written(folder / "hostile", hostile, timeout=2)
    launched = launch(
        *["run", "hostile.yaml", "--jobs", jobs, "--json"],
        folder=folder / "hostile",
        before=LIMITED,
        limit=280,
    )
    try:
        if (code := launched.wait()) != 1:
            yield f"exit code: {code}, {launched.err[-2000:]}"
        yield from left(launched)
        yield from judged(run, calm, hostile)
        told, failed = json.loads(launched.out)["failed"], by_name(run).values()
        if len(told) != sum(record["status"] == "failed" for record in failed):
            yield f"wrong: {len(told)} cells are said to have failed"
    except HangError as error:
        yield f"hang: {error}"
    except ValueError:
        yield f"wrong: stdout is no JSON but {launched.out[:100]!r}"
