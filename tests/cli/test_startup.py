"""The verbs that must answer at once import nothing heavy."""

import json
import subprocess
import sys
from pathlib import Path

HEAVY = ("torch", "rl4co", "wandb", "pandas", "numpy", "scipy", "rich.progress", "ray")
# Runs the program with each of the command lines, one after the other, and says as its last line
# which heavy libraries were there after each.
PROBE = f"""
import json, sys
from maxk_lab.cli import app
found = []
for arguments in json.loads(sys.argv[1]):
    try:
        app(arguments)
    except SystemExit as exit:
        assert exit.code in (0, None), (arguments, exit.code)
    found.append([name for name in {HEAVY!r} if name in sys.modules])
print(json.dumps(found))
"""
QUICK = [
    line.split()
    for line in (
        "--help",
        "--version",
        "run --help",
        "plan tiny.yaml",
        "run sweep.yaml",  # all its cells have a record
        *(f"list {kind}" for kind in ("estimators", "baselines", "environments")),
        *("show", "list tasks", "list rewards"),
        "plan tiny.yaml --set execution.backend=ray",
        "plan language.yaml tiny.yaml",
    )
]

LANGUAGE = """\
name: language
seeds: [0]
environment: {name: toy_llm, rewards: [exact_match, single_symbol], reward_weights: [1, 0.1]}
training: {grid: {estimator: maxk, baseline: [otb_loo, eob_loo], n: 8, k: 1}}
"""


def heavy(probe, *commands):
    """The heavy libraries that a process has imported after each of these command lines."""
    command = [sys.executable, "-c", probe, json.dumps(commands)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    libraries = json.loads(done.stdout.splitlines()[-1])
    return libraries


def test_quick_verbs_import_nothing_heavy(sweep, write_run):
    write_run()
    Path("language.yaml").write_text(LANGUAGE, encoding="utf-8")
    assert list(zip(QUICK, heavy(PROBE, *QUICK))) == [(verb, []) for verb in QUICK]
    probe = PROBE.replace("import json, sys\n", "import json, numpy, sys\n", 1)
    assert heavy(probe, ["--version"]) == [["numpy"]], "it sees a heavy import"
