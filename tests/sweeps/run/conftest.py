"""Makes `fake_measures` importable: workers get the `sys.path` of this process."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
