"""A shard: a zip file of records, each a member with the very bytes of the file that it was."""

from __future__ import annotations

import hashlib
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

from maxk_lab.files import open_regular, save_atomically
from maxk_lab.sweeps.run.record_bytes import MOST_BYTES

SUFFIX = ".zip"
# Equal to that of no other file or member, unless somebody writes into a file instead of replacing
# it, at the same size and at the same time.
Stamp = tuple[int, ...]
# The cheapest way to compress takes a quarter more room and half of the time.
_LEVEL = 1
# The first date that a zip file can tell: equal records give equal files.
_NO_DATE = (1980, 1, 1, 0, 0, 0)
_READABLE = 0o644 << 16
# What comes before the bytes of a member, up to its name: of it the lengths of the name and of what
# may follow the name are used.
_HEADING = struct.Struct("<4s22xHH")
# The end of a file: the size and the place of the list of its members, and of what comment follows.
_END = struct.Struct("<4s8xLLH")
# The letters of an id.
_ID = 16


class Member(NamedTuple):
    """The place of a record in its archive, and how its bytes were when it was packed."""

    heading: int
    packed: int
    size: int
    checksum: int
    method: int


@dataclass(frozen=True)
class Archive:
    """A shard on disk as it was when it was opened: its members by the ids of their cells."""

    path: Path
    own: Stamp
    members: Mapping[str, Member]

    @classmethod
    def opened(cls, path: Path) -> Self:
        """Read the list of the members, which is at the end of the file.

        Raises `OSError` where there is no file, and `ValueError` where its list is lost.
        """
        with open_regular(path, 2 * MOST_BYTES) as file:
            own = stamp(os.fstat(file.fileno()))
            try:
                with zipfile.ZipFile(file) as listed:
                    found = listed.infolist()
            # What damaged bytes ask for may be anything, such as a version that nobody has.
            except (zipfile.BadZipFile, RuntimeError, ValueError, EOFError) as error:
                raise ValueError(str(error)) from error
        return cls(path, own, {cell_id: _member(one) for one in found if (cell_id := _cell(one))})

    @property
    def number(self) -> int:
        """The number in its name: of two shards with a record of one cell the higher one counts."""
        digits = self.path.name.partition("-")[0]
        return int(digits) if digits.isdecimal() else 0

    def stamp(self, cell_id: str) -> Stamp:
        """Return what tells its record of a cell from every other one."""
        return (*self.own, self.members[cell_id].heading)

    def read(self, cell_id: str) -> bytes:
        """Return the bytes of a record.

        Raises `FileNotFoundError` where another file or none is in its place, and `ValueError` that
        says what is damaged.
        """
        member = self.members[cell_id]
        if member.size > MOST_BYTES:
            raise ValueError(f"it has {member.size:,} bytes, and at most {MOST_BYTES:,} are read")
        packed = self.raw(cell_id)
        if member.method == zipfile.ZIP_STORED:
            data = packed
        elif member.method == zipfile.ZIP_DEFLATED:
            try:
                # One byte more than it should have, and no more whatever it may unfold to.
                data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, member.size + 1)
            except zlib.error as error:
                raise ValueError(f"it cannot be unpacked: {error}") from error
        else:
            raise ValueError("it is compressed in a way that no shard is")
        if len(data) != member.size or zlib.crc32(data) != member.checksum:
            raise ValueError("its bytes are not those that were packed")
        return data

    def raw(self, cell_id: str) -> bytes:
        """Return the bytes of a record as they lie in the file. Raises as `read`."""
        member = self.members[cell_id]
        with open_regular(self.path) as file:
            if stamp(os.fstat(file.fileno())) != self.own:
                raise FileNotFoundError(f"{self.path} was replaced")
            file.seek(member.heading)
            heading = file.read(_HEADING.size)
            if len(heading) < _HEADING.size or not heading.startswith(b"PK\x03\x04"):
                raise ValueError("its heading is not as it was written")
            _, name, more = _HEADING.unpack(heading)
            file.seek(name + more, os.SEEK_CUR)
            return file.read(member.packed)


def stamp(status: os.stat_result) -> Stamp:
    """Return what tells a file from every other that lies or lay in its place."""
    return status.st_ino, status.st_mtime_ns, status.st_size


def listed_ids(path: Path) -> list[str]:
    """Return the ids of the cells with a record in a shard; none where its list cannot be read.

    They are taken from the text of the list, which is many times faster than to open the shard, and
    among them may be what is no id: who looks for a cell looks at its record next.
    """
    try:
        with open_regular(path, 2 * MOST_BYTES) as file:
            file.seek(-_END.size, os.SEEK_END)
            mark, size, begin, comment = _END.unpack(file.read(_END.size))
            if mark != b"PK\x05\x06" or comment:
                return []
            file.seek(begin)
            listed = file.read(size).decode("latin-1")
    except (OSError, ValueError):
        return []
    return [part[-_ID:] for part in listed.split(".json")]


def write_archive(folder: Path, number: int, records: Mapping[str, bytes]) -> Path:
    """Write a shard of these records into `folder`, all or nothing, and return its path.

    Its name has its number and a hash of its content. Raises `StorageError` where it cannot be
    written.
    """
    content = hashlib.sha256()
    for cell_id in sorted(records):
        content.update(f"{cell_id} {len(records[cell_id])}\n".encode())
        content.update(records[cell_id])
    path = folder / f"{number:06d}-{content.hexdigest()[:16]}{SUFFIX}"
    save_atomically(path, lambda file: _write(file, records, zipfile.ZIP_DEFLATED))
    return path


def shard_bytes(records: Mapping[str, bytes], method: int) -> bytes:
    """Return a shard of these records, compressed by a method of `zipfile`."""
    file = io.BytesIO()
    _write(file, records, method)
    return file.getvalue()


def member_info(name: str) -> zipfile.ZipInfo:
    """Return the heading of a member of this name: the same on every day and every system."""
    info = zipfile.ZipInfo(name, _NO_DATE)
    info.create_system, info.external_attr = 3, _READABLE
    return info


def _write(file: BinaryIO, records: Mapping[str, bytes], method: int) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for cell_id in sorted(records):
            info = member_info(f"{cell_id}.json")
            archive.writestr(info, records[cell_id], method, _LEVEL)


def _member(one: zipfile.ZipInfo) -> Member:
    return Member(one.header_offset, one.compress_size, one.file_size, one.CRC, one.compress_type)


def _cell(one: zipfile.ZipInfo) -> str:
    """Return the id of the cell that a member is of, or nothing: only records are looked at."""
    name = one.filename
    odd = "/" in name or name.startswith(".") or not name.endswith(".json")
    return "" if odd else name.removesuffix(".json")
