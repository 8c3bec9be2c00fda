"""Sweep files: what is read, and the exact words for everything that is wrong."""

from pathlib import Path

import pytest
from sweep_files import SMALL, problems

from maxk_lab.errors import LabError
from maxk_lab.sweep_file.load import load_spec, read_spec, spec_to_yaml

EXPERIMENTS = sorted((Path(__file__).parents[2] / "experiments").rglob("*.yaml"))


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_every_experiment_is_valid_and_reads_back_to_itself(path, tmp_path, monkeypatch):
    monkeypatch.chdir(path.parents[path.parts[::-1].index("experiments")])
    monkeypatch.syspath_prepend(path.parent)  # of a module that lies beside a sweep file
    spec, resolved = load_spec(path), tmp_path / "spec.yaml"
    assert spec.name == path.stem
    resolved.write_text(spec_to_yaml(spec), encoding="utf-8")
    assert load_spec(resolved) == read_spec(resolved) == spec


def test_files_that_cannot_be_read(write, tmp_path):
    for path, words in {
        "absent.yaml": "^absent.yaml does not exist$",
        tmp_path: "is a folder; give the file itself$",
        write(b"name: \xff"): r"^sweep.yaml is not a text file in UTF-8 \(byte 7\)$",
    }.items():
        with pytest.raises(LabError, match=words):
            load_spec(path)
    deep = "[" * 900 + "]" * 900
    for text, overrides, problem in (
        ("name: ab\n# nothing\ndescription: a\x00b\n", [],
         "sweep.yaml:3:1: (file): not YAML: character '\\x00' is not allowed"),
        ("name: a\n\tseeds: 1\n", [],
         "sweep.yaml:2:1: (file): not YAML: while scanning for the next token,"),
        (f"{SMALL}description: {deep}\n", [], "sweep.yaml:1:1: (file): is nested too deeply"),
        (SMALL, [f"description={deep}"], "--set:1:13: description: is nested too deeply"),
    ):  # fmt: skip
        (line,) = problems(write(text), *overrides)
        assert line.startswith(problem)


def test_no_more_is_shown_than_is_read(write):
    word = "x" * 50_000
    text = SMALL.replace("pool: 16", f"pool: {word}").replace("small", word) + f"{word[:1000]}: 1\n"
    lines = problems(write(text))
    assert len(lines) == 3
    assert all(len(line) < 1000 and "\n" not in line for line in lines)
    assert "50,002 characters" in lines[0]
    with pytest.raises(LabError) as caught:
        load_spec(write(SMALL + "".join(f"k{i}: 1\n" for i in range(500))))
    lines = str(caught.value).splitlines()
    assert (len(lines), lines[-1]) == (21, "and 480 more problems")


def test_overrides_win_and_keep_the_rest(small):
    overrides = ["gradient.pool=64", "seeds=[5]", "gradient.grid.n.0=2", "gradient.grid.n[1]=16"]
    spec = load_spec(small, [*overrides, "gradient.warmup={learning_rate: 1e-2}"])
    assert (spec.gradient.pool, spec.seeds, spec.gradient.grid[0].n) == (64, (5,), (2, 16))
    assert (spec.gradient.warmup.learning_rate, spec.gradient.warmup.clip) == (0.01, 1.0)
    assert spec.environment["arms"] == 4
    assert spec.tracking.wandb == "disabled"
    assert load_spec(small, ["tracking={}"]).tracking.wandb == "offline"


def test_seeds_are_a_list_or_how_many_and_may_be_shifted(write):
    path = write(SMALL.replace("[0, 1]", "[0, 7]"))
    plain, shifted = load_spec(path), load_spec(path, seeds_shifted_by=100)
    assert shifted.seeds == (100, 107)
    assert shifted.model_copy(update={"seeds": plain.seeds}) == plain
    assert load_spec(path, ["seeds=2"], seeds_shifted_by=100).seeds == (100, 101)
    assert load_spec(path, ["seeds=3"]) == load_spec(path, ["seeds=[0, 1, 2]"])
    assert load_spec(write(spec_to_yaml(shifted))).seeds == (100, 107)


def test_a_text_that_only_looks_like_a_path_stays(write):
    claim = {"name": "/no/path", "kind": "unbiased", "detectable": 1.0}
    spec = load_spec(write(f"{SMALL}claims: [{claim}]\n"))
    assert load_spec(write(spec_to_yaml(spec))) == spec
