"""Links in the place of the folders of a run, which would lead its writing to other places."""

from __future__ import annotations

from pathlib import Path

from maxk_lab.errors import LabError

# The folders of a run in which files are made and removed.
_FOLDERS = ("cells", "cache", "damaged", "drivers", "files", "jobs", "leases", "wandb")


def refuse_links(root: Path) -> None:
    """Raise `LabError` where a folder in which a run writes is a link; `root` itself may be one."""
    for path in (root / name for name in _FOLDERS):
        if path.is_symlink():
            raise LabError(
                f"{path} is a symbolic link, and a run writes through none; "
                "move the folder itself there, or link the folder of the whole run"
            )
