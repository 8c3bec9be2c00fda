"""Print the path of the plug-in of ms-swift: `python -m maxk_lab.adapters.swift`."""

import sys
from pathlib import Path

sys.stdout.write(f"{Path(__file__).with_name('maxk_swift.py')}\n")
