"""`maxk-lab fsck`: what is wrong with a run, and out of the way with it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from archives import flipped
from click.testing import Result

from maxk_lab.sweeps.run.leases import Driver, exclusive
from maxk_lab.sweeps.run.record_bytes import decoded, encoded

pytestmark = pytest.mark.slow
Lab = Callable[..., Result]


@pytest.fixture
def run(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run of 20 cells, in the results of the working directory."""
    shutil.copytree(finished, tmp_path / "there")
    monkeypatch.chdir(tmp_path / "there")
    return Path("results/tiny")


def records(run: Path) -> list[Path]:
    return sorted((run / "cells").glob("*.json"))


def resum(path: Path, change: Callable[[dict], object]) -> None:  # type: ignore[type-arg]
    content = decoded(path.read_bytes())
    change(content)
    path.write_bytes(encoded(content))


def found(lab: Lab, *options: str) -> dict[str, object]:
    result = lab("fsck", "tiny", "--json", *options)
    assert result.exit_code in (0, 1), result.output
    told: dict[str, object] = json.loads(result.stdout)
    return told


def test_a_sound_run(run: Path, lab: Lab) -> None:
    result = lab("fsck", "tiny")
    assert result.exit_code == 0, result.output
    assert result.stdout == "cells planned: 20; records: 20 done\n"
    assert result.stderr == "results/tiny: nothing is damaged\n"
    assert found(lab)["counts"] == {"done": 20}


def test_what_is_damaged_is_told_moved_aside_and_measured_again(run: Path, lab: Lab) -> None:
    cut, moved, point, pipe, gone, older, *_ = records(run)
    cut.write_bytes(cut.read_bytes()[:-9])
    resum(moved, lambda content: content["metrics"].update(cell=cut.stem))
    resum(point, lambda content: content["metrics"].update(variance=7.5))
    resum(older, lambda content: content["metrics"].pop("cell"))
    pipe.unlink()
    os.mkfifo(pipe)
    gone.unlink()
    (run / "cells" / ".partial-half").write_text("{")
    (run / "damaged").mkdir()
    (run / "damaged" / cut.name).write_text("of another time")

    result = lab("fsck", "tiny")
    assert result.exit_code == 1
    first, *lines = result.stdout.splitlines()
    assert first == "cells planned: 20; records: 4 damaged, 1 stale, 14 done, 1 missing"
    told = {line.split()[0]: [] for line in lines}  # type: ignore[var-annotated]
    for line in lines:
        told[line.split()[0]].append(line)
    assert len(told["damaged"]) == 4
    for path, why in (
        (cut, "not complete JSON"),
        (moved, "its metrics are those of another cell"),
        (point, "variance is 7.5, where its units give"),
        (pipe, "it is no file but a pipe"),
    ):
        assert any(str(path) in line and why in line for line in told["damaged"]), why
    assert "of an older version of maxk-lab" in told["stale"][0]
    assert "killed" in told["left"][0]
    assert told["missing"] == [f"missing     cell {gone.stem}"]
    assert "maxk-lab fsck results/tiny --repair" in result.stderr

    mended = lab("fsck", "tiny", "--repair")
    assert mended.exit_code == 0, mended.output
    aside = {path.name for path in (run / "damaged").iterdir()}
    assert aside == {cut.name, f"{cut.name}.2", moved.name, point.name, pipe.name}
    assert (run / "damaged" / cut.name).read_text() == "of another time"
    assert not (run / "cells" / ".partial-half").exists()
    assert lab("fsck", "tiny").exit_code == 0

    again = lab("run", "tiny.yaml", "--json")
    assert again.exit_code == 0, again.output
    assert len(json.loads(again.stdout)["done"]) == 6
    assert found(lab)["counts"] == {"done": 20}


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("spec.yaml", "[1, 2]", "must be a mapping"),
        ("spec.yaml", "a: [", "not YAML"),
        ("spec.yaml", None, "it is no file but a folder"),
        ("events.log", "{}\nnothing", "2 of its lines are no events"),
        ("events.log", "[" * 50_000 + "\n", "1 of its lines are no events"),
        ("events.log", None, "it is no file but a folder"),
    ],
)
def test_the_other_files(run: Path, lab: Lab, name: str, content: str | None, why: str) -> None:
    path = run / name
    path.unlink()
    if content is None:
        path.mkdir()
    else:
        path.write_text(content)
    result = lab("fsck", str(run))
    assert result.exit_code == 1
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("damaged")]
    assert line.startswith(f"damaged     {path}: ")
    assert why in line
    assert ("planned: unknown" in result.stdout) == (name == "spec.yaml")
    mended = lab("fsck", str(run), "--repair")
    assert mended.exit_code == 0
    # Of the log nothing is ever measured.
    assert ("Run the sweep again" in mended.stderr) == (name == "spec.yaml")
    assert (run / "damaged" / name).exists()
    assert not path.exists()
    assert lab("run", "tiny.yaml").exit_code == 0
    assert lab("fsck", "tiny").exit_code == 0


def test_archives_of_the_cache(run: Path, lab: Lab) -> None:
    pool, *_ = sorted((run / "cache").glob("pool-*.npz"))
    pool.write_bytes(flipped(pool))
    policy = run / "cache" / "policy-0123456789abcdef-4.pt"
    policy.write_text("no archive")
    (run / "cache" / "reference.json").write_text("no archive either, nor to be one")
    result = lab("fsck", "tiny")
    assert result.exit_code == 1
    lines = [line for line in result.stdout.splitlines() if line.startswith("damaged")]
    assert lines[0].startswith(f"damaged     {policy}: it is no whole zip file: ")
    assert lines[1].startswith(f"damaged     {pool}: the checksum of its part ")
    assert len(lines) == 2
    assert lab("fsck", "tiny", "--repair").exit_code == 0
    assert {path.name for path in (run / "damaged").iterdir()} == {policy.name, pool.name}
    assert lab("fsck", "tiny").exit_code == 0


def test_nothing_is_repaired_while_a_run_is_at_work(run: Path, lab: Lab) -> None:
    cut = records(run)[0]
    cut.write_bytes(b"{")
    with Driver(run, spec_hash=""):
        result = lab("fsck", "tiny", "--repair")
        # To look is allowed at any time.
        assert lab("fsck", "tiny").exit_code == 1
    assert result.exit_code == 2
    assert f"is in use by another run (process {os.getpid()} on " in result.stderr
    assert cut.read_bytes() == b"{"
    assert lab("fsck", "tiny", "--repair").exit_code == 0


def test_no_run_begins_during_a_repair(run: Path, lab: Lab) -> None:
    records(run)[0].unlink()
    with exclusive(run, "fsck --repair"):
        result = lab("run", "tiny.yaml")
    assert result.exit_code == 2
    assert f"is in use by fsck --repair (process {os.getpid()} on " in result.stderr
    assert lab("run", "tiny.yaml").exit_code == 0


@pytest.mark.parametrize(
    "content", ["[1]", "text", "a: [", b"\xff\xfe", "!!python/object/apply:os.system [ls]", None]
)
def test_a_bad_spec_is_listed_and_ends_nothing(
    run: Path, lab: Lab, content: str | bytes | None
) -> None:
    bad = run.parent / "bad"
    bad.mkdir()
    if content is None:
        os.mkfifo(bad / "spec.yaml")
    else:
        (bad / "spec.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    (bad / "cells").write_text("no folder")
    listed = {one["name"]: one for one in json.loads(lab("list", "runs", "--json").stdout)}
    assert listed["tiny"]["wrong"] == ""
    assert listed["tiny"]["done"] == 20
    assert "spec.yaml" in listed["bad"]["wrong"]
    assert "cannot be listed" in listed["bad"]["wrong"]
    assert "bad" in lab("list", "runs").stdout
    assert lab("show", records(run)[0].stem).exit_code == 0
    assert lab("report", "tiny").exit_code == 0
    for verb in ("report", "show", "track"):
        result = lab(verb, "bad")
        assert (result.exit_code, type(result.exception)) == (2, SystemExit), result.output
        assert result.stderr.count("error: ") == 1 or "problem" in result.stderr


def test_damage_is_named_by_the_verbs_that_meet_it(run: Path, lab: Lab) -> None:
    cut = records(run)[0]
    cut.write_bytes(b"[" * 100_000)
    told = lab("report", "tiny")
    assert told.exit_code == 1
    assert told.stdout.splitlines()[1] == "19 of 20 cells measured; 1 damaged."
    assert "maxk-lab fsck results/tiny --repair" in told.stderr
    assert "maxk-lab fsck results/tiny --repair" in lab("show", cut.stem).stderr
    assert "nested too deeply" in lab("show", "tiny").stdout
    assert json.loads(lab("list", "runs", "--json").stdout)[0]["damaged"] == 1
    assert json.loads(lab("plan", "tiny.yaml", "--json").stdout)["counts"]["missing"] == 1


def test_show_prints_what_a_report_computes(run: Path, lab: Lab) -> None:
    """A stored number that its units do not give is damage; what is shown is computed anew."""
    path = records(run)[0]
    resum(path, lambda content: content["metrics"].update(mean_square=7.5))
    result = lab("show", path.stem)
    assert result.exit_code == 2
    assert "damaged: mean_square is 7.5, where its units give" in result.stderr
    other = records(run)[1]
    resum(other, lambda content: content["metrics"].update(snr=7.5))
    view = json.loads(lab("show", other.stem, "--json").stdout)
    assert view["metrics"]["snr"] != 7.5
    assert view["metrics"]["snr"] == pytest.approx(
        view["metrics"]["mean_square"] / view["metrics"]["variance"]
    )
