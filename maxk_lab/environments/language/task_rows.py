"""The catalogue of tasks of the toy language. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maxk_lab.catalogue import Catalogue, Row


@dataclass(frozen=True, kw_only=True)
class TaskRow(Row):
    """A task of the toy language, its reward function, and the sizes it needs."""

    reward: str
    least_symbols: int = 2
    least_length: int = 1
    # Whether the answer is as long as the prompt, so that it must fit into a completion.
    answer_of_prompt_length: bool = False

    def refusal(self, symbols: int, prompt_length: int, max_length: int) -> str | None:
        """Why the task cannot be set in this many symbols and these lengths, or None."""
        if symbols < self.least_symbols:
            return (
                f"task {self.name} needs vocab_size ≥ {self.least_symbols + 1} "
                f"(symbols and the end), got {symbols + 1}"
            )
        if max_length < self.least_length:
            return f"task {self.name} needs max_length ≥ {self.least_length}, got {max_length}"
        if self.answer_of_prompt_length and max_length < prompt_length:
            return (
                f"task {self.name} has answers as long as the prompt: max_length must be at least "
                f"prompt_length = {prompt_length}, got {max_length}"
            )
        return None


def _task(name: str, meaning: str, reward: str, **settings: Any) -> TaskRow:
    home = "maxk_lab.environments.language.tasks"
    return TaskRow(
        name=name, meaning=meaning, implementation=f"{home}:{name}", reward=reward, **settings
    )


TASKS: Catalogue[TaskRow] = Catalogue(
    "task",
    [
        _task(
            "hidden_target",
            "write the prompt under a secret substitution of symbols, exactly (pass@K)",
            "exact_match",
            answer_of_prompt_length=True,
        ),
        _task(
            "modular",
            "write the sum of the prompt's digits modulo the number of symbols, as one symbol, "
            "then end (pass@K)",
            "single_symbol",
            least_length=2,
        ),
        _task(
            "edit",
            "write the prompt backwards, graded by edit distance",
            "edit_similarity",
            answer_of_prompt_length=True,
        ),
        _task(
            "deceptive",
            "begin safely for .4, or riskily for 1 in an unlearnable eighth of the cases: mean "
            "and Max@K disagree",
            "safe_or_risky",
            least_length=3,
        ),
    ],
    "maxk_lab.tasks",
)
