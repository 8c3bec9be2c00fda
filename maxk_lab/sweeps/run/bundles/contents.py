"""The files in a bundle: looked at as a whole before anything is read, and checked one by one."""

from __future__ import annotations

import hashlib
import lzma
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from maxk_lab.errors import LabError, shown
from maxk_lab.files import open_regular
from maxk_lab.sweeps.run.bundles.manifest import MANIFEST, LaterFormatError, Manifest
from maxk_lab.sweeps.run.record_bytes import MOST_BYTES
from maxk_lab.sweeps.run.shards.archive import Stamp, stamp

SUFFIX = ".zip"
SPEC = "spec.yaml"
CELLS, CACHE, FILES, REPORT = "cells", "cache", "files", "report"
# A step of a name; none is hidden, and none leads upwards or is a drive.
_STEP = r"(?!\.)[^/\\:\x00-\x1f\x7f]{1,200}"
_NAME = re.compile(
    rf"{re.escape(MANIFEST)}|{re.escape(SPEC)}|{CELLS}/{_STEP}\.zip|{CACHE}/{_STEP}"
    rf"|(?:{FILES}|{REPORT})/{_STEP}(?:/{_STEP}){{0,3}}"
)
# Of so many bytes nothing is suspected; of more, when it is so many times the size of the bundle.
_FREE, _UNFOLDED = 256 * 2**20, 1000
_PIECE = 2**20
# What damaged bytes ask for may be anything, such as a password or an unknown compression.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,
    ValueError,
    OSError,
)


@dataclass(frozen=True)
class Contents:
    """The files of a bundle as it was when it was opened, by their names, with their sizes."""

    path: Path
    own: Stamp
    manifest: Manifest
    sizes: Mapping[str, int]

    @classmethod
    def opened(cls, path: Path) -> Self:
        """Look at a bundle. Raises `LabError` for a file that is none, or that is not safe to read.

        Its files may be damaged all the same; whoever reads one is told.
        """
        try:
            with open_regular(path) as file:
                own = stamp(os.fstat(file.fileno()))
                with zipfile.ZipFile(file) as archive:
                    found = archive.infolist()
                    names = [one.filename for one in found]
                    if MANIFEST not in names:
                        raise ValueError(f"it is a zip file without {MANIFEST}")
                    for one in found:
                        _check_member(one)
                    if len(set(names)) < len(names):
                        raise ValueError("it has two files of one name")
                    _check_unfolded(sum(one.file_size for one in found), own[-1])
                    manifest = Manifest.from_bytes(_read(archive, MANIFEST, MOST_BYTES))
        except FileNotFoundError:
            raise LabError(f"{path} does not exist") from None
        except LaterFormatError as error:
            raise LabError(f"{path} cannot be read: {error}") from None
        except zipfile.BadZipFile as error:
            raise LabError(
                f"{path} is no bundle, or what is left of a damaged one: {error}; "
                "have it sent again, or made anew: maxk-lab bundle RUN"
            ) from None
        except _DAMAGE as error:
            raise LabError(f"{path} is no bundle of maxk-lab: {error}") from None
        unlisted = sorted({*names} - {MANIFEST, *manifest.files})
        if unlisted:
            raise LabError(
                f"{path} is no bundle of maxk-lab: its {MANIFEST} does not list {unlisted[0]}"
            )
        return cls(path, own, manifest, {one.filename: one.file_size for one in found})

    def read(self, name: str) -> bytes:
        """Return the bytes of a file. Raises `ValueError` where they are not as bundled."""
        data = self.read_unchecked(name)
        if hashlib.sha256(data).hexdigest() != self.manifest.files[name]:
            raise ValueError("its bytes are not those that were bundled")
        return data

    def read_unchecked(self, name: str) -> bytes:
        """Return what can be unpacked. Raises `ValueError` where that is nothing."""
        if name not in self.sizes:
            raise ValueError("it is missing from the bundle")
        try:
            with open_regular(self.path) as file:
                if stamp(os.fstat(file.fileno())) != self.own:
                    raise ValueError("the bundle was replaced while it was read")
                with zipfile.ZipFile(file) as archive:
                    return _read(archive, name, self.sizes[name])
        except _DAMAGE as error:
            raise ValueError(str(error) or "it cannot be unpacked") from None

    def named(self, folder: str) -> list[str]:
        """Return the names of the files in a folder of the bundle."""
        return sorted(name for name in self.manifest.files if name.startswith(f"{folder}/"))


def is_bundle(path: str | Path) -> bool:
    """Whether a path is that of a file which would be a bundle, by its name."""
    return Path(path).suffix == SUFFIX and os.path.isfile(path)


def has_manifest(path: Path) -> bool:
    """Whether a file looks like a bundle, at a glance."""
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            return MANIFEST in archive.namelist()
    except _DAMAGE:
        return False


def is_name(name: str) -> bool:
    """Whether a file in a bundle may have this name."""
    return _NAME.fullmatch(name) is not None and ".." not in name.split("/")


def _check_member(one: zipfile.ZipInfo) -> None:
    """Raise `ValueError` for what no bundle has, and would not be safe to unpack."""
    # The name as it lies in the file: the library cuts it at the first null byte.
    name, mode = one.orig_filename, one.external_attr >> 16
    if not is_name(name):
        raise ValueError(f"it has a file that no bundle has: {shown(name)}")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise ValueError(f"{shown(name)} is no file in it but a link, or another thing")


def _check_unfolded(size: int, packed: int) -> None:
    if size > _FREE and size > _UNFOLDED * packed:
        raise ValueError(f"its {packed:,} bytes would unfold to {size:,}, which no record does")


def _read(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """Return a file, and no more of it than it may have, whatever it would unfold to."""
    pieces, left = [], most + 1
    with archive.open(name) as member:
        while left > 0 and (piece := member.read(min(_PIECE, left))):
            pieces.append(piece)
            left -= len(piece)
    if left <= 0:
        raise ValueError(f"its {name} has more than {most:,} bytes")
    return b"".join(pieces)
