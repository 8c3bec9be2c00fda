"""The plug-in of ms-swift: its path, for the command line of swift."""

import subprocess
import sys
from pathlib import Path


def test_the_plug_in_of_ms_swift_lies_alone():
    command = [sys.executable, "-m", "maxk_lab.adapters.swift"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    plugin = Path(done.stdout.strip())
    assert plugin.name == "maxk_swift.py"
    # ms-swift puts its folder first among those that are searched for modules.
    names = {path.name for path in plugin.parent.glob("*.py")}
    assert names == {"__init__.py", "__main__.py", plugin.name}
