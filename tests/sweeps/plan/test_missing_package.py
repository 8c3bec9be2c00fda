"""A run is read where the package of its baseline or estimator is missing: the refusal names it."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

import pytest
from own_code import SWEEP, planned
from typer.testing import CliRunner

from maxk_lab import installed
from maxk_lab.cli import app
from maxk_lab.errors import LabError
from maxk_lab.sweeps.run.bundle import write_bundle
from maxk_lab.sweeps.run.records import RunDirectory

NEEDED = "to read the run, install what it was measured with and is missing here: baseline half"


def stored_with_half(project: Path) -> RunDirectory:
    """A run, not measured yet, whose resolved spec names the baseline of the package."""
    installed.forget()
    run = RunDirectory(project / "results" / "named")
    run.root.mkdir(parents=True)
    run.write_spec(planned(SWEEP % ("exact_match", "half")).spec)
    assert run.spec().content["baseline half"]["package"] == "half-centred"
    return run


def uninstall(site: Path) -> None:
    for about in site.glob("*.dist-info"):
        shutil.rmtree(about)
    importlib.invalidate_caches()
    installed.forget()


def test_an_installed_package_whose_row_is_broken_says_why(project: Path, site: Path) -> None:
    run = stored_with_half(project)
    (site / "half_package" / "rows.py").write_text("raise RuntimeError('no licence')\n")
    installed.forget()
    with pytest.warns(UserWarning, match="no licence"), pytest.raises(LabError, match=NEEDED):
        run.spec()


@pytest.mark.parametrize("stored", ["folder", "bundle"])
def test_every_verb_that_reads_names_the_missing_package(
    project: Path, site: Path, stored: str
) -> None:
    run = stored_with_half(project)
    where = str(run.root)
    if stored == "bundle":
        where = str(project / "named.zip")
        write_bundle(run, Path(where))
    uninstall(site)
    # A bundle is not bundled again.
    verbs = [("report", where), ("compare", where, where), ("show", where)]
    verbs += [("bundle", where)] if stored == "folder" else []
    for verb in verbs:
        done = CliRunner().invoke(app, list(verb))
        told = " ".join(done.output.split())
        # `show` lists what it can of a run that cannot be read, with what is wrong.
        assert done.exit_code == (0 if verb[0] == "show" else 2), (verb, told)
        assert f"{NEEDED} (package half-centred 1.0)" in told, verb
        assert "did you mean" not in told, verb
