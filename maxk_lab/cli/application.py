"""The `maxk-lab` application: its verbs, `--version`, and exit code 2 for a user's mistake."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from maxk_lab import __version__
from maxk_lab.cli.console import complain, print_line, refusal, say
from maxk_lab.cli.options import RESULTS, WITH_JSON, WITH_RESULTS, Shared
from maxk_lab.errors import LabError
from maxk_lab.installed import current_folder
from maxk_lab.removed import removed_option, removed_verb

MISTAKE = 2
# 128 + SIGPIPE, like other programs in a shell.
PIPE_CLOSED = 141
# The verbs by panel of the help. A verb is the function `main` of the module with its name.
PANELS = {
    "Measure": {
        "init": "Write a commented sweep file to begin with.",
        "plan": "Check sweep files; show the cells of one, and the time left.",
        "run": "Measure the cells of a sweep that have no record yet.",
        "recommend": "Recommend n and a baseline for a budget of rollouts.",
    },
    "Read": {
        "report": "Tables, figures and verdicts on the claims of runs.",
        "compare": "Compare two runs: identical, equivalent, better, worse or not significant.",
        "show": "List the runs, show a run, or trace one cell.",
        "list": "List what a sweep can name, with formulas.",
    },
    "Share": {
        "bundle": "Write a run into one file.",
        "track": "Send the records of a run to Weights & Biases.",
    },
    "Your own": {
        "check": "Check an advantage function, or every formula.",
        "measure": "Measure which baseline your samples call for.",
        "audit": "Read a log of rewards: K, baseline, dead groups.",
    },
}

_VERBS = [verb for verbs in PANELS.values() for verb in verbs]


class LabGroup(TyperGroup):
    """A group of verbs that are imported only when used; the help needs one line of each.

    A `LabError` or a refusal of the system is printed, and the exit code is 2. A bug shows its
    traceback.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {
            name: TyperCommand(name, help=line, rich_help_panel=panel)
            for panel, verbs in PANELS.items()
            for name, line in verbs.items()
        }

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move shared options before the verb.

        Raises `LabError` if the verb lacks an option, or `--results` a folder.
        """
        front, rest = [], list[str]()
        words = iter(args)
        for word in words:
            if word == "--":
                rest += [word, *words]
            elif word.partition("=")[0] == "--results" or word == "--json":
                front.append(word)
                front += [next(words, "")] if word == "--results" else []
            else:
                rest.append(word)
        verb = rest[0] if rest else ""
        for word, verbs in (("--results", WITH_RESULTS), ("--json", WITH_JSON)):
            if any(each.startswith(word) for each in front) and verb in {*_VERBS} - {*verbs}:
                raise LabError(removed_option(verb, word) or f"{verb} has no option {word}")
        # An empty path would be the current folder.
        if {"", "--results="} & {*front} and not ctx.resilient_parsing:
            raise LabError("--results needs the name of a folder")
        parsed: list[str] = super().parse_args(ctx, [*front, *rest])
        return parsed

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import and return the verb of a command line."""
        for words in (args[:1], args[:2]):
            if (advice := removed_verb(" ".join(words))) is not None:
                raise LabError(advice)
        name, _, rest = super().resolve_command(ctx, args)
        return name, name and load(name), rest

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        """Parse the command line; Ctrl-C is handled, because the imports of Typer are slow."""
        with _early_end():
            return super().make_context(*arguments, **settings)

    def invoke(self, ctx: Any) -> Any:
        """Import and run the verb."""
        with _early_end():
            try:
                return super().invoke(ctx)
            except Exception as error:
                # Some versions of Typer bundle Click, so its classes cannot be imported.
                option = getattr(error, "option_name", "")
                verb = getattr(getattr(error, "ctx", None), "info_name", "")
                if (advice := removed_option(verb, option)) is not None:
                    raise LabError(advice) from None
                raise

    def main(self, *arguments: Any, **settings: Any) -> Any:
        """Run the program and exit."""
        try:
            return super().main(*arguments, **settings)
        except (LabError, OSError, MemoryError) as error:
            line = error if isinstance(error, LabError) else refusal(error)
            if line is None:
                raise
            complain(line)
            sys.exit(MISTAKE)


@contextmanager
def _early_end() -> Iterator[None]:
    """Print a line at Ctrl-C, because Typer prints none; exit with 141 if a pipe is closed."""
    try:
        yield
    except KeyboardInterrupt:
        say("Interrupted")
        raise
    except BrokenPipeError:
        with suppress(OSError), open(os.devnull, "w") as nowhere:  # for the rest of the output
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        raise typer.Exit(PIPE_CLOSED) from None


def load(name: str) -> Any:
    """Import a verb and return its command."""
    main = import_module(f"maxk_lab.cli.verbs.{name}").main
    # Paragraphs wrap at the width of the terminal; examples, after a \\b, keep their lines.
    paragraphs = cleandoc(main.__doc__).split("\n\n")
    text = "\n\n".join(p if p.startswith("\b") else " ".join(p.split()) for p in paragraphs)
    more = ["--results DIR"] * (name in WITH_RESULTS) + ["--json"] * (name in WITH_JSON)
    epilog = f"Also {' and '.join(more)}: see maxk-lab --help." if more else None
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
    alone.command(name, help=text, epilog=epilog)(main)
    return get_command(alone)


app = typer.Typer(
    cls=LabGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 ok, 1 cells failed or a claim was refuted, "
    "2 your mistake, 130 interrupted.",
)


def _version(requested: bool) -> None:
    if requested:
        print_line(f"maxk-lab {__version__}")
        raise typer.Exit


@app.callback()
def callback(
    context: typer.Context,
    results: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the runs.")] = RESULTS,
    json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Which Max@K gradient estimator and which baseline to use, measured on your policy and your \
budget.

    \b
    [bold]maxk-lab init[/bold]                         write quick.yaml, a sweep file
    [bold]maxk-lab run quick.yaml[/bold]               measure; the same again continues
    [bold]maxk-lab report[/bold]                       tables and verdicts on the claims
    [bold]maxk-lab recommend SPEC --budget 64[/bold]   the n and baseline for it
    [bold]maxk-lab list baselines[/bold]               formulas and conditions
    """
    if not current_folder():
        raise LabError("the current folder was deleted; change to another one")
    if results.is_symlink() and not results.exists():
        raise LabError(f"{results} is a link to {results.readlink()}, which does not exist")
    context.obj = Shared(results, json)
