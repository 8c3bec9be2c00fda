"""Files of arrays by their headers: damaged, huge and pickled ones are refused unread."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sweep_files import Write, problems

from maxk_lab.environments.routing.files.npz import MOST_BYTES, shapes_in
from maxk_lab.errors import LabError

SWEEP = """\
name: given
seeds: [0]
environment: {name: tsp, num_loc: 5}
training:
  steps: 2
  batch: 8
  evaluate:
    instances: 6
    samples: 4
    data: some.npz
  grid: {estimator: maxk, baseline: none, n: 4, k: 2}
"""
TSP = """\
NAME : five
TYPE : TSP
DIMENSION : 5
EDGE_WEIGHT_TYPE : EUC_2D
NODE_COORD_SECTION
1 10 20
2 10 60
3 30 20
4 30 60
5 20 100
EOF
"""


class Trap:
    """Tells when it is unpickled."""

    sprung = False

    def __reduce__(self) -> Any:
        return setattr, (Trap, "sprung", True)


def test_shapes_are_read_from_headers(tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    np.savez_compressed(path, locs=np.zeros((6, 5, 2), np.float32), n=np.arange(6))
    assert shapes_in(path) == {"locs": (6, 5, 2), "n": (6,)}


def bomb(path: Path) -> None:
    """A file of a few kB whose one array says that it has so many bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("locs.npy", b"\\0")
        archive.infolist()[0].file_size = MOST_BYTES + 1


def longer(path: Path) -> None:
    """An array that says that it has more numbers than follow."""
    array = io.BytesIO()
    np.save(array, np.zeros(4))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("locs.npy", array.getvalue().replace(b"(4,)", b"(9,)"))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.write_bytes(b"PK"), "it is damaged"),
        (lambda path: path.write_bytes(b""), "it is damaged"),
        (bomb, "unpacks to more than"),
        (longer, "an array of shape [9] is longer than the file"),
        (lambda path: np.savez(path, locs=np.array(["x"])), "an array of <U1 is none of numbers"),
        (lambda path: np.savez(path, locs=np.array([Trap()])), "an array of object is none"),
    ],
)
def test_what_holds_no_numbers_is_refused(tmp_path: Path, make: Any, words: str) -> None:
    path = tmp_path / "some.npz"
    make(path)
    with pytest.raises(LabError) as caught:
        shapes_in(path)
    assert words in str(caught.value)
    assert not Trap.sprung


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"locs": np.array([Trap()])}, "some.npz is no npz file of numbers: an array of object"),
        ({"places": np.zeros((6, 5, 2), np.float32)}, "some.npz lacks "),
        ({"locs": np.zeros((6, 5, 3), np.float32)}, "some.npz: locs must have the shape "),
        ({"locs": np.zeros(6, np.float32)}, "some.npz: locs must have the shape "),
        ({"locs": np.zeros((), np.float32)}, "some.npz: all arrays must have the instances"),
    ],
)
def test_a_file_that_a_run_could_not_read_is_refused_before(
    write: Write, arrays: dict[str, Any], words: str
) -> None:
    arrays = {"depot": np.zeros((6, 2), np.float32)} | arrays if "places" not in arrays else arrays
    np.savez("some.npz", **arrays)
    (problem,) = problems(write(SWEEP))
    assert problem.startswith(f"sweep.yaml:10:11: training.evaluate.data: {words}")


def test_fewer_instances_than_asked_for_are_refused(write: Write) -> None:
    Path("one.tsp").write_text(TSP, encoding="utf-8")
    (problem,) = problems(write(SWEEP), "training.evaluate.data=one.tsp")
    assert problem == (
        "sweep.yaml:8:16: training.evaluate.instances: must be at most 1, the instances in "
        "one.tsp, got 6"
    )
