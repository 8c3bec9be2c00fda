"""Packing: single files of records into shards, and out of shards what has been replaced.

Whatever ends it, nothing is lost and nothing is changed: a file goes only once the shard with its
bytes is on the disk, and until then it counts before the shard. All of it is linear in what lies in
the folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from maxk_lab.files import StorageError, open_regular
from maxk_lab.sweeps.run.record_bytes import MOST_BYTES
from maxk_lab.sweeps.run.shards.archive import Archive, Stamp, stamp, write_archive
from maxk_lab.sweeps.run.shards.cells import Cells

# The records of a shard. Fewer stay files of their own: small runs have no shards.
RECORDS = 1_000
# A shard is full, too, when its records have so many bytes: so many are in memory at once.
FULL = 64 * 2**20
# Whether the bytes of a record, read from a file with this stamp, are sound.
IsSound = Callable[[str, Stamp, bytes], bool]
Moved = Callable[[str, Stamp, Stamp], None]


@dataclass
class _Batch:
    """Records for one shard, and the stamps of the files that they were read from."""

    records: dict[str, bytes] = field(default_factory=dict)
    stamps: dict[str, Stamp] = field(default_factory=dict)
    size: int = 0

    @property
    def full(self) -> bool:
        """Whether there is enough for a shard."""
        return len(self.records) >= RECORDS or self.size >= FULL


def is_full(records: int, size: int) -> bool:
    """Return whether so many records, of so many bytes, are enough for a shard."""
    return records >= RECORDS or size >= FULL


def pack(
    cells: Cells,
    is_sound: IsSound,
    moved: Moved,
    only: Collection[str] | None = None,
) -> int:
    """Pack sound records that are files of their own by a thousand, and return how many.

    Fewer than a thousand, and damaged ones, stay where they are. `only` has the ids of the cells to
    look at. `moved` is told of every record that has changed its place. Nobody else may write these
    records meanwhile; reading them is safe. Raises `StorageError` where a shard cannot be written.
    """
    cells.ids()
    _remove_packed(cells, moved, only)
    loose = sorted(cells.loose if only is None else cells.loose & set(only))
    if len(loose) < RECORDS:
        return 0
    number = max((archive.number for archive in cells.archives), default=0)
    packed = 0
    for batch in _batches(cells, loose, is_sound):
        number += 1
        archive = Archive.opened(write_archive(cells.folder, number, batch.records))
        if archive.members.keys() != batch.records.keys():
            raise StorageError(f"{archive.path} is not as it was written")
        cells.mark(archive)
        for cell_id, before in batch.stamps.items():
            if _remove(cells, cell_id, before):
                moved(cell_id, before, archive.stamp(cell_id))
        packed += len(batch.records)
    cells.ids()
    return packed


def write_packed(cells: Cells, records: Mapping[str, bytes]) -> None:
    """Write a shard of these records, which have no files of their own, all or nothing.

    Raises `StorageError` where it cannot be written.
    """
    cells.ids()
    number = max((archive.number for archive in cells.archives), default=0) + 1
    archive = Archive.opened(write_archive(cells.folder, number, records))
    if archive.members.keys() != records.keys():
        raise StorageError(f"{archive.path} is not as it was written")
    cells.mark(archive)


def drop_replaced(cells: Cells, also: Collection[str] = ()) -> None:
    """Write every shard anew without what lies in a newer place, too, and what `also` names.

    A shard with a damaged record that stays is left alone: `fsck` is to see it. Raises
    `StorageError` where one cannot be written; it stays as it was then.
    """
    cells.ids()
    unwanted = cells.loose | set(also)
    # The oldest first: what is newer is still there.
    for archive in cells.archives:
        kept = [
            one for one in archive.members if one not in unwanted and cells.packed(one) is archive
        ]
        if len(kept) < len(archive.members):
            _rewrite(cells, archive, kept)
    cells.ids()


def _rewrite(cells: Cells, archive: Archive, kept: Iterable[str]) -> None:
    """Put a shard of these records alone in the place of one; an empty one is removed."""
    try:
        records = {one: archive.read(one) for one in kept}
    except (OSError, ValueError):
        return
    anew = write_archive(cells.folder, archive.number, records) if records else None
    if anew != archive.path:
        archive.path.unlink(missing_ok=True)


def _remove_packed(cells: Cells, moved: Moved, only: Collection[str] | None) -> None:
    """Remove files whose very bytes are in a shard: whoever packed them was stopped before."""
    for cell_id in sorted(cells.loose if only is None else cells.loose & set(only)):
        archive = cells.packed(cell_id)
        if archive is None:
            continue
        try:
            before, data = _read(cells, cell_id)
            same = archive.read(cell_id) == data
        except (OSError, ValueError):
            continue
        if same and _remove(cells, cell_id, before):
            moved(cell_id, before, archive.stamp(cell_id))


def _batches(cells: Cells, loose: Iterable[str], is_sound: IsSound) -> Iterator[_Batch]:
    """Yield the full batches of sound records; what is left at the end stays where it is."""
    batch = _Batch()
    for cell_id in loose:
        try:
            before, data = _read(cells, cell_id)
        except (OSError, ValueError):
            continue
        if is_sound(cell_id, before, data):
            batch.records[cell_id], batch.stamps[cell_id] = data, before
            batch.size += len(data)
        if batch.full:
            yield batch
            batch = _Batch()


def _read(cells: Cells, cell_id: str) -> tuple[Stamp, bytes]:
    """Return the stamp and the bytes of a file. Raises `OSError` or `ValueError` as `files` do."""
    with open_regular(cells.path(cell_id), MOST_BYTES) as file:
        return stamp(os.fstat(file.fileno())), file.read()


def _remove(cells: Cells, cell_id: str, before: Stamp) -> bool:
    """Remove a file that has been packed, unless it has been replaced meanwhile.

    A file system has no way to remove a file only if it is this one: whoever packs sees to it that
    nobody replaces it between the look and the removal.
    """
    path = cells.path(cell_id)
    try:
        if stamp(os.stat(path)) != before:
            return False
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageError(f"{path} cannot be removed: {error.strerror}") from error
    return True
