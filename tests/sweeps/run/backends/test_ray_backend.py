"""The Ray backend with a cluster that is made of paper: what it starts, and what it passes on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from maxk_lab.errors import LabWarning, RefusedError
from maxk_lab.sweeps.run.backends.backend import Task
from maxk_lab.sweeps.run.backends.ray import backend as module
from maxk_lab.sweeps.run.backends.ray.backend import RayBackend, patterns_of, stage
from maxk_lab.sweeps.run.backends.ray.node import new_files, version_refusal
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.execution import Execution

Make = Callable[..., RayBackend]
PROVENANCE = {
    "versions": {"maxk_lab": "1.0", "python": "3.11.7", "torch": "2.13.0"},
    "git": {"commit": "a" * 40, "dirty": False},
}
UNIT = {
    "policy": {"checkpoint": {"path": "trained.pt", "sha256": "0"}, "pretrained": "model"},
    "environment": {"file": {"path": "../a.npz", "sha256": "0"}, "rewards": ["mine:short"]},
    "more": {"path": "/no/such/file", "sha256": "0"},
}
TASK = Task(
    key="a",
    label="a unit",
    work=1.0,
    shares=True,
    unit={},
    cells=({"id": "c", "study": "weights"},),
    root="",
    measure="",
    provenance=PROVENANCE,
)


class RayError(Exception):
    """Any trouble of Ray's."""


class RayTaskError(RayError):
    """An error in the function that ran on a node."""


class NodeDiedError(RayError):
    """The node is gone."""


class Paper:
    """Stands in for Ray: nodes do nothing, and what they tell is put into `heard`."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, *cores: int, gpus: int = 0) -> None:
        self.hosts = [{"CPU": float(count), "GPU": float(gpus)} for count in cores]
        self.started: list[tuple[dict[str, Any], Any]] = []
        self.heard: dict[int, list[Any]] = {}
        self.cancelled: list[int] = []

    def remote(self, **options: Any) -> Callable[[object], Paper]:
        return lambda function: self

    def options(self, **options: Any) -> Any:
        def start(parcel: Any) -> int:
            self.started.append((options, parcel))
            return len(self.started) - 1

        return SimpleNamespace(remote=lambda parcel: PaperTask(self, start(parcel)))

    def get(self, told: Any) -> Any:
        if isinstance(told, Exception):
            raise told
        return told

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"NodeID": f"node{i}", "Alive": True, "Resources": one}
            for i, one in enumerate(self.hosts)
        ]

    def wait(self, tasks: list[PaperTask], **options: Any) -> tuple[list[PaperTask], list[Any]]:
        return [task for task in tasks if task.number in self.heard], []

    def cancel(self, task: PaperTask, force: bool) -> None:
        assert force
        self.cancelled.append(task.number)


class PaperTask:
    """A handle of a task, whose news are taken one by one."""

    def __init__(self, cluster: Paper, number: int) -> None:
        self.cluster, self.number = cluster, number

    def __next__(self) -> Any:
        news = self.cluster.heard[self.number]
        if not news:
            raise StopIteration
        return news.pop(0)


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Make]:
    monkeypatch.chdir(tmp_path)
    entered: list[RayBackend] = []

    def make(cluster: Paper, **execution: Any) -> RayBackend:
        @contextmanager
        def joined(address: str, cpus: int, files: Path) -> Iterator[Paper]:
            yield cluster

        monkeypatch.setattr(module, "joined", joined)
        run = RunDirectory("results/small")
        limits = Execution(**{"backend": "ray", "address": "here:1"} | execution)
        entered.append(RayBackend(run, limits, 2, [TASK]).__enter__())
        return entered[-1]

    yield make
    for one in entered:
        one.__exit__()


def names(backend: RayBackend) -> list[str]:
    return [told.name for told in backend.events(0)]


def test_there_is_room_for_all_cores_and_a_few_units_ahead(make: Make) -> None:
    backend = make(Paper(0, 8, 8))
    assert backend.room == 16 + 3
    backend.submit(TASK)
    assert backend.room == 18
    assert make(Paper(1)).room == 2
    assert make(Paper(8, 8), slots=3).room == 3
    # A cluster may grow once something is asked of it.
    assert make(Paper(0)).room == 1


@pytest.mark.parametrize(
    ("news", "why"),
    [
        ([], "Ray has lost it: StopIteration"),
        # What else Ray says of it stays on this machine.
        ([NodeDiedError("10.0.0.7 is gone")], "Ray has lost it: NodeDiedError"),
    ],
)
def test_a_lost_unit_is_told_once(make: Make, news: list[Any], why: str) -> None:
    cluster = Paper(1)
    backend = make(cluster)
    backend.submit(TASK)
    cluster.heard = {0: news}
    assert [(one.name, one.payload) for one in backend.events(0)] == [("lost", {"why": why})]
    assert names(backend) == []


def test_a_node_that_cannot_measure_ends_the_run(make: Make) -> None:
    cluster = Paper(1)
    backend = make(cluster)
    backend.submit(TASK)
    cluster.heard = {0: [RayTaskError("Traceback\nmaxk_lab.errors.LabError: node7: torch 1")]}
    with pytest.raises(RefusedError, match="a node cannot measure anything: node7: torch 1"):
        names(backend)


def test_left_units_are_cancelled_with_what_they_told_kept(make: Make) -> None:
    cluster = Paper(4)
    backend = make(cluster)
    for key in "ab":
        backend.submit(replace(TASK, key=key))
    cluster.heard = {1: [[("cell_done", {"cell": "c"})]]}
    backend.leave()
    told = [(one.key, one.name) for one in backend.events(0)]
    assert told == [("b", "cell_done"), ("a", "left"), ("b", "left")]
    assert cluster.cancelled == [0, 1]
    assert names(backend) == []


def test_what_no_node_has_is_told_once_and_refused_where_none_can_join(make: Make) -> None:
    backend = make(Paper(1), cpus=2)
    with pytest.warns(LabWarning, match=r"execution\.cpus 2, gpus 0"):
        names(backend)
    assert names(backend) == []
    alone = make(Paper(1), cpus=2, address="")
    with pytest.raises(RefusedError, match="this machine has not what a unit asks for"):
        names(alone)


@pytest.mark.parametrize(
    ("devices", "gpus", "uses", "received"),
    [
        (2, None, True, 1),
        (2, None, False, 0),
        (0, None, True, 0),
        (2, 0, True, 0),
        (2, 0.5, False, 0.5),
    ],
)
def test_a_unit_that_can_use_a_device_gets_one_where_there_is_any(
    make: Make, devices: int, gpus: float | None, uses: bool, received: float
) -> None:
    cluster = Paper(4, gpus=devices)
    make(cluster, gpus=gpus).submit(replace(TASK, on_device=uses))
    ((options, _),) = cluster.started
    assert (options["num_cpus"], options["num_gpus"]) == (1, received)


def test_what_a_unit_names_below_the_current_folder_travels_with_its_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {
        "data/a.npz": "",
        "data/b.npz": "",
        "trained.pt": "",
        "other.pt": "",
        "model/config.json": "{}",
        "mine.py": "import json\nfrom helpers.words import count\n",
        "helpers/__init__.py": "",
        "helpers/words.py": "import broken",
        "broken.py": "def (",
        "unrelated.py": "",
    }
    folder, target = tmp_path / "here", tmp_path / "there"
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    data = {"data": {"path": str(folder / "data"), "sha256": "0"}}

    def staged() -> tuple[set[str], tuple[str, ...]]:
        elsewhere = stage([replace(TASK, unit=UNIT | data)], folder, target)
        files = {path for path in target.rglob("*") if path.is_file()}
        return {str(path.relative_to(target)) for path in files}, elsewhere

    assert staged() == ({*texts} - {"other.pt", "unrelated.py"}, ("../a.npz", "/no/such/file"))
    # Of what is too much the largest file stays.
    shutil.rmtree(target)
    monkeypatch.setattr(module, "MOST_BYTES", 60)
    here, elsewhere = staged()
    assert ("mine.py" in here, elsewhere) == (False, ("../a.npz", "/no/such/file", "mine.py"))


def test_pools_do_not_travel_and_policies_do() -> None:
    unit = {"environment": {"name": "bandit"}, "policy": {}, "seed": 0, "warmup": None}
    cells = ({"id": "a", "study": "gradient"},)
    (pattern,) = patterns_of(replace(TASK, unit=unit, cells=cells))
    assert pattern.startswith("policy-")
    assert patterns_of(TASK) == ()


def test_new_and_changed_files_are_told_once_in_the_order_of_their_writing(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.pt").write_bytes(b"one")
    times: dict[str, int] = {}
    list(new_files(tmp_path, ("[az].pt",), times))
    for name in ("z.pt", "a.pt", ".partial-x.pt", "pool.npz"):
        (tmp_path / name).write_bytes(name.encode())
    os.utime(tmp_path / "z.pt", ns=(1, 1))
    news = [(one["name"], one["data"]) for _, one in new_files(tmp_path, ("[az].pt",), times)]
    assert news == [("z.pt", b"z.pt"), ("a.pt", b"a.pt")]
    assert list(new_files(tmp_path, ("[az].pt",), times)) == []


@pytest.mark.parametrize(
    ("versions", "git", "refused"),
    [
        ({"python": "3.11.9"}, PROVENANCE["git"], None),
        ({"python": "3.12.1"}, PROVENANCE["git"], "python 3.12, not 3.11"),
        ({"torch": "2.12.0"}, PROVENANCE["git"], "torch 2.12.0, not 2.13.0"),
        ({"maxk_lab": None}, PROVENANCE["git"], "maxk_lab not at all, not 1.0"),
        # Other code of the lab under the same version; an installed copy has no commit.
        ({}, {"commit": "b" * 40}, "commit bbbbbbb"),
        ({}, None, None),
    ],
)
def test_a_node_with_other_versions_is_refused(
    versions: dict[str, str | None], git: dict[str, str] | None, refused: str | None
) -> None:
    theirs = {"versions": PROVENANCE["versions"] | versions, "git": git}
    refusal = version_refusal(PROVENANCE, theirs)
    assert (refusal is None) == (refused is None)
    assert (refused or "") in (refusal or "")
