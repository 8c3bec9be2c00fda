"""Records that were tampered with: never a result, never a traceback, and told with their file."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from attack_figures import Figures
from tampering import SWEEPS, measured, restored, tampered
from typer.testing import CliRunner

from maxk_lab.cli import app
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.run.progress import checked_statuses
from maxk_lab.sweeps.run.records import RunDirectory

# In CI, for each kind of study.
ROUNDS = 12
SLOW = 5.0


class Told:
    """What the program said, and what it should not have."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.slowest = 0.0
        self.wrong: list[str] = []

    def by(self, what: str, *arguments: str) -> str:
        """Run a verb in this process; return its output."""
        started = time.process_time()  # the machine may have other work
        result = CliRunner().invoke(app, list(arguments))
        seconds = time.process_time() - started
        self.slowest = max(self.slowest, seconds)
        self.counts["commands"] += 1
        if result.exit_code not in (0, 1, 2) or not isinstance(result.exception, SystemExit | None):
            self.counts["tracebacks"] += 1
            self.wrong.append(f"{what}: {' '.join(arguments)}: {result.exception!r}")
        if seconds > SLOW:
            self.counts["slow"] += 1
            self.wrong.append(f"{what}: {' '.join(arguments)}: {seconds:.0f} s")
        return result.stdout

    def expect(self, condition: bool, what: str, wrong: str) -> None:
        """Note what is not as it should be."""
        if not condition:
            self.counts["untrue"] += 1
            self.wrong.append(f"{what}: {wrong}")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a small sweep of every kind."""
    results = tmp_path_factory.mktemp("whole")
    for kind in SWEEPS:
        measured(kind, results)
    return results


@pytest.mark.parametrize("kind", SWEEPS)
@pytest.mark.filterwarnings("ignore")
def test_tampered_records(
    kind: str,
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dice: random.Random,
    attack_scale: int,
    figures: Figures,
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Path("results") / kind
    shutil.copytree(whole / kind, run)
    planned = len(make_plan(RunDirectory(run).spec()).cells)
    told = Told()
    for _ in range(ROUNDS * attack_scale):
        _one_round(told, dice, run, planned)
        restored(run, whole / kind)
    rounds = ROUNDS * attack_scale
    figures(
        "tampered records",
        rounds=rounds,
        **{name: told.counts[name] for name in ("commands", "damaged", "tracebacks", "untrue")},
        slowest=told.slowest,
    )
    assert not told.wrong, "\n".join(told.wrong[:20])


def _one_round(told: Told, dice: random.Random, run: Path, planned: int) -> None:
    path, what = tampered(dice, run)
    what = f"{path.name}: {what}"
    found = json.loads(told.by(what, "fsck", str(run), "--json") or "null")
    if found is None:
        return
    state = next((one["state"] for one in found["records"] if one["file"] == str(path)), "missing")
    told.counts[state] += 1
    told.by(what, "list", "runs")
    told.by(what, "show", run.name)
    told.by(what, "show", path.stem, "--json")
    told.by(what, "report", run.name)
    if dice.random() < 0.2:
        told.by(what, "report", run.name, "--out", str(run / "report"))
    counts = json.loads(told.by(what, "report", run.name, "--format", "json") or "{}").get("counts")
    told.expect(counts is not None, what, "there is no report")
    if counts is None:
        return
    # A number that its own units do not give is read by no report, which makes it anew.
    damaged = sum("where its units give" not in one["why"] for one in _damaged(found))
    told.expect(counts["damaged"] == damaged, what, f"fsck finds {damaged}, report {counts}")
    others = planned - (state != "done")
    told.expect(
        counts["done"] in (others, planned - counts["damaged"] - counts["missing"]),
        what,
        f"{state}, and {counts['done']} of {planned} count",
    )
    reread = RunDirectory(run)
    states = Counter(checked_statuses(make_plan(reread.spec()), reread).values())
    told.expect(states["done"] == counts["done"], what, f"a run reuses {states}")


def _damaged(found: dict[str, list[dict[str, str]]]) -> list[dict[str, str]]:
    return [one for one in found["records"] if one["state"] == "damaged"]
