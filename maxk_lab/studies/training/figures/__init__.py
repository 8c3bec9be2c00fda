"""The figures of a training study, each drawn where it has something to show."""

from __future__ import annotations

from collections.abc import Iterator

from maxk_lab.report.drawing.picture import Picture
from maxk_lab.report.model import Summary
from maxk_lab.report.tables import Pooled
from maxk_lab.studies.training.columns import three
from maxk_lab.studies.training.figures import captions
from maxk_lab.studies.training.figures.board import Board, boards
from maxk_lab.studies.training.figures.curves import against_rollouts, against_time, off_the_axes
from maxk_lab.studies.training.figures.final import (
    AgainstK,
    against_k,
    difference_curve,
    final_curve,
    gap_curve,
    off_the_axis,
)
from maxk_lab.studies.training.figures.log import log_figure
from maxk_lab.studies.training.row.model import TrainingRow
from maxk_lab.studies.training.section.answer.headline import reference_words
from maxk_lab.studies.training.section.answer.place import Place, places_of
from maxk_lab.studies.training.section.answer.wording import joined


def figures(found: Pooled[TrainingRow], summary: Summary) -> Iterator[Picture]:
    """The figures of all environments, or of each, with their titles and captions."""
    for board in boards(places_of(found.rows, summary.level)):
        yield from _against_k(board, summary.level)
        yield from _during(board, summary.level)


def _against_k(board: Board, level: float) -> Iterator[Picture]:
    """Figures of what policies reach: differences first, which answer the question of a study."""
    places = _places(board)
    first, bands = places[0], captions.bands(board.rows, level)
    at, grey = first.at("K"), captions.behind(board)
    best = (
        "Share solved by at least one of K samples"
        if at.startswith("pass")
        else "Best of K samples"
    )
    references = joined(list(dict.fromkeys(reference_words(p) for p in places if p.compared)))
    paired = "instance" if all(row.one_seed for row in board.rows) else "seed"
    quantities = (
        (
            "max-at-k-difference",
            f"{best} after training, minus that after {references}",
            AgainstK(difference_curve, f"difference of {at}", at_zero=True),
            f"{at} of trained policies minus that after {references}, paired by {paired}: above "
            "the line at 0 is better.",
            captions.told(places),
        ),
        (
            "max-at-k",
            f"{best} after training",
            AgainstK(final_curve, f"held-out {at}"),
            f"{at} on held-out instances against K. {captions.costs(board.rows)}",
            captions.highest(places),
        ),
        (
            "gap",
            "Gap to the optimum of the best of K samples after training",
            AgainstK(gap_curve, "gap to the optimum in %"),
            "How far the best of K samples is from the optimum, in percent of it: lower is better.",
            captions.least_gap(places),
        ),
    )
    for name, title, what, shown, says in quantities:
        figure = against_k(board, what, _titled(title, board))
        if figure is not None:
            known = captions.known_optima(board.rows) if name == "gap" else ""
            gone = captions.off_the_axis(board, off_the_axis(board, what))
            caption = captions.sentences(shown, known, bands, grey, gone, says)
            yield Picture(name + board.suffix, figure, _titled(title, board), caption)


def _during(board: Board, level: float) -> Iterator[Picture]:
    """Figures of what happened during training."""
    places = _places(board)
    bands, grey = captions.bands(board.rows, level), captions.behind(board)
    ks = three(sorted({k for place in places for k in place.ks}), board.rows)
    title = _titled("Held-out rewards during training", board)
    shown = "What policies reach on held-out instances after so many rollouts of training."
    gone = captions.outside(board, off_the_axes(board, ks))
    yield Picture(
        f"training{board.suffix}",
        against_rollouts(board, ks, title),
        title,
        captions.sentences(shown, captions.costs(board.rows), bands, grey, gone),
    )
    title = _titled(f"Held-out {places[0].at(ks[-1])} against the time of training", board)
    timed = against_time(board, title)
    if timed is not None:
        shown = (
            "The same policies against the seconds of training, mean over seeds; evaluations are "
            "not counted."
        )
        caption = captions.sentences(shown, captions.seconds(places), bands, grey)
        yield Picture(f"training-time{board.suffix}", timed, title, caption)
    title = _titled("What the training batches tell", board)
    log = log_figure(board, title)
    if log is not None:
        shown = "Measures of the training batches themselves against rollouts."
        caption = captions.sentences(shown, captions.log_bands(board.rows, level), grey)
        yield Picture(f"training-log{board.suffix}", log, title, caption)


def _places(board: Board) -> list[Place]:
    """The places that its panels are of, each once."""
    return list({id(panel.of): panel.of for panel in board.panels}.values())


def _titled(title: str, board: Board) -> str:
    return f"{title}: {board.where}" if board.where else title
