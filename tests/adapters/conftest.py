"""Nothing of the adapters' tests asks a hub."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
