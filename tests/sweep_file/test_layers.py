"""What runs a sweep: defaults of the user, sweep file, profile and command line, in this order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sweep_files import SMALL, Write

from maxk_lab.errors import LabError, SpecError
from maxk_lab.planning.plan import make_plan
from maxk_lab.sweep_file.backends import BACKENDS
from maxk_lab.sweep_file.execution import Execution
from maxk_lab.sweep_file.layers import Choice
from maxk_lab.sweep_file.load import (
    load_spec,
    read_spec,
    spec_hash_without_execution,
    spec_to_yaml,
)

Resolve = Callable[..., Execution]
# Every key of the block, with a value that is not its default.
KEYS = {
    "timeout": "2h",
    "reward_timeout": "30s",
    "retries": 3,
    "memory": "4GB",
    "cpus": 2,
    "gpus": 0.25,
    "backend": "slurm",
    "partition": "gpu",
    "time": "4:00:00",
    "account": "me",
    "qos": "high",
    "constraint": "a100",
    "array": 7,
    "signal": "2min",
    "setup": ["module load cuda"],
    "pack": 20,
    "options": {"reservation": "course"},
}


@pytest.fixture
def resolve(write: Write, tmp_path: Path) -> Resolve:
    """Load the small sweep with an `execution` block, overrides and a configuration."""

    def resolve(
        block: str = "",
        *overrides: str,
        config: str | None = None,
        profile: str | None = None,
        backend: str | None = None,
    ) -> Execution:
        path = None
        if config is not None:
            path = tmp_path / "config.yaml"
            path.write_text(config, encoding="utf-8")
        text = SMALL + (f"execution: {block}\n" if block else "")
        return load_spec(write(text), overrides, choice=Choice(path, profile, backend)).execution

    return resolve


def refused(resolve: Resolve, *arguments: Any, **options: Any) -> list[str]:
    with pytest.raises(LabError) as caught:
        resolve(*arguments, **options)
    return str(caught.value).splitlines()


DEFAULTS = "execution: {timeout: 1h, retries: 5, memory: 1GB}\n"
CAREFUL = f"{DEFAULTS}profiles: {{careful: {{retries: 7, memory: 2GB}}}}"
SLURM = """
execution: {backend: slurm, options: {reservation: course, nice: 1}, array: 7}
profiles: {here: {backend: null}, plain: {options: null, array: null}}
"""
ANY = "execution: {partition: gpu, address: auto}"
BLOCK = "{backend: slurm, partition: gpu, retries: 3}"
MAPPINGS = "profiles: {c: {backend: slurm, options: {mem: 1G, nice: 5}}}"


@pytest.mark.parametrize(
    ("block", "options", "elsewhere", "found"),
    [
        ("", [], {}, Execution().model_dump()),
        ("", [], {"config": "# nothing yet\n"}, Execution().model_dump()),
        ("{memory: 4GB, timeout: 1h}", [], {}, {"memory": 4 * 10**9, "timeout": 3600.0}),
        ("", [], {"config": DEFAULTS}, {"retries": 5}),
        ("{retries: 6}", [], {"config": CAREFUL}, {"retries": 6, "memory": 10**9}),
        ("{retries: 6}", [], {"config": CAREFUL, "profile": "careful"},
         {"timeout": 3600.0, "retries": 7, "memory": 2 * 10**9}),
        ("{}", ["execution.retries=8"], {"config": CAREFUL, "profile": "careful"}, {"retries": 8}),
        ("", [], {"config": CAREFUL, "profile": "careful", "backend": "ray"}, {"backend": "ray"}),
        # Null takes what an earlier place says away.
        ("{timeout: null}", [], {"config": DEFAULTS}, {"timeout": None, "retries": 5}),
        ("", [], {"config": SLURM}, {"array": 7}),
        ("", [], {"config": SLURM, "profile": "here"}, {"backend": "local"}),
        ("{backend: null}", [], {"config": SLURM}, {"backend": "local"}),
        ("", [], {"config": SLURM, "profile": "plain"}, {"options": {}, "array": 100}),
        ("{}", ["execution.options.reservation=null"], {"config": SLURM}, {"options": {"nice": 1}}),
        (BLOCK, ["execution.backend=null"], {}, {"backend": "local", "retries": 3}),
        # Defaults may be those of any backend.
        ("", [], {"config": ANY}, {"backend": "local"}),
        ("", [], {"config": ANY, "backend": "slurm"}, {"partition": "gpu"}),
        ("{backend: ray}", [], {"config": ANY}, {"address": "auto"}),
        ("{backend: ray, address: null}", [], {"config": ANY}, {"address": ""}),
        # Another backend leaves the parameters of the earlier one behind.
        (BLOCK, [], {"backend": "local"}, {"backend": "local", "retries": 3}),
        (BLOCK, ["execution.backend=local"], {}, {"backend": "local", "retries": 3}),
        (BLOCK, [], {"config": "profiles: {here: {backend: local}}", "profile": "here"},
         {"backend": "local", "retries": 3}),
        # Mappings merge; an option sets an entry of a list of the file.
        ("{backend: slurm, options: {mem: 2G, wckey: a}}", ["execution.options.nice=7"],
         {"config": MAPPINGS, "profile": "c"},
         {"options": {"mem": "1G", "wckey": "a", "nice": 7}}),
        ("{backend: slurm, setup: [a, b]}", ["execution.setup.1=c"], {}, {"setup": ["a", "c"]}),
    ],
)  # fmt: skip
def test_a_later_layer_goes_before_an_earlier_one(
    resolve: Resolve, block: str, options: list[str], elsewhere: dict, found: dict
) -> None:
    execution = resolve(block, *options, **elsewhere)
    said = execution.model_dump() | dict(execution.parameters)
    assert {key: said[key] for key in found} == found


MAPPING = "must be a mapping of keys to values"
ABSENT = "has no profile 'clutser' (did you mean cluster?); known: cluster, laptop"
OF_SLURM = "execution.partition: is of backend slurm, and this run's is local"


@pytest.mark.parametrize(
    ("elsewhere", "expected"),
    [
        ({"config": config}, expected)
        for config, expected in {
            "execution: {timeot: 1h}": "config.yaml:1:13: execution.timeot: unknown key 'timeot'",
            "execution: {timeout: soon}": "config.yaml:1:22: execution.timeout: must be a time",
            "execution:\n  array: 0\n  backend: slurm": "config.yaml:2:10: execution.array: must",
            "executoin: {}": "config.yaml:1:1: executoin: unknown key 'executoin' (did you mean e",
            "execution: 3": f"config.yaml:1:12: execution: {MAPPING}, got 3",
            "profiles: [a]": f"config.yaml:1:11: profiles: {MAPPING}",
            "profiles: {a: 1}": f"config.yaml:1:15: profiles.a: {MAPPING}",
            "- a": f"config.yaml:1:1: (file): {MAPPING}",
            "a: [": "config.yaml:1:5: (file): not YAML",
        }.items()
    ]
    + [
        ({"profile": "cluster"}, "there is no profile 'cluster': you have no configuration"),
        ({"profile": "clutser", "config": "profiles: {cluster: {}, laptop: {}}"}, ABSENT),
        ({"profile": "a", "config": "{}"}, "it has none"),
        ({"block": "{backend: null, partition: x}"}, OF_SLURM),
        ({"overrides": ["execution.partition=x"], "backend": "local"}, f"--set:1:1: {OF_SLURM}"),
    ],
)
def test_what_is_wrong_with_a_layer_is_told(
    resolve: Resolve, elsewhere: dict[str, Any], expected: str
) -> None:
    block, options = elsewhere.pop("block", ""), elsewhere.pop("overrides", [])
    assert expected in refused(resolve, block, *options, **elsewhere)[0]


def test_all_problems_are_told_at_once(resolve: Resolve) -> None:
    told = refused(
        resolve, "{memory: big}", "execution.cpus=0", config="execution: {retries: many, x: 1}"
    )
    places = [line.split(": ")[0].rpartition("/")[2] for line in told]
    assert places == ["sweep.yaml:8:21", "config.yaml:1:22", "config.yaml:1:28", "--set:1:16"]


def test_a_file_that_is_no_configuration(small: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    for make, told in [
        (lambda: None, "No such file or directory"),
        (path.mkdir, "Is a directory"),
        (lambda: (path.rmdir(), path.write_bytes(b"a: \xff")), r"text file in UTF-8 \(byte 4\)"),
    ]:
        make()
        with pytest.raises(LabError, match=f"{told}$"):
            load_spec(small, choice=Choice(path))


def test_no_key_of_it_is_in_the_identity_of_a_cell(write: Write) -> None:
    assert set(KEYS) == {*Execution.model_fields, *BACKENDS.get("slurm").settings.model_fields}
    before = load_spec(write(SMALL))
    for backend, more in [("slurm", {}), ("ray", {"address": "auto", "slots": 3})]:
        names = {*BACKENDS.get(backend).settings.model_fields, *Execution.model_fields}
        given = {k: v for k, v in KEYS.items() if k in names} | {"backend": backend} | more
        spec = load_spec(write(SMALL + f"execution: {given}\n"))
        assert load_spec(write(spec_to_yaml(spec))) == spec
        changed = {name for name, one in spec.execution if one != getattr(Execution(), name, ())}
        assert changed >= set(given)
        assert spec_hash_without_execution(spec) == spec_hash_without_execution(before)
        units = [(unit.as_dict(), unit.cells) for unit in make_plan(spec).units]
        assert units == [(unit.as_dict(), unit.cells) for unit in make_plan(before).units]
    another = load_spec(write(SMALL), ["seeds=[0, 1, 2]"])
    assert spec_hash_without_execution(another) != spec_hash_without_execution(before)


def test_a_run_is_read_where_its_backend_is_not_installed(write: Write) -> None:
    elsewhere = spec_to_yaml(load_spec(write(SMALL))).replace(
        "backend: local", "backend: kubernetes\n  namespace: maxk"
    )
    spec = read_spec(write(elsewhere))
    assert spec.execution.backend == "kubernetes"
    with pytest.raises(SpecError, match="unknown backend 'kubernetes'"):
        load_spec(write(spec_to_yaml(spec)))
