"""The session with W&B itself: to start, to log in, and to begin a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from maxk_lab.errors import LabError

if TYPE_CHECKING:
    from maxk_lab.tracking.payload import Payload

# Seconds: to reach the server at all, and to upload what was logged.
INIT_TIMEOUT = 30.0
FINISH_TIMEOUT = 300.0
# Where W&B copies to what is to be uploaded, unless told otherwise: below the home of the user.
_DATA_FOLDER = "WANDB_DATA_DIR"


class NoKeyError(LabError):
    """There is no API key of W&B."""


@dataclass(frozen=True)
class Target:
    """The place where runs go: `folder` is that of the run of maxk-lab that they tell of."""

    mode: str
    project: str
    entity: str | None
    group: str
    folder: Path


def set_up() -> None:
    """Start wandb with the settings of the user, not of a folder that somebody else has filled.

    It reads `wandb/settings` of the current folder, which may name another server for the key. For
    the main thread: the current folder is another one meanwhile.
    """
    import wandb

    with TemporaryDirectory() as empty, chdir(empty):
        wandb.setup(settings=wandb.Settings(silent=True))


def log_in() -> None:
    """Find the API key and try it once. Raises, asking nobody, without one that works."""
    import wandb

    if not wandb.login(prompt=False, verify=True):
        raise NoKeyError(
            "online tracking needs an API key of W&B, and there is none: set WANDB_API_KEY or run: "
            "wandb login; or track offline (--mode offline, or tracking: {wandb: offline} in a "
            "sweep file), which needs no key and can be sent later"
        )


def begin(payload: Payload, target: Target) -> Any:
    """Begin the run of a payload; what is there under its id is replaced."""
    import wandb

    return wandb.init(
        entity=target.entity,
        project=target.project,
        group=target.group,
        id=payload.run_id,
        name=payload.name,
        job_type=payload.job_type,
        tags=list(payload.tags),
        notes=payload.notes,
        config=dict(payload.config),
        dir=str(target.folder.absolute()),  # its service has a current folder of its own
        mode=target.mode,  # type: ignore[arg-type]
        reinit="create_new",
        settings=wandb.Settings(
            silent=True,
            console="off",
            disable_code=True,
            # The records carry their own provenance; that of the sending process would mislead.
            disable_git=True,
            # Nor does anybody need to know on whose machine, and by what path.
            x_disable_meta=True,
            host="",
            x_disable_stats=True,
            x_save_requirements=False,
            init_timeout=INIT_TIMEOUT,
            finish_timeout=FINISH_TIMEOUT,
        ),
    )


@contextmanager
def copies_in(folder: Path) -> Iterator[None]:
    """Have W&B copy to `folder` what is to be uploaded, so that it goes when the run goes."""
    before = os.environ.get(_DATA_FOLDER)
    os.environ[_DATA_FOLDER] = str(folder.absolute())
    try:
        yield
    finally:
        if before is None:
            del os.environ[_DATA_FOLDER]
        else:
            os.environ[_DATA_FOLDER] = before
