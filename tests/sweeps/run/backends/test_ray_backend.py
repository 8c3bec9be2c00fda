"""The Ray backend with a cluster that is made of paper: what it starts, and what it passes on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from maxk_lab.errors import LabError, LabWarning, RefusedError
from maxk_lab.sweeps.run.backends.backend import Task
from maxk_lab.sweeps.run.backends.ray import backend as module
from maxk_lab.sweeps.run.backends.ray.backend import RayBackend
from maxk_lab.sweeps.run.backends.ray.cluster import Heard, Needs, Node
from maxk_lab.sweeps.run.backends.ray.losses import reason
from maxk_lab.sweeps.run.backends.ray.parcel import Parcel
from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.execution import Execution

Make = Callable[..., RayBackend]


class Paper:
    """A cluster of nodes that do nothing; what they tell is put into `heard`."""

    scratch = ""

    def __init__(self, *cores: int) -> None:
        self.there = [Node(f"node{i}", f"host{i}", {"CPU": float(n)}) for i, n in enumerate(cores)]
        self.started: list[tuple[int, Parcel, list[str]]] = []
        self.kept: dict[str, bytes] = {}
        self.given: list[Needs] = []
        self.cancelled: list[int] = []
        self.heard: list[Heard] = []

    def nodes(self) -> list[Node]:
        return self.there

    def keep(self, sha256: str, data: bytes) -> None:
        self.kept[sha256] = data

    def forget(self, hashes: Collection[str]) -> None:
        for sha256 in hashes:
            del self.kept[sha256]

    def start(self, number: int, parcel: Parcel, needs: Needs, without: Collection[str]) -> None:
        assert parcel.hashes <= set(self.kept)
        self.started.append((number, parcel, sorted(without)))
        self.given.append(needs)

    def poll(self, seconds: float) -> list[Heard]:
        told, self.heard = self.heard, []
        return told

    def cancel(self, number: int) -> None:
        self.cancelled.append(number)

    def close(self) -> None:
        pass


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Make]:
    monkeypatch.chdir(tmp_path)
    entered: list[RayBackend] = []

    def make(cluster: Paper, **execution: Any) -> RayBackend:
        @contextmanager
        def opened(address: str, cpus: int) -> Iterator[Paper]:
            yield cluster

        monkeypatch.setattr(module, "opened", opened)
        run = RunDirectory("results/small")
        limits = Execution(**{"backend": "ray", "address": "here:1"} | execution)
        entered.append(RayBackend(run, limits, 2, ()).__enter__())
        return entered[-1]

    yield make
    for one in entered:
        one.__exit__()


def task(key: str = "a") -> Task:
    return Task(
        key=key,
        label="a unit",
        work=1.0,
        shares=True,
        unit={"policy": {"checkpoint": {"path": "trained.pt", "sha256": "0"}}},
        cells=({"id": "c", "study": "weights"},),
        root="",
        measure="",
        provenance={},
    )


def test_there_is_room_for_all_cores_and_a_few_units_ahead(make: Make) -> None:
    cluster = Paper(0, 8, 8)
    ray = make(cluster)
    assert ray.room == 16 + 2
    ray.submit(task())
    assert ray.room == 17
    assert make(Paper(1)).room == 2
    assert make(Paper(8, 8), slots=3).room == 3
    # A cluster may grow once something is asked of it.
    assert make(Paper(0)).room == 1


def test_what_nodes_tell_is_passed_on_until_the_unit_ends(make: Make) -> None:
    cluster = Paper(1)
    ray = make(cluster)
    ray.submit(task())
    items = [("cell_done", {"cell": "c", "record": b"one"}), ("unit_finished", {})]
    cluster.heard = [Heard(0, items), Heard(0, ended=True)]
    told = [(one.key, one.name, one.payload) for one in ray.events(0)]
    assert told == [
        ("a", "cell_done", {"cell": "c", "record": b"one"}),
        ("a", "unit_finished", {}),
    ]
    assert ray.room == 2


@pytest.mark.parametrize(
    ("heard", "why"),
    [
        (Heard(0, lost="its node is gone"), "its node is gone"),
        (Heard(0, ended=True), "its node told no end"),
    ],
)
def test_a_lost_unit_is_told_once(make: Make, heard: Heard, why: str) -> None:
    cluster = Paper(1)
    ray = make(cluster)
    ray.submit(task())
    cluster.heard = [heard, heard]
    assert [(one.name, one.payload) for one in ray.events(0)] == [("lost", {"why": why})]


def test_what_ray_says_of_a_loss_stays_on_this_machine(make: Make) -> None:
    cluster = Paper(1)
    ray = make(cluster)
    ray.submit(task())
    lost = "Ray has lost it: OwnerDiedError"
    cluster.heard = [Heard(0, lost=lost, detail="of 10.0.0.7 at /home/me")]
    with pytest.warns(LabWarning, match=r"a unit: Ray has lost it: .*: of 10\.0\.0\.7 at /home/me"):
        (told,) = ray.events(0)
    assert told.payload == {"why": lost}


def test_the_reason_of_a_loss_is_its_kind_alone() -> None:
    class OwnerDiedError(Exception):
        pass

    class NodeDiedError(Exception):
        pass

    text = "owner 10.0.0.7 is gone"
    assert reason(OwnerDiedError(text)) == ("Ray has lost it: OwnerDiedError", text)
    assert reason(NodeDiedError(text)) == ("its node is gone", "")


def test_a_node_that_sees_nothing_gets_the_files_and_from_then_on_all_do(make: Make) -> None:
    Path("trained.pt").write_bytes(b"policy")
    cluster = Paper(1)
    ray = make(cluster)
    ray.submit(task())
    assert cluster.started[0][1].luggage is None
    cluster.heard = [Heard(0, [("blind", {})])]
    assert list(ray.events(0)) == []
    ray.submit(task("b"))
    for _, parcel, _ in cluster.started[1:]:
        assert parcel.luggage is not None
        assert set(parcel.luggage.here) == {"trained.pt"}
    assert list(cluster.kept.values()) == [b"policy"]
    cluster.heard = [Heard(n, [("unit_finished", {})]) for n in (1, 2)]
    assert len(list(ray.events(0))) == 2
    assert not cluster.kept


def test_a_node_that_refuses_is_passed_over_and_the_last_one_ends_the_run(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Paper(1, 1, 0)
    ray = make(cluster)
    ray.submit(task())
    cluster.heard = [Heard(0, [("refused", {"why": "host0 has no disk", "node": "node0"})])]
    with pytest.warns(LabWarning, match="host0 has no disk"):
        assert list(ray.events(0)) == []
    assert cluster.started[1][2] == ["node0"]
    cluster.heard = [Heard(1, [("refused", {"why": "host1 has no disk", "node": "node1"})])]
    with pytest.warns(LabWarning, match="host1 has no disk"):
        assert list(ray.events(0)) == []
    # One that joins now may not be in the list of nodes yet.
    assert list(ray.events(0)) == []
    why = "no node of the cluster can measure: host0 has no disk; host1 has no disk"
    monkeypatch.setattr(module, "_NODES_TOLD", -1.0)
    with pytest.raises(RefusedError, match=why):
        list(ray.events(0))
    monkeypatch.setattr(module, "_NODES_LAST", -1.0)
    cluster.there.append(Node("node3", "host3", {"CPU": 1.0}))
    assert list(ray.events(0)) == []


def test_left_units_are_cancelled_and_told_no_more(make: Make) -> None:
    cluster = Paper(4)
    ray = make(cluster)
    for key in "abc":
        ray.submit(task(key))
    ray.leave()
    assert [(one.key, one.name) for one in ray.events(0)] == [(key, "left") for key in "abc"]
    assert cluster.cancelled == [0, 1, 2]
    assert list(ray.events(0)) == []


def test_a_run_on_ray_cannot_go_on_alone(make: Make) -> None:
    with pytest.raises(LabError, match="backend slurm"):
        make(Paper(1)).detach()


def test_what_no_node_has_is_told_once_and_refused_where_none_can_join(make: Make) -> None:
    ray = make(Paper(1), cpus=2)
    with pytest.warns(LabWarning, match=r"execution\.cpus 2, gpus 0"):
        list(ray.events(0))
    assert list(ray.events(0)) == []
    alone = make(Paper(1), cpus=2, address="")
    with pytest.raises(RefusedError, match="this machine has not what a unit asks for"):
        list(alone.events(0))


@pytest.mark.parametrize(
    ("devices", "gpus", "uses", "given"),
    [
        (2, None, True, 1),
        (2, None, False, 0),
        (0, None, True, 0),
        (2, 0, True, 0),
        (2, 0.5, False, 0.5),
    ],
)
def test_a_unit_that_can_use_a_device_gets_one_where_there_is_any(
    make: Make, devices: int, gpus: float | None, uses: bool, given: float
) -> None:
    cluster = Paper(4)
    cluster.there = [Node("a", "a", {"CPU": 4.0, "GPU": float(devices)})]
    make(cluster, gpus=gpus).submit(replace(task(), on_device=uses))
    assert cluster.given == [Needs(1, given, 0)]


def test_nothing_of_the_backend_stays_in_the_cache(make: Make) -> None:
    ray = make(Paper(1))
    assert len(list(Path("results/small/cache").iterdir())) == 1
    ray.__exit__()
    assert not list(Path("results/small/cache").iterdir())
