"""Instances in files: exact round trips, RL4CO's own reading, TSPLIB, CVRPLIB, and refusals."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from small_environments import make
from sweep_files import problems

from maxk_lab.environments.catalogue import (
    ENVIRONMENTS,
    capability_refusal,
    data_refusal,
    hash_of_data,
)
from maxk_lab.environments.routing.files import instances_hash, read_instances, write_instances
from maxk_lab.errors import LabError

ROWS = [row.name for row in ENVIRONMENTS if row.files]
TSP = """NAME : five
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
VRP = """NAME : four
TYPE : CVRP
DIMENSION : 4
EDGE_WEIGHT_TYPE : EUC_2D
CAPACITY : 40
NODE_COORD_SECTION
1 0 0
2 50 50
3 0 100
4 50 0
DEMAND_SECTION
1 10
2 0
3 20
4 30
DEPOT_SECTION
2
-1
EOF
"""


@cache
def env_of(name):
    """RL4CO's environment with the number of nodes of the texts above."""
    return make(name, "float32", num_loc=5 if name == "tsp" else 4).env


def written(folder, name, content):
    path = folder / name
    path.write_text(content)
    return path


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ROWS)
def test_what_is_written_is_read_back_exactly(name, dtype, tmp_path):
    environment = make(name, dtype)
    instances = environment.instances(5, 3)
    write_instances(instances, tmp_path / "x.npz")
    again = read_instances(environment.env, tmp_path / "x.npz", environment.dtype)
    # RL4CO's states carry a capacity that nothing reads: demand is divided by it.
    assert set(instances.keys()) - {"capacity"} == set(again.keys()) - {"capacity"}
    for key in set(again.keys()) - {"capacity"}:
        assert again[key].dtype == instances[key].dtype, key
        assert torch.equal(again[key], instances[key]), key
    assert instances_hash(again) == instances_hash(instances)


@pytest.mark.parametrize("name", ["tsp", "op", "pctsp", "pdp", "smtwtp"])
def test_what_rl4co_draws_and_saves_is_read(name, tmp_path):
    environment = make(name, "float32")
    drawn = environment.env.generator([3])
    np.savez(tmp_path / "x.npz", **{key: values.numpy() for key, values in drawn.items()})
    again, state = environment.read_instances(tmp_path / "x.npz"), environment.env.reset(drawn)
    assert set(again.keys()) == set(state.keys())
    for key, values in state.items():
        assert torch.equal(again[key], values), key


def test_the_hash_tells_instances_apart_but_not_their_precision():
    single, double = make("tsp", "float32", num_loc=5), make("tsp", num_loc=5)
    one = instances_hash(single.instances(3, 0))
    assert len(one) == 16
    assert one == instances_hash(double.instances(3, 0))
    assert one != instances_hash(single.instances(3, 1))
    assert one != instances_hash(single.instances(2, 0))


def test_raw_demand_of_rl4cos_files_is_divided_by_the_capacity(tmp_path):
    demand, capacity = np.arange(1, 9.0).reshape(2, 4), np.array([20.0, 40.0])
    np.savez(tmp_path / "x.npz", **ARRAYS | {"demand": demand, "capacity": capacity})
    read = read_instances(env_of("cvrp"), tmp_path / "x.npz", torch.float32)
    expected = torch.tensor([[0.05, 0.1, 0.15, 0.2], [0.125, 0.15, 0.175, 0.2]])
    torch.testing.assert_close(read["demand"], expected, rtol=1e-7, atol=0)


def test_a_tsplib_problem_of_any_size_fills_the_unit_square_by_one_factor(tmp_path):
    environment = make("tsp", num_loc=8)
    read = environment.read_instances(written(tmp_path, "a.tsp", TSP))
    expected = [[0, 0], [0, 0.5], [0.25, 0], [0.25, 0.5], [0.125, 1]]
    assert read["locs"].tolist() == [expected]
    tour = torch.tensor([[0, 1, 4, 3, 2]])
    length = 40 + 2 * np.hypot(10, 40) + 40 + 20
    assert -80 * environment.env.get_reward(read, tour).item() == pytest.approx(length, rel=1e-12)
    assert environment.rollout(environment.policy(0), read, 2, seed=0).actions.shape == (1, 2, 5)


def test_a_cvrplib_problem_has_its_depot_first_and_its_demand_per_capacity(tmp_path):
    read = read_instances(env_of("cvrp"), written(tmp_path, "a.vrp", VRP), torch.float64)
    assert read["locs"].tolist() == [[[0.5, 0.5], [0, 0], [0, 1], [0.5, 0]]]
    assert read["demand"].tolist() == [[0.25, 0.5, 0.75]]
    assert read["vehicle_capacity"].tolist() == [[1.0]]


def shifted(text):
    """A file whose ids begin with 0."""
    return re.sub("^[0-9]+", lambda match: f"{int(match[0]) - 1}", text, flags=re.MULTILINE)


# Forms of the same problem in people's files.
FORMS = {
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "tabs and blank lines": lambda text: text.replace(" ", "\t").replace("\n", "\n\n"),
    "lower case": str.lower,
    "no spaces around colons": lambda text: text.replace(" : ", ":"),
    "a colon after a section": lambda text: text.replace("D_SECTION", "D_SECTION :"),
    "no end": lambda text: text.replace("EOF\n", ""),
    "EOF in a comment": lambda text: "COMMENT : by GEOFF, EOF\nCOMMENT : EOF\n" + text,
    "a byte order mark": lambda text: "\ufeff" + text,
    "a byte order mark before TYPE": lambda text: "\ufeff" + text.partition("\n")[2],
    "a note after TYPE": lambda text: text.replace("\nDIM", " (M. Hofmeister)\nDIM"),
    "floats": lambda text: text.replace(" 50 0\n", " 5.0e+01 0.000\n").replace(": 40", ": 40.0"),
    "ids from 0": shifted,
    "nodes in another order": lambda text: re.sub("(1 .*\n)(2 .*\n)", r"\2\1", text, count=1),
    "all sections in another order": lambda text: re.sub("(1 .*\n)(2 .*\n)", r"\2\1", text),
    "limits of 0": lambda text: "DISTANCE : 0\nSERVICE_TIME : 0.0\n" + text,
    "a tour": lambda text: text.replace("EOF", "TOUR_SECTION\n1\n2\n-1\nEOF"),
    "a depot without its end": lambda text: text.replace("2\n-1", " 2 "),
    "Latin-1": lambda text: "COMMENT : fünf\n" + text,
}


@pytest.mark.parametrize(
    ("name", "suffix", "text"), [("tsp", "tsp", TSP), ("cvrp", "VRP", VRP)], ids=["tsp", "cvrp"]
)
def test_forms_of_a_file_are_the_same_problem(name, suffix, text, tmp_path):
    original = written(tmp_path, f"a.{suffix}", text)
    plain = read_instances(env_of(name), original, torch.float64)
    for form, change in FORMS.items():
        path = tmp_path / f"b.{suffix}"
        path.write_bytes(change(text).encode("latin-1" if form == "Latin-1" else "utf-8"))
        same = read_instances(env_of(name), path, torch.float64)
        for key, values in plain.items():
            assert torch.equal(same[key], values), (form, key)


def test_a_folder_is_read_in_the_order_of_names_and_hashed_by_the_files_read(tmp_path):
    b = written(tmp_path, "b.tsp", TSP)
    a = written(tmp_path, "a.tsp", TSP.replace("5 20 100", "5 30 100"))
    of_folder = hash_of_data(tmp_path, "tsp")
    written(tmp_path, "a.sol", "passed over")
    read = read_instances(env_of("tsp"), tmp_path, torch.float64)
    assert read["locs"][:, 4].tolist() == [[0.25, 1], [0.125, 1]]
    assert hash_of_data(tmp_path, "tsp") == of_folder
    assert hash_of_data(a, "tsp") != hash_of_data(b, "tsp")
    a.write_text(TSP)
    assert hash_of_data(tmp_path, "tsp") != of_folder
    assert hash_of_data(a, "tsp") == hash_of_data(b, "tsp")


ARRAYS = {
    "locs": np.ones((2, 4, 2)),
    "depot": np.ones((2, 2)),
    "demand": np.ones((2, 4)),
    "capacity": np.ones(2),
}


def refusal(env, folder):
    """The message of the error on reading these instances."""
    with pytest.raises(LabError) as error:
        read_instances(env, folder, torch.float32)
    return str(error.value)


def tsp(old, new):
    return "a.tsp", TSP.replace(old, new)


def vrp(old, new):
    return "a.vrp", VRP.replace(old, new)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (*tsp("EUC_2D", "GEO"), "EDGE_WEIGHT_TYPE must be EUC_2D, got GEO"),
        (*tsp("TYPE : TSP", "TYPE : ATSP"), "TYPE must be TSP, got ATSP"),
        (*tsp(TSP, "nothing of the kind"), "TYPE must be TSP, got none"),
        (*tsp("N : 5", "N : 6"), "DIMENSION is 6, but there are 5 nodes"),
        (*tsp("NODE_COORD", "DISPLAY_DATA"), "NODE_COORD_SECTION is missing"),
        (*tsp(TSP[82:], ""), "NODE_COORD_SECTION is empty"),
        (*tsp("20 100", "nan 2"), "must have an id and 2 finite numbers a row, got 5 nan 2"),
        (*tsp("20 100", "2_0 9"), "finite numbers a row, got 5 2_0 9"),
        (*tsp("20 100", "20"), "finite numbers a row, got 5 20"),
        (*tsp("NAME", "1 2 3\nNAME"), "a.tsp: line 1 is not in a section: 1 2 3"),
        (*tsp("5 20", "4 20"), "NODE_COORD_SECTION has node 4 twice"),
        (*tsp("EOF", "FIXED_EDGES_SECTION\n1 3\n-1"), "FIXED_EDGES_SECTION may change the problem"),
        (*vrp("Y : 40", "Y : 40\nDISTANCE : 2"), "DISTANCE may change the problem, and cvrp does"),
        (*vrp("DEMAND_SECTION", "DEMAND_SECTIONS"), "did you mean DEMAND_SECTION"),
        (*vrp("4 30\n", ""), "DEMAND_SECTION must have one demand a node; not so for 4"),
        (*vrp("2 0\n", "2 1\n"), "the depot 2 must have the demand 0"),
        (*vrp("2\n-1", "0.5 0.5\n-1"), "must name one of the nodes, got 0.5 0.5"),
        (*vrp("2\n-1", "1\n2\n-1"), "must name one of the nodes"),
        (*vrp("Y : 40", "Y : 20"), "a.vrp: instance 0: a demand is above the capacity"),
        (*vrp("CAPACITY : 40\n", ""), "CAPACITY must be a positive number, got none"),
        ("a.txt", TSP, "no file of instances; allowed: an .npz file in RL4CO's format"),
        ("a.tsp.gz", TSP, "no file of instances but a compressed one: unpack it"),
    ],
)
def test_what_cannot_be_read_is_refused(file, content, message, tmp_path):
    path = written(tmp_path, file, content)
    assert message in refusal(env_of("cvrp" if file == "a.vrp" else "tsp"), path)


def test_instances_of_another_problem_or_size_are_refused(tmp_path):
    a = written(tmp_path, "a.tsp", TSP)
    assert "for tsp only, not for cvrp" in refusal(env_of("cvrp"), a)
    written(tmp_path, "b.tsp", TSP.replace("N : 5", "N : 6").replace("EOF", "6 0 0\nEOF"))
    sizes = "b.tsp: instances must be of one size: 6 nodes, and 5 in the first file"
    assert sizes in refusal(env_of("tsp"), tmp_path)
    write_instances(make("pdp", num_loc=6).instances(2, 0), tmp_path / "x.npz")
    shapes = "shape [2, 8, 2] for this pdp, got [2, 6, 2]"
    assert shapes in refusal(make("pdp", num_loc=8).env, tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("key", "values", "message"),
    [
        ("demand", None, "x.npz: demand missing; cvrp needs locs, depot, demand, capacity"),
        ("more", np.ones(3), "equally long axis"),
        ("capacity", np.ones((2, 1)), "capacity must have the shape [2]"),
        ("depot", np.ones((2, 3)), "depot must have the shape [2, 2] for this cvrp, got [2, 3]"),
        ("demand", np.array([[1, 1, 1, 1], [0, 0, 2, 1]]), "instance 1: a demand is above the cap"),
        ("capacity", np.array([1, 0]), "instance 1: demand has entries that are no finite numbers"),
        ("locs", np.full((2, 4, 2), 1e30), "locs has entries that are no finite numbers"),
        ("locs", np.full((2, 4, 2), np.nan), "locs has entries that are no finite numbers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_arrays_that_are_no_instances_are_refused(key, values, message, tmp_path):
    arrays = ARRAYS | {key: values}
    np.savez(
        tmp_path / "x.npz", **{name: each for name, each in arrays.items() if each is not None}
    )
    assert message in refusal(env_of("cvrp"), tmp_path / "x.npz")


class Trap:
    """Records that it was unpickled."""

    sprung = False

    def __reduce__(self):
        return setattr, (Trap, "sprung", True)


def test_what_holds_no_numbers_is_refused_and_nothing_unpickled(tmp_path):
    path = tmp_path / "x.npz"
    for write in (
        lambda: path.write_bytes(b"PK"),
        lambda: np.save(path.open("wb"), np.zeros(3)),
        lambda: np.savez(path, locs=np.array(["x"])),
        lambda: np.savez(path, locs=np.array([Trap()])),
    ):
        write()
        assert "x.npz: no npz file of numbers" in refusal(env_of("tsp"), path)
    assert not Trap.sprung


SWEEP = """\
name: given
seeds: [0]
environment: {name: tsp, num_loc: 5}
training:
  steps: 2
  batch: 8
  evaluate: {instances: 6, samples: 4, data: DATA}
  grid: {estimator: maxk, baseline: none, n: 4, k: 2}
"""


def test_a_file_that_a_run_could_not_read_is_refused_before(write):
    np.savez("some.npz", locs=np.zeros((6, 5, 3), np.float32))
    Path("one.tsp").write_text(TSP)
    for data, start in {
        "some.npz": "7:46: training.evaluate.data: some.npz: locs must have the shape ",
        "one.tsp": "7:25: training.evaluate.instances: must be at most 1, the instances in ",
    }.items():
        (problem,) = problems(write(SWEEP.replace("DATA", data)))
        assert problem.startswith(f"sweep.yaml:{start}")


def test_refusals_before_a_run(tmp_path):
    assert capability_refusal("cvrp", "files") is None
    expected = "bandit reads no instances; environments that do: tsp, cvrp"
    assert expected in capability_refusal("bandit", "files")
    assert "holds no file of instances" in data_refusal("tsp", tmp_path)
