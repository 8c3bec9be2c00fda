#!/usr/bin/env python3
"""Fetch the libraries inside the HTML report: the very files whose hashes are kept.

    python .ci/fetch_libraries.py          fetch them anew; a file of another hash is refused
    python .ci/fetch_libraries.py --new    of the versions that files.json names; keep their hashes

It asks npm's registry through `npm pack`, which checks what it is sent; Vega is the bundle that the
installed vl-convert makes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "maxk_lab" / "report" / "formats" / "html" / "libraries"
LIST = FOLDER / "files.json"


def published(package: str, version: str, wanted: list[str]) -> dict[str, bytes]:
    """Return files of a package as npm or vl-convert has it, by their paths inside it."""
    if package == "vl-convert-python":
        import vl_convert

        if vl_convert.__version__ != version:
            sys.exit(
                f"vl-convert-python {version} is to be installed, not {vl_convert.__version__}"
            )
        return {path: vl_convert.javascript_bundle().encode() for path in wanted}
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", f"{package}@{version}", "--silent", "--pack-destination", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(folder).iterdir()
        with tarfile.open(archive) as packed:
            found = {path: packed.extractfile(f"package/{path}") for path in wanted}
            return {path: content.read() for path, content in found.items() if content}


def wrong(packages: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the files that are not here with the hash that is kept."""
    for package in packages:
        for name, told in package["files"].items():
            path = FOLDER / name
            if not path.is_file() or digest(path.read_bytes()) != told["sha256"]:
                yield name


def digest(content: bytes) -> str:
    """Return the SHA-256."""
    return hashlib.sha256(content).hexdigest()


def main() -> int:
    """Write the files; 1 where one has another hash."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--new", action="store_true", help="keep the hashes of what is fetched")
    new = parser.parse_args().new
    packages = json.loads(LIST.read_text(encoding="utf-8"))
    for package in packages:
        files = package["files"]
        paths = [told["from"] for told in files.values()]
        found = published(package["package"], package["version"], paths)
        for name, told in files.items():
            content = found[told["from"]]
            if new:
                told["sha256"] = digest(content)
            elif digest(content) != told["sha256"]:
                print(
                    f"{package['package']}: {name} is not the file that was kept", file=sys.stderr
                )
                return 1
            (FOLDER / name).write_bytes(content)
    LIST.write_text(json.dumps(packages, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
