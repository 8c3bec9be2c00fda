"""The `maxk-lab` application: its verbs, `--version`, and exit code 2 for a user's mistake."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from maxk_lab import __version__
from maxk_lab.cli.console import complain, say, tell
from maxk_lab.cli.refusals import refusal
from maxk_lab.cli.verbs.bundle import bundle
from maxk_lab.cli.verbs.cancel import cancel
from maxk_lab.cli.verbs.check import check
from maxk_lab.cli.verbs.compare import compare
from maxk_lab.cli.verbs.list import list_
from maxk_lab.cli.verbs.plan import plan
from maxk_lab.cli.verbs.recommend import recommend
from maxk_lab.cli.verbs.report import report
from maxk_lab.cli.verbs.run import run
from maxk_lab.cli.verbs.show import show
from maxk_lab.cli.verbs.status import status
from maxk_lab.cli.verbs.track import track
from maxk_lab.cli.verbs.upkeep.prune import prune
from maxk_lab.cli.verbs.validate import validate
from maxk_lab.errors import LabError

MISTAKE = 2


class LabGroup(TyperGroup):
    """Prints a `LabError`, or what the system refused, and exits with 2; bugs keep a traceback."""

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        """Read the command line."""
        try:
            return super().make_context(*arguments, **settings)
        except KeyboardInterrupt:
            say("Interrupted")
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the verb."""
        try:
            return super().invoke(ctx)
        except LabError as error:
            complain(error)
            raise typer.Exit(MISTAKE) from None
        except (OSError, MemoryError) as error:
            refused = refusal(error)
            if refused is None:
                raise
            complain(refused)
            raise typer.Exit(MISTAKE) from None
        except KeyboardInterrupt:
            say("Interrupted")
            raise


app = typer.Typer(
    cls=LabGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 ok, 1 cells failed, records are damaged or a claim was refuted, "
    "2 your mistake, 130 interrupted.",
)
VERBS = (
    run,
    plan,
    status,
    cancel,
    report,
    compare,
    recommend,
    check,
    list_,
    show,
    bundle,
    validate,
    track,
    prune,
)
for verb in VERBS:
    app.command(verb.__name__.removesuffix("_"))(verb)


def _version(wanted: bool) -> None:
    if wanted:
        tell(f"maxk-lab {__version__}")
        raise typer.Exit


@app.callback()
def callback(
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
    [bold]maxk-lab run experiments/tsp_sweep.yaml[/bold]      measure; resumable
    [bold]maxk-lab run experiments/llm_training.yaml[/bold]   train with each of them
    [bold]maxk-lab report[/bold]                              tables and verdicts on the claims
    [bold]maxk-lab recommend SPEC --budget 64[/bold]          the n and baseline for it
    [bold]maxk-lab list baselines[/bold]                      formulas and conditions
    """
