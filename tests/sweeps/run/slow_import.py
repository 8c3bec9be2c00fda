"""A measure in a module that takes long to import, as torch does in a new worker."""

from __future__ import annotations

import time

from fake_measures import quick as quick

time.sleep(5)
