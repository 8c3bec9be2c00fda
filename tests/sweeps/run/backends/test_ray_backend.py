"""The Ray backend with a cluster that is made of paper: what it starts, and what it passes on."""

from __future__ import annotations

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
from maxk_lab.sweeps.run.backends.ray.backend import Needs, RayBackend
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.execution import Execution

Make = Callable[..., RayBackend]
TASK = Task(
    key="a",
    label="a unit",
    work=1.0,
    shares=True,
    unit={},
    cells=({"id": "c", "study": "weights"},),
    root="",
    measure="",
    provenance={},
)


class RayError(Exception):
    """Any trouble of Ray's."""


class RayTaskError(RayError):
    """An error in the function that ran on a node."""


class NodeDiedError(RayError):
    """The node is gone."""


class OwnerDiedError(RayError):
    """Whatever this is."""


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
    assert backend.room == 16 + 2
    backend.submit(TASK)
    assert backend.room == 17
    assert make(Paper(1)).room == 2
    assert make(Paper(8, 8), slots=3).room == 3
    # A cluster may grow once something is asked of it.
    assert make(Paper(0)).room == 1


@pytest.mark.parametrize(
    ("news", "why", "warning"),
    [
        ([], "its node told no end", ""),
        ([NodeDiedError("10.0.0.7 is gone")], "its node is gone", ""),
        # What Ray says of it stays on this machine.
        ([OwnerDiedError("10.0.0.7")], "Ray has lost it: OwnerDiedError", "a unit: .*10.0.0.7"),
    ],
)
def test_a_lost_unit_is_told_once(
    make: Make, recwarn: pytest.WarningsRecorder, news: list[Any], why: str, warning: str
) -> None:
    cluster = Paper(1)
    backend = make(cluster)
    backend.submit(TASK)
    cluster.heard = {0: news}
    if warning:
        with pytest.warns(LabWarning, match=warning):
            told = list(backend.events(0))
    else:
        told = list(backend.events(0))
    assert [(one.name, one.payload) for one in told] == [("lost", {"why": why})]
    assert names(backend) == []


def test_a_node_that_refuses_is_passed_over_and_the_last_one_ends_the_run(make: Make) -> None:
    cluster = Paper(1, 1, 0)
    backend = make(cluster)
    backend.submit(TASK)
    for number in range(2):
        why = f"host{number} has no disk"
        cluster.heard = {number: [[("refused", {"why": why, "node": f"node{number}"})]]}
        with pytest.warns(LabWarning, match=why):
            assert names(backend) == []
    selectors = [options.get("label_selector") for options, _ in cluster.started]
    assert selectors == [
        None,
        {"ray.io/node-id": "!in(node0)"},
        {"ray.io/node-id": "!in(node0,node1)"},
    ]
    why = "no node of the cluster can measure: host0 has no disk; host1 has no disk"
    with pytest.raises(RefusedError, match=why):
        names(backend)
    cluster.hosts.append({"CPU": 1.0})
    assert names(backend) == []


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


def test_a_node_has_room_for_as_many_units_as_its_scarcest_resource() -> None:
    node = {"CPU": 8.0, "GPU": 2.0, "memory": 10e9}
    assert Needs(1, 0, 0).slots(node) == 8
    assert Needs(1, 0.1, 0).slots(node) == 8
    assert Needs(1, 0.5, 0).slots(node) == 4
    assert Needs(2, 2, 6 * 10**9).slots(node) == 1
    assert Needs(1, 1, 0).slots({"CPU": 8.0}) == 0
