"""Sweep files: what is read, and the exact words for everything that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from sweep_files import Write, problems

from maxk_lab.errors import LabError
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.spec.load import load_spec, read_spec, spec_to_yaml

EXPERIMENTS = sorted((Path(__file__).parents[3] / "experiments").rglob("*.yaml"))
SMALL_LINES = [
    "name: small",
    "seeds: [0, 1]",
    "environment: {name: bandit, arms: 4}",
    "policy: {}",
    "gradient:",
    "  instances: 2",
    "  pool: 16",
    "  grid: {estimator: maxk, baseline: [none, centred], n: [4, 8], k: 2}",
]


def with_line(number: int, line: str) -> str:
    """The small sweep with line `number`, from 1, replaced by any number of lines."""
    return "\n".join([*SMALL_LINES[: number - 1], *line.splitlines(), *SMALL_LINES[number:]]) + "\n"


def test_defaults_are_filled_in(small: str) -> None:
    spec = load_spec(small)
    assert spec.environment == {"name": "bandit", "arms": 4, "reward_shift": 0.0}
    assert spec.policy == {"init_std": 1.0, "dtype": "float64"}
    assert spec.gradient.stages == (0,)
    assert spec.gradient.warmup.model_dump() == {
        "batch": 32,
        "n": 16,
        "learning_rate": 1e-3,
        "clip": 1.0,
    }
    assert (spec.tracking.wandb, spec.tracking.project) == ("disabled", "maxk-lab")


def test_who_writes_a_block_tracking_asks_for_it(small: str) -> None:
    tracking = load_spec(small, ["tracking.entity=me", "tracking.tags=mine"]).tracking
    assert (tracking.wandb, tracking.entity, tracking.group) == ("offline", "me", None)
    assert tracking.tags == ("mine",)


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_a_resolved_spec_reads_back_to_itself(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parents[path.parts[::-1].index("experiments")])
    monkeypatch.syspath_prepend(path.parent)  # of a module that lies beside a sweep file
    spec, resolved = load_spec(path), tmp_path / "spec.yaml"
    resolved.write_text(spec_to_yaml(spec), encoding="utf-8")
    assert load_spec(resolved) == read_spec(resolved) == spec
    assert make_plan(read_spec(resolved)).cells == make_plan(spec).cells


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: a\n\tseeds: 1\n",
         "2:1: (file): not YAML: while scanning for the next token, found character "
         "'\\t' that cannot start any token"),
        ("name: &a [*a]\n", "1:7: (file): is nested too deeply"),
        ("name: a\x00b\n", "1:1: (file): not YAML: character '\\x00' is not allowed"),
    ],
)  # fmt: skip
def test_files_that_are_no_mapping(write: Write, text: str, expected: str) -> None:
    assert problems(write(text)) == [f"sweep.yaml:{expected}"]


def test_files_that_cannot_be_read(write: Write, tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"^absent.yaml does not exist$"):
        load_spec("absent.yaml" if write("") else "")
    with pytest.raises(LabError, match=r"is a folder; give the sweep file itself$"):
        load_spec(tmp_path)
    with pytest.raises(LabError, match=r"^sweep.yaml is not a text file in UTF-8 \(byte 7\)$"):
        load_spec(write(b"name: \xff"))


def test_overrides_win_and_keep_the_rest(small: str) -> None:
    overrides = ["gradient.pool=64", "seeds=[5]", "gradient.grid.n.0=2", "gradient.grid.n[1]=16"]
    spec = load_spec(
        small, [*overrides, "gradient.warmup={learning_rate: 1e-2}", "tracking.wandb=disabled"]
    )
    assert (spec.gradient.pool, spec.seeds, spec.gradient.grid[0].n) == (64, (5,), (2, 16))
    assert (spec.gradient.warmup.learning_rate, spec.gradient.warmup.clip) == (0.01, 1.0)
    assert spec.tracking.wandb == "disabled"
    assert spec.environment["arms"] == 4


def test_shifted_seeds_are_the_only_change_and_stay_in_the_written_spec(write: Write) -> None:
    path = write(with_line(2, "seeds: [0, 7]"))
    plain, shifted = load_spec(path), load_spec(path, seeds_shifted_by=100)
    assert shifted.seeds == (100, 107)
    assert shifted.model_copy(update={"seeds": plain.seeds}) == plain
    assert load_spec(write(spec_to_yaml(shifted))).seeds == (100, 107)
    assert load_spec(path, ["seeds=[5]"], seeds_shifted_by=100).seeds == (105,)
    assert load_spec(path, ["seeds=2"], seeds_shifted_by=100).seeds == (100, 101)


def test_a_number_of_seeds_is_those_from_0_on_and_makes_the_same_cells(write: Write) -> None:
    listed = load_spec(write(with_line(2, "seeds: [0, 1, 2]")))
    counted = load_spec(write(with_line(2, "seeds: 3")))
    assert counted == listed == load_spec(write(with_line(2, "seeds: [7]")), ["seeds=3"])
    assert [c.id for c in make_plan(counted).cells] == [c.id for c in make_plan(listed).cells]
    assert "seeds:\n- 0\n- 1\n- 2\n" in spec_to_yaml(counted)
