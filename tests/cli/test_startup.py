"""The verbs that must answer at once import nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "rl4co", "wandb", "pandas", "matplotlib", "scipy")
# Runs the program, then names the heavy libraries that it imported as its last line.
PROBE = f"""
import sys
from maxk_lab.cli import app
try:
    app(sys.argv[1:])
except SystemExit as exit:
    assert exit.code in (0, None), exit.code
print(" ".join(name for name in {HEAVY!r} if name in sys.modules))
"""

LANGUAGE = """\
name: language
seeds: [0]
environment: {name: toy_llm, rewards: [exact_match, brevity], reward_weights: [1, 0.1]}
training: {grid: {estimator: maxk, baseline: [otb_token, eob_loo], n: 8, k: 1}}
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["run", "--help"],
        ["plan", "tiny.yaml"],
        ["list", "estimators"],
        ["list", "baselines"],
        ["list", "environments"],
        ["list", "runs"],
        ["validate", "tiny.yaml"],
        ["run", "tiny.yaml", "--dry-run"],
        ["list", "tasks"],
        ["list", "rewards"],
        ["plan", "language.yaml"],
        ["validate", "language.yaml"],
    ],
    ids=" ".join,
)
def test_quick_verbs_import_nothing_heavy(sweep: str, tmp_path: Path, arguments: list[str]) -> None:
    Path("language.yaml").write_text(LANGUAGE, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == ""


def test_the_probe_sees_a_heavy_import(tmp_path: Path) -> None:
    probe = PROBE.replace("import sys\n", "import sys\nimport scipy\n", 1)
    done = subprocess.run(
        [sys.executable, "-c", probe, "--version"], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines()[-1] == "scipy"
