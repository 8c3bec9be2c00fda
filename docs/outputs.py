"""Run the commands of pages and write what they print below them.

python docs/outputs.py PAGE...            write the outputs
python docs/outputs.py --check PAGE...    fail if an output has changed

A page runs in a new folder that has copies of examples/ and experiments/. A code block after a
comment `<!-- file: NAME -->` is written to this file. In a block `console` a line `$ COMMAND` is
run and its output, without stderr, takes the place of the lines below it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(?:<!-- file: (\S+) -->\n)?```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Durations and dates differ between runs.
VARIES = re.compile(r"(\d+ (h|min) )*\d+(\.\d+)? (s|seconds|minutes)\b|\d{4}-\d\d-\d\d")


def run_page(text: str, folder: Path) -> str:
    """Return a page with the outputs of its commands, run in `folder`."""
    paths = [str(ROOT / ".venv/bin"), os.environ["PATH"]]
    environment = os.environ | {
        "PATH": os.pathsep.join(paths),
        "COLUMNS": "100",
        "OMP_NUM_THREADS": "1",
    }

    def run_block(block: re.Match[str]) -> str:
        name, language, body = block.groups()
        if name:
            (folder / name).write_text(body, encoding="utf-8")
        if language != "console":
            return block[0]
        printed = []
        for command in re.findall(r"^\$ (.*)$", body, re.MULTILINE):
            done = subprocess.run(
                ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True
            )
            if done.returncode > 1:
                raise SystemExit(f"$ {command}\n{done.stdout}{done.stderr}")
            printed.append(f"$ {command}\n{done.stdout.rstrip()}".rstrip())
        lines = "\n".join(printed).splitlines()
        return "\n".join(["```console", *(line.rstrip() for line in lines), "```"])

    return BLOCK.sub(run_block, text)


def main() -> int:
    """Write the outputs, or compare them with the pages. Returns the exit code."""
    check, changed = "--check" in sys.argv[1:], []
    for page in (Path(word) for word in sys.argv[1:] if word != "--check"):
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            for name in ("examples", "experiments"):
                shutil.copytree(ROOT / name, Path(folder) / name)
            output = run_page(text, Path(folder))
        if not check:
            page.write_text(output, encoding="utf-8")
        elif VARIES.sub("…", output) != VARIES.sub("…", text):
            changed.append(str(page))
            Path(tempfile.gettempdir(), page.name).write_text(output, encoding="utf-8")
    if changed:
        print(
            f"outputs have changed: {', '.join(changed)}; run: make docs-outputs", file=sys.stderr
        )
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
