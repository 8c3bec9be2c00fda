#!/usr/bin/env python3
"""Fetch the libraries inside the HTML report, of the versions that files.json names.

Their hashes are kept there, so that git shows where a file is not the one that it was. It asks
npm's registry through `npm pack`, which checks what it is sent; Vega is the bundle that the
installed vl-convert makes.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "maxk_lab" / "reports" / "formats" / "html" / "libraries"
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


if __name__ == "__main__":
    packages = json.loads(LIST.read_text(encoding="utf-8"))
    for package in packages:
        paths = [told["from"] for told in package["files"].values()]
        found = published(package["package"], package["version"], paths)
        for name, told in package["files"].items():
            (FOLDER / name).write_bytes(found[told["from"]])
            told["sha256"] = hashlib.sha256(found[told["from"]]).hexdigest()
    LIST.write_text(json.dumps(packages, indent=1) + "\n", encoding="utf-8")
