"""The sizes that a study needs for its verdicts. Imports nothing, so that a plan can know them."""

from __future__ import annotations

# Groups of an instance without which a bias on it cannot be tested.
LEAST_GROUPS = 4
# Groups of an instance without which it is not known how small a bias a test could see.
GROUPS_TO_SEE = 16
