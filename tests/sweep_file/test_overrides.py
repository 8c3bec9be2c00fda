"""Execution settings: the sweep file, then `--execution FILE`, then `--set`."""

from pathlib import Path

import pytest
from sweep_files import SMALL

from maxk_lab.errors import LabError, SpecError
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.execution import Execution, seconds, spelled, spelled_size
from maxk_lab.sweep_file.load import load_spec, read_spec, spec_to_yaml

# Keys of the block, each with a value that is not its default.
KEYS = {"timeout": "2h", "memory": "4GB", "gpus": 0.25, "backend": "ray", "address": "auto"}


@pytest.fixture
def resolve(write):
    """Load the small sweep with an `execution` block, a file of settings and overrides."""

    def resolve(block="", settings=None, *overrides):
        path = write(SMALL + (f"execution: {block}\n" if block else ""))
        file = None if settings is None else Path("cluster.yaml")
        if file and settings:
            file.write_text(settings, encoding="utf-8")
        return load_spec(path, overrides, execution=file).execution.model_dump()

    return resolve


RAY = "{backend: ray, address: auto, timeout: 1h}"
LOCAL = ("execution.backend=local", "execution.address=null")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), Execution().model_dump()),
        (("", "# nothing yet"), Execution().model_dump()),
        (("{memory: 4GB, timeout: 1h}",), {"memory": 4 * 10**9, "timeout": 3600.0}),
        (("{timeout: 1h, gpus: 1}", "timeout: 2h"), {"timeout": 7200.0, "gpus": 1.0}),
        (("{timeout: 1h}", "timeout: null"), {"timeout": None}),
        (("", "timeout: 2h", "execution.timeout=3h"), {"timeout": 10800.0}),
        ((RAY, "address: 'head:1'"), {"backend": "ray", "address": "head:1"}),
        ((RAY, None, *LOCAL), {"backend": "local", "address": None, "timeout": 3600.0}),
    ],
)
def test_a_later_place_wins(resolve, arguments, expected):
    values = resolve(*arguments)
    assert {key: values[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("", "timeot: 1h"), "cluster.yaml:1:1: execution.timeot: unknown key 'timeot' (did you"),
        (("", "timeout: soon"), "cluster.yaml:1:10: execution.timeout: must be a time"),
        (("", "backend: ray\naddress: 'ray://a'"), "cluster.yaml:2:10: execution.address: is for"),
        (("", "- a"), "cluster.yaml:1:1: (file): must be a mapping of keys to values"),
        (("", "a: ["), "cluster.yaml:1:5: (file): not YAML"),
        ((RAY, "{backend: local, address: x}"), "execution.address: is for backend: ray"),
        (("", "backend: rai"), "cluster.yaml:1:10: execution.backend: must be one of local, ray"),
    ],
)
def test_a_mistake_is_reported_where_it_is_written(resolve, arguments, expected):
    with pytest.raises(SpecError) as caught:
        resolve(*arguments)
    assert expected in str(caught.value).splitlines()[0]


def test_mistakes_are_reported_at_once_and_an_unreadable_file_alone(resolve):
    with pytest.raises(SpecError) as caught:
        resolve("{memory: big}", "{timeout: many, x: 1}", "execution.gpus=-1")
    places = [line.split(": ")[0].rpartition("/")[2] for line in str(caught.value).splitlines()]
    assert places == ["sweep.yaml:8:21", "cluster.yaml:1:11", "cluster.yaml:1:17", "--set:1:16"]
    Path("bytes").write_bytes(b"a: \xff")
    for name, words in {
        "absent": "does not exist",
        ".": "is a folder",
        "bytes": r"not a text file in UTF-8 \(byte 4\)",
    }.items():
        with pytest.raises(LabError, match=words):
            load_spec("sweep.yaml", execution=Path(name))


def test_no_key_of_it_is_in_the_identity_of_a_cell(write):
    before = load_spec(write(SMALL))
    spec = load_spec(write(SMALL + f"execution: {KEYS}\n"))
    assert load_spec(write(spec_to_yaml(spec))) == spec
    changed = {name for name, value in spec.execution if value != getattr(Execution(), name, ())}
    assert changed == set(KEYS)
    first, second = (
        [(unit.as_dict(), unit.cells) for unit in make_plan(each).units] for each in (before, spec)
    )
    assert first == second
    # A run of a removed backend can be read.
    removed = spec_to_yaml(before).replace("backend: local", "backend: slurm\n  partition: long")
    assert read_spec(write(removed)).execution == Execution()
    with pytest.raises(SpecError, match="slurm was removed"):
        load_spec(write(removed))


TIMES = {
    "2h": (7200.0, "2 h"),
    "1.5 h": (5400.0, "1 h 30 min"),
    "1 h 30 min 5.25 s": (5405.25, "1 h 30 min 5.25 s"),
    "0.5s": (0.5, "0.5 s"),
}
SIZES = {"4.0GB": 4 * 10**9, "1.5GiB": 3 * 2**29, "1234567890B": 1234567890}


def test_times_and_sizes_are_shown_as_they_are_read():
    assert {one: (seconds(one), spelled(seconds(one))) for one in TIMES} == TIMES
    assert all(seconds(shown) == count for count, shown in TIMES.values())
    for written in ("2 days", "", "h", "soon"):
        with pytest.raises(ValueError, match="must be a time such as 2h, 30min or 45s"):
            seconds(written)
    assert {spelled_size(count): count for count in SIZES.values()} == SIZES
