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
PLANNED = "base.jsonl --budget 16 -k 2"
COMPARED = "base.jsonl --compare other.jsonl"


@pytest.fixture(autouse=True)
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


NEED_BUDGET = "--by and --out need --budget: "


@pytest.mark.parametrize(
    ("arguments", "code", "phrases"),
    [
        (PLANNED, 0, ["A step at K = 2, with 95 % intervals over prompts", "Use at K = 2: "]),
        (f"{PLANNED} --by source", 0, ["A step at K = 2, easy", "Use at hard, K = 2: "]),
        (
            "few.jsonl --budget 8 -k 1",
            0,
            [
                " [—]",
                "no interval: 2 of 2 prompts are informative, 24 needed",
                "; ties are unknown without intervals. Over the range",
            ],
        ),
        (COMPARED, 0, ["40 prompts in both logs, compared in pairs", "95 % band over all K"]),
        ("base.jsonl --by source", 2, [NEED_BUDGET]),
        ("base.jsonl --out plan", 2, [NEED_BUDGET]),
        (f"{COMPARED} -k 2", 2, ["--compare covers every K and plans no step: leave out --k"]),
        (f"{COMPARED} --budget 8 --by source", 2, ["leave out --budget, --by"]),
        (f"{COMPARED} --out plan", 2, ["leave out --out"]),
        (f"{PLANNED} --by sauce", 2, ["sauce"]),
    ],
)
def test_the_options_of_an_audit_print_or_are_refused(
    lab: Lab, arguments: str, code: int, phrases: list[str]
) -> None:
    result = lab("audit", *arguments.split())
    assert result.exit_code == code, result.output
    output = result.stderr if code else result.stdout
    assert all(phrase in output for phrase in phrases), output
    assert not code or [line[:7] for line in output.splitlines()] == ["error: "]


def test_tables_are_written_as_json_and_files(lab: Lab) -> None:
    result = lab("audit", *PLANNED.split(), "--out", "plan", "--json")
    plan = json.loads(result.stdout)["plan"]
    with open("plan/plan.csv", encoding="utf-8") as file:
        assert [float(line["loss"]) for line in csv.DictReader(file)] == [r["loss"] for r in plan]
    assert "Wrote plan/plan.csv, plan/plan.html, plan/plan.png" in result.stderr
    assert Path("plan/plan.png").read_bytes().startswith(b"\x89PNG")
    curve = json.loads(lab("audit", *COMPARED.split(), "--json").stdout)["curve"]
    assert [line["k"] for line in curve] == [*range(1, 9)]
    assert all(line["low"] < line["difference"] < line["high"] for line in curve[:4])
