"""`maxk-lab audit`: the plan of a budget, each source, the difference of two logs, and refusals."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

Lab = Callable[..., Result]
PLANNED = ("base.jsonl", "--budget", "16", "-k", "2")
COMPARED = ("base.jsonl", "--compare", "other.jsonl")


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of 8 samples a prompt: two of 40 prompts, one of 2."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, prompts, chance in (("base", 40, 0.4), ("other", 40, 0.6), ("few", 2, 0.5)):
        lines = [
            {"prompt": f"p{i}", "reward": float(reward), "source": ("easy", "hard")[i % 2]}
            for i in range(prompts)
            for reward in rng.random(8) < chance
        ]
        Path(f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.usefixtures("logs")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (PLANNED, ("A step at K = 2, with 95 % intervals over prompts", "Use at K = 2: ")),
        ((*PLANNED, "--by", "source"), ("A step at K = 2, easy", "Use at hard, K = 2: ")),
        (
            ("few.jsonl", "--budget", "8", "-k", "1"),
            (
                " [—]",
                "no interval: 2 of 2 prompts are informative, 24 needed",
                "; ties are unknown without intervals. Over the range",
            ),
        ),
        (COMPARED, ("40 prompts in both logs, compared in pairs", "95 % band over all K")),
    ],
)
def test_the_options_of_an_audit_print(
    lab: Lab, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    result = lab("audit", *arguments)
    assert result.exit_code == 0, result.output
    assert all(each in result.stdout for each in words), result.stdout


@pytest.mark.usefixtures("logs")
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("base.jsonl", "--by", "source"), "--by and --out need --budget: "),
        (("base.jsonl", "--out", "plan"), "--by and --out need --budget: "),
        ((*COMPARED, "-k", "2"), "--compare covers every K and plans no step: leave out --k"),
        ((*COMPARED, "--budget", "8"), "leave out --budget"),
        ((*COMPARED, "--budget", "8", "--by", "source"), "leave out --budget, --by"),
        ((*COMPARED, "--out", "plan"), "leave out --out"),
        ((*PLANNED, "--by", "sauce"), "sauce"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    lab: Lab, arguments: tuple[str, ...], line: str
) -> None:
    result = lab("audit", *arguments)
    assert result.exit_code == 2
    (error,) = result.stderr.splitlines()
    assert error.startswith("error: ")
    assert line in error


@pytest.mark.usefixtures("logs")
def test_tables_are_written_as_json_and_files(lab: Lab) -> None:
    result = lab("audit", *PLANNED, "--out", "plan", "--json")
    plan = json.loads(result.stdout)["plan"]
    with open("plan/plan.csv", encoding="utf-8") as file:
        lines = [*csv.DictReader(file)]
    assert [float(line["loss"]) for line in lines] == [line["loss"] for line in plan]
    assert "Wrote plan/plan.csv, plan/plan.html, plan/plan.png" in result.stderr
    assert Path("plan/plan.png").read_bytes().startswith(b"\x89PNG")
    curve = json.loads(lab("audit", *COMPARED, "--json").stdout)["curve"]
    assert [line["k"] for line in curve] == [*range(1, 9)]
    assert all(line["low"] < line["difference"] < line["high"] for line in curve[:4])
