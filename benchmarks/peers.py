"""Compare audits with three other programs, and print what each says.

    make peers

Installs passk-inference, rldoctor and rlvr-audit into .venvs/peers. passk-inference ships counts of
successes of two models; its band and crossing are compared with `audit --compare`. The other two
read three simulated logs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from maxk_lab.own.audit import audit
from maxk_lab.own.plans.difference import compare_logs

ROOT = Path(__file__).parents[1]
ENVIRONMENT = ROOT / ".venvs/peers"
PACKAGES = ("passk-inference==0.3.1", "rldoctor==0.2.0", "rlvr-audit==0.1.0")
COUNTS = "passk_inference-0.3.1/examples/deepscaler32k"
STEPS, PROMPTS, SAMPLES = 60, 32, 8
# Log → the Beta distribution of the chances of a success in the first and in the last step.
LOGS = {
    "few ever solved": ((0.5, 10.0), (0.5, 10.0)),
    "most solved or unsolved": ((0.3, 0.6), (0.3, 0.6)),
    "solved in training": ((1.0, 1.0), (40.0, 0.5)),
}


def run(*command: str | Path) -> str:
    """Return what a program of the environment prints."""
    words = [ENVIRONMENT / "bin" / command[0], *command[1:]]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def install() -> None:
    """Make the environment, unless it has all packages."""
    listed = run("python", "-m", "pip", "freeze") if ENVIRONMENT.exists() else ""
    if not all(package in listed.replace("_", "-") for package in PACKAGES):
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        run("python", "-m", "pip", "install", "--quiet", *PACKAGES)


def shipped_counts(folder: Path) -> list[Path]:
    """Return the files of counts that the source archive of passk-inference has: base and RL."""
    source = ["--no-deps", "--no-binary", ":all:", "--dest", folder, PACKAGES[0]]
    run("python", "-m", "pip", "download", "--quiet", *source)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return [folder / COUNTS / f"{name}.jsonl" for name in ("base", "rl")]


def compare_bands(folder: Path) -> None:
    """Print bands, supported gains and losses of passk-inference and of `audit --compare`."""
    base, trained = shipped_counts(folder)
    theirs = json.loads(run("passk-inference", "--base", base, "--rl", trained))
    logs = []
    for counts in (trained, base):
        lines = [json.loads(line) for line in counts.read_text(encoding="utf-8").splitlines()]
        samples = [
            {"prompt": row["id"], "reward": float(i < row["c"])}
            for row in lines
            for i in range(row["n"])
        ]
        logs.append(_written(folder / f"log_{counts.name}", samples))
    curve = compare_logs(logs[:1], logs[1:], {}).curve
    print(f"passk-inference on its counts: {theirs['prompts']} prompts, K = 1 to {len(curve)}")
    gains, losses = ([*curve.k[curve.sign == sign]] for sign in (1, -1))
    pairs = {
        "gain at K": (theirs["certified_positive_budgets"], gains),
        "loss at K": (theirs["certified_negative_budgets"], losses),
    }
    for name, both in pairs.items():
        ends = [f"{ks[0]} to {ks[-1]}" if len(ks) else "none" for ks in both]
        print(f"  {name:9} passk-inference {ends[0]:10} audit --compare {ends[1]}")
    for name, column in {"mean": "difference", "lower": "low", "upper": "high"}.items():
        gap = np.abs(np.array(theirs[name]) - curve[column].to_numpy()).max()
        print(f"  {name:9} differs by at most {gap:.2g}")


def compare_logs_of_trainings(folder: Path) -> None:
    """Print what rldoctor, rlvr-audit and `audit` say of each log."""
    for name, (first, last) in LOGS.items():
        rng = np.random.default_rng(0)
        samples, groups, steps = list[Any](), list[Any](), list[Any]()
        for step in range(STEPS):
            shape = np.array(first) + (np.array(last) - first) * step / (STEPS - 1)
            chances = rng.beta(*shape, PROMPTS)[:, None]
            rewards = (rng.random((PROMPTS, SAMPLES)) < chances).astype(float)
            ids = [f"{step}-{prompt}" for prompt in range(PROMPTS)]
            rows = [*zip(ids, rewards.tolist(), strict=True)]
            groups += [{"prompt_id": prompt, "rewards": group} for prompt, group in rows]
            samples += [
                {"step": step, "prompt": prompt, "reward": reward}
                for prompt, group in rows
                for reward in group
            ]
            spread = rewards.std(1)
            logged = {"reward": rewards.mean(), "reward_std": spread.mean()}
            logged["frac_reward_zero_std"] = np.mean(spread == 0)
            steps.append({"step": step} | {key: float(value) for key, value in logged.items()})
        paths = [
            _written(folder / f"{number}.jsonl", lines)
            for number, lines in enumerate((samples, groups, steps))
        ]
        print(f"\n{name}: {STEPS} steps of {PROMPTS} prompts with {SAMPLES} samples")
        options = ("--G", str(SAMPLES), "--format", "text")
        text = run("rlvr-audit", "inspect", "--file", paths[1], *options)
        print("rlvr-audit", *text.strip().splitlines()[1:], sep="\n  ")
        report = json.loads(run("rldoctor", "diagnose", paths[2], "--format", "json"))
        findings = [
            f"{each['severity']}: {each['summary']}"
            for each in report["findings"]
            if each["severity"] != "SKIPPED"  # it needs columns that no log here has
        ]
        print("rldoctor", *findings, sep="\n  ")
        result = audit(paths[0], budget=PROMPTS * SAMPLES, ks=(1, 4))
        share = f"{result.constant:.0%} of the groups have equal rewards"
        print("maxk-lab audit", share, f"Take: {result.advice}", *result.use, sep="\n  ")


def _written(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def main() -> None:
    """Print both comparisons."""
    install()
    with tempfile.TemporaryDirectory() as name:
        compare_bands(Path(name))
        compare_logs_of_trainings(Path(name))


if __name__ == "__main__":
    main()
