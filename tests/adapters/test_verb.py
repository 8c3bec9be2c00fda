"""`maxk-lab adapters`: the lines to paste, and the plug-in of ms-swift."""

from pathlib import Path

from typer.testing import CliRunner

import maxk_lab.adapters
from maxk_lab.cli import app
from maxk_lab.cli.verbs.adapters import TRAINERS


def say(*arguments):
    return CliRunner().invoke(app, ["adapters", *arguments])


def test_every_trainer_has_its_lines_and_a_module():
    said = say().stdout
    for name, (version, *lines) in TRAINERS.items():
        assert f"{name}, verified with {version}" in said
        assert all(line in said for line in lines)
        assert say(name).stdout.strip() in said or name == "swift"
        folder = Path(maxk_lab.adapters.__file__).parent
        assert (folder / f"{name}.py").exists() or (folder / name).is_dir()


def test_the_plug_in_of_ms_swift_lies_alone():
    plugin = Path(say("swift").stdout.strip())
    # ms-swift puts its folder first among those that are searched for modules.
    assert {path.name for path in plugin.parent.glob("*.py")} == {"__init__.py", plugin.name}


def test_an_unknown_trainer_is_told():
    done = say("swfit")
    assert done.exit_code == 2
    assert "no adapter for swfit (did you mean swift?)" in done.stderr
