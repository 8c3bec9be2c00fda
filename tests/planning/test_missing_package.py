"""A run is read where the package of its baseline or estimator is missing: the refusal names it."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

import pytest
from own_code import SWEEP, forget, planned
from typer.testing import CliRunner

from maxk_lab.cli import app
from maxk_lab.errors import LabError
from maxk_lab.execution.archive import write_bundle
from maxk_lab.execution.records import RunDirectory

NEEDED = "to read the run, install what it was measured with and is missing here: baseline half"


def test_every_verb_that_reads_names_the_missing_package(project: Path, site: Path) -> None:
    forget()
    run = RunDirectory(project / "results" / "named")
    run.root.mkdir(parents=True)
    run.write_spec(planned(SWEEP % ("exact_match", "half")).spec)
    assert run.spec().content["baseline half"]["package"] == "half-centred"
    folder, bundle = str(run.root), project / "named.zip"
    write_bundle(run, bundle)
    # An installed package whose row is broken says why besides.
    (site / "half_package" / "rows.py").write_text("raise RuntimeError('no licence')\n")
    forget()
    with pytest.warns(UserWarning, match="no licence"), pytest.raises(LabError, match=NEEDED):
        run.spec()
    for about in site.glob("*.dist-info"):
        shutil.rmtree(about)
    importlib.invalidate_caches()
    forget()
    verbs = [["report"], ["compare", folder], ["show"]]
    for verb in [
        ["bundle", folder],
        *([*verb, where] for verb in verbs for where in (folder, bundle)),
    ]:
        done = CliRunner().invoke(app, list(map(str, verb)))
        told = " ".join(done.output.split())
        # `show` lists what it can of a run that cannot be read, with what is wrong.
        assert done.exit_code == (0 if verb[0] == "show" else 2), (verb, told)
        assert f"{NEEDED} (package half-centred 1.0)" in told, verb
        assert "did you mean" not in told, verb
