"""The user's mistakes: one clear line each, no traceback; everything else keeps its traceback."""

from __future__ import annotations

from dataclasses import dataclass


class LabError(Exception):
    """A mistake the user can mend; the command line prints the message and exits with 2."""


@dataclass(frozen=True)
class Problem:
    """One problem of a sweep file: where it stands and what is wrong with it."""

    file: str
    line: int
    column: int
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.path}: {self.message}"


class SpecError(LabError):
    """Every problem of a sweep file at once, one line per problem."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))
