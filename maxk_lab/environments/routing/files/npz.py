"""The arrays of an npz file by their headers: nothing of them is read, and no pickle is opened."""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path
from typing import IO

from numpy.lib import format as npy

from maxk_lab.errors import LabError, shortened

# Bytes that the arrays of one file may take, unpacked.
MOST_BYTES = 2**32


def shapes_in(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of every array. Raises `LabError` for what is no npz file of numbers."""
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
            if unpacked <= MOST_BYTES:
                return {
                    entry.filename.removesuffix(".npy"): _shape(
                        archive.open(entry), entry.file_size
                    )
                    for entry in archive.infolist()
                }
    except (OSError, ValueError, EOFError, RuntimeError, NotImplementedError) as error:
        reason = shortened(str(error), 200)
        raise LabError(f"{path} is no npz file of numbers: {reason}") from error
    except (zipfile.BadZipFile, zlib.error, RecursionError, SyntaxError) as error:
        raise LabError(f"{path} is no npz file of numbers: it is damaged") from error
    raise LabError(f"{path} unpacks to more than {MOST_BYTES:,} bytes")


def _shape(file: IO[bytes], there: int) -> tuple[int, ...]:
    """Return the shape in the header of an array. Raises `ValueError` for no array of numbers."""
    with file:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(file)
        there -= file.tell()
    if dtype.hasobject or dtype.kind not in "biuf":
        raise ValueError(f"an array of {dtype} is none of numbers")
    if math.prod(shape) * dtype.itemsize > there:
        raise ValueError(f"an array of shape {list(shape)} is longer than the file")
    return shape
