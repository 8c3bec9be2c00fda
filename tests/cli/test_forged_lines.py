"""The words of a sweep are no fields of what `list runs` and `show` print of its run."""

from __future__ import annotations

from pathlib import Path

from maxk_lab.sweeps.run.records import RunDirectory
from maxk_lab.sweeps.spec.load import load_spec

from .conftest import SWEEP, program


def test_a_description_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    forged = 'description="words\\n  done  999\\n\\nforged"'
    run = RunDirectory(tmp_path / "results" / "tiny")
    run.write_spec(load_spec(tmp_path / "sweep.yaml", [forged]))
    for verb in (["list", "runs"], ["show", "tiny"]):
        told = [" ".join(line.split()) for line in program(verb, tmp_path).stdout.splitlines()]
        (line,) = (line for line in told if "999" in line or "forged" in line)
        assert "words done 999 forged" in line
