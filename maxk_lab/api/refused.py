"""Refusals of the system as errors of the package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from maxk_lab.errors import RefusedError


@contextmanager
def refusals_told() -> Iterator[None]:
    """Turn what the system refuses in this context into a `RefusedError`.

    The command line tells the same refusals in a line.
    """
    from maxk_lab.cli.console import refusal

    try:
        yield
    except OSError as error:
        refused = refusal(error)
        if refused is None:
            raise
        raise RefusedError(f"the system refuses it: {refused}") from error
