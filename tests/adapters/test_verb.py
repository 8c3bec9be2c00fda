"""`maxk-lab adapters`: the lines to paste, and the plug-in of ms-swift."""

from importlib.util import find_spec
from pathlib import Path

from typer.testing import CliRunner

from maxk_lab.cli import app
from maxk_lab.cli.verbs.adapters import TRAINERS


def say(*arguments):
    return CliRunner().invoke(app, ["adapters", *arguments])


def test_every_trainer_has_its_lines_and_a_module():
    said = say().stdout
    for name, (version, *lines) in TRAINERS.items():
        assert find_spec(f"maxk_lab.adapters.{name}")
        assert f"{name}, verified with {version}" in said
        assert all(line in said for line in lines)
        assert name == "swift" or say(name).stdout.strip() in said
    assert "no adapter for swfit (did you mean swift?)" in say("swfit").stderr


def test_the_plug_in_of_ms_swift_lies_alone():
    plugin = Path(say("swift").stdout.strip())
    # ms-swift puts its folder first among those that are searched for modules.
    assert {path.name for path in plugin.parent.glob("*.py")} == {"__init__.py", plugin.name}
