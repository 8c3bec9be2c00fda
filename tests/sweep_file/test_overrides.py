"""Execution settings: the sweep file, then `--execution FILE`, then `--set`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sweep_files import SMALL, Write

from maxk_lab.errors import LabError, SpecError
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.execution import Execution
from maxk_lab.sweep_file.load import load_spec, read_spec, spec_to_yaml

Resolve = Callable[..., Execution]
# Keys of the block, each with a value that is not its default.
KEYS = {"timeout": "2h", "memory": "4GB", "gpus": 0.25, "backend": "ray", "address": "auto"}


@pytest.fixture
def resolve(write: Write, tmp_path: Path) -> Resolve:
    """Load the small sweep with an `execution` block, a file of settings and overrides."""

    def resolve(block: str = "", settings: str | None = None, *overrides: str) -> Execution:
        path = tmp_path / "cluster.yaml"
        if settings is not None:
            path.write_text(settings, encoding="utf-8")
        text = SMALL + (f"execution: {block}\n" if block else "")
        file = None if settings is None else path
        return load_spec(write(text), overrides, execution=file).execution

    return resolve


RAY = "{backend: ray, address: auto, timeout: 1h}"


@pytest.mark.parametrize(
    ("block", "settings", "overrides", "expected"),
    [
        ("", None, [], Execution().model_dump()),
        ("", "# nothing yet", [], Execution().model_dump()),
        ("{memory: 4GB, timeout: 1h}", None, [], {"memory": 4 * 10**9, "timeout": 3600.0}),
        ("", "timeout: 1h", [], {"timeout": 3600.0}),
        ("{timeout: 1h, gpus: 1}", "timeout: 2h", [], {"timeout": 7200.0, "gpus": 1.0}),
        ("{timeout: 1h}", "timeout: null", [], {"timeout": None}),
        ("{timeout: 1h}", "timeout: 2h", ["execution.timeout=3h"], {"timeout": 10800.0}),
        ("", RAY, [], {"backend": "ray", "address": "auto"}),
        (RAY, "address: 'head:1'", [], {"backend": "ray", "address": "head:1"}),
        (
            RAY,
            None,
            ["execution.backend=local", "execution.address=null"],
            {"backend": "local", "address": None, "timeout": 3600.0},
        ),
    ],
)
def test_a_later_place_wins(
    resolve: Resolve, block: str, settings: str | None, overrides: list[str], expected: dict
) -> None:
    execution = resolve(block, settings, *overrides)
    values = execution.model_dump()
    assert {key: values[key] for key in expected} == expected


OF_RAY = "execution.address: is for backend: ray, and this run's is local"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("", "timeot: 1h"), "cluster.yaml:1:1: execution.timeot: unknown key 'timeot' (did you"),
        (("", "timeout: soon"), "cluster.yaml:1:10: execution.timeout: must be a time"),
        (("", "backend: ray\naddress: 'ray://a'"), "cluster.yaml:2:10: execution.address: is for"),
        (("", "- a"), "cluster.yaml:1:1: (file): must be a mapping of keys to values"),
        (("", "a: ["), "cluster.yaml:1:5: (file): not YAML"),
        (("", "{backend: local, address: x}"), OF_RAY),
        ((RAY, "{backend: local, address: x}"), OF_RAY),
        (("{backend: null}",), "execution.backend: must be one of local, ray, got nothing"),
        (("", "backend: rai"), "cluster.yaml:1:10: execution.backend: must be one of local, ray"),
        (("{address: x}",), f"sweep.yaml:8:22: {OF_RAY}"),
        (("", None, "execution.address=x"), f"--set:1:19: {OF_RAY}"),
        (("3",), "sweep.yaml:8:12: execution: must be a mapping of keys to values, got 3"),
    ],
)
def test_a_mistake_is_reported_where_it_is_written(
    resolve: Resolve, arguments: tuple[str, ...], expected: str
) -> None:
    with pytest.raises(SpecError) as caught:
        resolve(*arguments)
    assert expected in str(caught.value).splitlines()[0]


def test_all_mistakes_are_reported_at_once(resolve: Resolve) -> None:
    with pytest.raises(SpecError) as caught:
        resolve("{memory: big}", "{timeout: many, x: 1}", "execution.gpus=-1")
    places = [line.split(": ")[0].rpartition("/")[2] for line in str(caught.value).splitlines()]
    assert places == ["sweep.yaml:8:21", "cluster.yaml:1:11", "cluster.yaml:1:17", "--set:1:16"]


def test_a_file_that_cannot_be_read_is_refused(small: str, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    with pytest.raises(LabError, match="does not exist"):
        load_spec(small, execution=path)
    with pytest.raises(LabError, match="is a folder"):
        load_spec(small, execution=tmp_path)
    path.write_bytes(b"a: \xff")
    with pytest.raises(LabError, match=r"not a text file in UTF-8 \(byte 4\)"):
        load_spec(small, execution=path)


def test_no_key_of_it_is_in_the_identity_of_a_cell(write: Write) -> None:
    before = load_spec(write(SMALL))
    spec = load_spec(write(SMALL + f"execution: {KEYS}\n"))
    assert load_spec(write(spec_to_yaml(spec))) == spec
    changed = {name for name, value in spec.execution if value != getattr(Execution(), name, ())}
    assert changed == set(KEYS)
    plans: list[Any] = [make_plan(before), make_plan(spec)]
    first, second = ([(unit.as_dict(), unit.cells) for unit in plan.units] for plan in plans)
    assert first == second


def test_a_run_of_a_removed_backend_is_read(write: Write) -> None:
    elsewhere = spec_to_yaml(load_spec(write(SMALL))).replace(
        "backend: local", "backend: slurm\n  partition: long"
    )
    assert read_spec(write(elsewhere)).execution == Execution()
    with pytest.raises(SpecError, match="slurm was removed"):
        load_spec(write(elsewhere))
