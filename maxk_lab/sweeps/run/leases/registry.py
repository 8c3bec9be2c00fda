"""The folder of the drivers of a run: who is registered there, and who of them is dead."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from maxk_lab.files import PARTIAL
from maxk_lab.sweeps.run.leases.clock import AwakeClock, Silence
from maxk_lab.sweeps.run.leases.info import MOST_BYTES, DriverInfo
from maxk_lab.sweeps.run.leases.odd import read_in, refused

FOLDER = "drivers"
# The folder may be removed by somebody, and a file half written by one who tidies up.
_TRIES = 3


class Registry:
    """`<run>/drivers/<id>.json`, as a process with this clock sees it.

    One counts as dead when it ran beside this process and has ended, or when its file has been the
    same for `expiry` seconds in which this process was awake.
    """

    def __init__(self, root: Path, clock: AwakeClock, expiry: float) -> None:
        self.path = root / FOLDER
        self._silence, self._expiry = Silence(clock), expiry

    def path_of(self, driver: str) -> Path:
        """Return the file of a driver."""
        return self.path / f"{driver}.json"

    def write(self, info: DriverInfo) -> None:
        """Put a driver's file in place, whole at any moment. Raises `OSError`.

        It is not flushed to the disk: after a power cut its process is gone, too.
        """
        partial = self.path / f"{PARTIAL}{info.id}-{info.pid}"
        for left in reversed(range(_TRIES)):
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                partial.write_bytes(info.to_bytes())
                partial.replace(self.path_of(info.id))
                return
            except FileNotFoundError:
                if not left:
                    raise
            except OSError:
                with suppress(OSError):
                    partial.unlink()
                raise

    def remove(self, driver: str) -> None:
        """Remove the file of a driver. Raises `OSError`, but not where there is none."""
        self.path_of(driver).unlink(missing_ok=True)

    def living(self, driver: str) -> DriverInfo | None:
        """Return the driver of that id, None where it is dead or not registered."""
        try:
            found, sign = self._read(driver)
        except FileNotFoundError:
            return None
        return None if self._is_dead(found, sign) else found

    def all(self) -> Iterator[tuple[DriverInfo, bool]]:
        """Yield every one that is registered, and whether it is dead.

        Raises `RefusedError` where something lies there that is no file.
        """
        with self._opened() as folder:
            names = [] if folder is None else sorted(os.listdir(folder))
        for name in names:
            if name.endswith(".json") and not name.startswith("."):
                with suppress(FileNotFoundError):
                    found, sign = self._read(name.removesuffix(".json"))
                    yield found, self._is_dead(found, sign)

    def is_silent(self, what: str) -> bool:
        """Return whether something that never changes was first asked after for `expiry` ago."""
        return self._silence.of(what, b"") >= self._expiry

    def is_known_to_live(self, one: DriverInfo) -> bool:
        """Return whether one that is not dead was seen to live, beside this process or by a beat.

        Of others it is not known yet.
        """
        return one.is_neighbour() or self._silence.has_beaten(one.id)

    def _is_dead(self, one: DriverInfo, sign: bytes) -> bool:
        return self._silence.of(one.id, sign) >= self._expiry or one.has_ended()

    def _read(self, driver: str) -> tuple[DriverInfo, bytes]:
        with self._opened() as folder:
            if folder is None:
                raise FileNotFoundError(driver)
            data = read_in(folder, f"{driver}.json", self.path, MOST_BYTES)
        return DriverInfo.from_bytes(data, driver), data

    @contextmanager
    def _opened(self) -> Iterator[int | None]:
        with opened(self.path) as folder:
            yield folder


@contextmanager
def opened(path: Path) -> Iterator[int | None]:
    """Open a folder; None where there is none.

    Upon that NFS asks its server what is in it, and does not answer from what it remembers.
    """
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise refused(path, error) from error
    try:
        yield folder
    finally:
        os.close(folder)
