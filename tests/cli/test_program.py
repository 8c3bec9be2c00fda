"""The program around the application."""

import inspect
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from maxk_lab.cli import application, main, verbs

PROGRAM = shlex.join([sys.executable, "-c", "from maxk_lab.cli import main; main()"])


@pytest.mark.parametrize(
    "early",
    [
        "installed.close_current_folder",
        "cli.application.LabGroup.parse_args",
        "cli.application.load",
        "cli.verbs.list.print_line",
    ],
)
def test_ctrl_c_before_a_run_is_there_is_a_word_and_no_traceback(early, monkeypatch, capsys):
    def interrupted(*arguments, **settings):
        raise KeyboardInterrupt

    import_module("maxk_lab.cli.verbs.list")
    monkeypatch.setattr(f"maxk_lab.{early}", interrupted)
    monkeypatch.setattr("sys.argv", ["maxk-lab", "list", "baselines"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "Interrupted\n")


@pytest.mark.parametrize(
    ("words", "completed"),
    [("re", "recommend\nreport"), ("plan --c", "--cells"), ("list es", "estimators")],
)
def test_a_shell_completes_verbs_options_and_choices(words, completed, monkeypatch, capsys):
    monkeypatch.setenv("_MAXK_LAB_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"maxk-lab {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.strip() == completed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("list baselines >/dev/full", 2, "error: No space left on device\n"),
        ("list baselines | true", 141, ""),
        ("list baselines >&- 2>&-", 0, ""),
        ("plan nowhere.yaml >&-", 2, "error: nowhere.yaml does not exist\n"),
        ("plan nowhere.yaml 2>&-", 2, ""),
    ],
)
def test_a_stream_that_takes_nothing_leaves_no_traceback(words, code, message):
    command = ["bash", "-o", "pipefail", "-c", f"{PROGRAM} {words}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, message)
    assert "error" not in done.stdout


@pytest.mark.parametrize("words", ["plan x.yaml", "run x.yaml", "report", "init", "list baselines"])
def test_a_verb_in_a_deleted_folder_says_so(lab, tmp_path, monkeypatch, words):
    (folder := tmp_path / "gone").mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    refused = lab(*words.split())
    assert refused.exit_code == 2
    assert refused.stderr == "error: the current folder was deleted; change to another one\n"


@pytest.mark.parametrize("words", ["show --results", "--results= show", "report quick --results="])
def test_results_without_a_folder_are_not_the_current_folder(lab, words):
    refused = lab(*words.split())
    message = "error: --results needs the name of a folder\n"
    assert (refused.exit_code, refused.stderr) == (2, message)


def test_the_help_has_every_verb_in_its_panel_with_a_line_of_its_own(lab):
    output = lab("--help").stdout
    places = [output.index(f"─ {panel} ─") for panel in application.PANELS]
    assert places == sorted(places)
    files = {path.stem for path in Path(verbs.__file__).parent.glob("[!_]*.py")}
    assert {*application._VERBS} == files
    assert all(f"│ {name} " in output for name in files)


@pytest.mark.parametrize("verb", ["", *application._VERBS])
def test_the_help_wraps_no_example_and_no_value_at_80_columns(lab, monkeypatch, verb):
    monkeypatch.setenv("COLUMNS", "80")
    output = lab(*verb.split(), "--help").stdout
    command = application.load(verb) if verb else None
    text = inspect.cleandoc((command and command.help) or application.callback.__doc__ or "")
    examples = re.sub(r"\[/?bold\]", "", text.partition("\b\n")[2]).splitlines()
    assert examples
    assert [line for line in examples if line not in output] == []
    rows = [line[1:-1] for line in output.splitlines() if line.startswith("│")]
    # A line that continues the meaning of an option is blank before the meaning.
    assert [row for row in rows if re.match(r" {6,}\S.*\S {2,}\S", row)] == []
