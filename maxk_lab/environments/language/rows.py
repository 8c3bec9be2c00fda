"""The catalogue rows of the toy language and of a user's own prompts.

This module does not import torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Any

from maxk_lab.catalogue import Catalogue
from maxk_lab.environments.functions import ScoredRow, call_problems
from maxk_lab.environments.language.tasks import (
    MAX_VOCABULARY,
    REWARDS,
    TASKS,
    can_be_split,
    symbols_of,
)
from maxk_lab.environments.rows import MOST_TOKENS, EnvironmentRow
from maxk_lab.errors import LabError, shown
from maxk_lab.policies.catalogue import POLICIES, OwnOrPretrainedSettings, PolicyRow
from maxk_lab.settings import File, Numbers, Settings, Texts, number, setting
from maxk_lab.tables import read_rows

MAX_SEQUENCES = 20_000
# The named arguments of a reward function besides the columns of its prompts.
REWARD_ARGUMENTS = ("prompts", "completions", "completion_ids", "truncated")


class LanguageSettings(Settings):
    """The settings of the toy language."""

    task: str = setting("modular", "what the prompts ask for; see: maxk-lab list tasks")
    vocab_size: int = number(16, "number of tokens, the end included", low=3, high=MAX_VOCABULARY)
    max_length: int = number(
        16, "completions are cut after this many tokens", low=1, high=MOST_TOKENS
    )
    prompt_length: int = number(8, "symbols of a prompt", low=1, high=MOST_TOKENS)
    temperature: float = number(1.0, "divides the logits, everywhere", low=0.01)
    rewards: Texts = setting(
        [],
        "names (see: maxk-lab list rewards) or dotted paths package.module:name; none: the task's "
        "own",
    )
    reward_weights: Numbers = setting([], "one per reward function; none: all 1")


@dataclass(frozen=True, kw_only=True)
class LanguageRow(ScoredRow):
    """The toy language: enumerable if sequences are few and the policy is the small one."""

    supports: frozenset[str] = frozenset({"tempered"})

    def in_words(self, parameters: Mapping[str, Any]) -> str:
        """`language model (modular prompts, reward mine:correct)` if a reward is the user's own.

        The task then only provides the prompts.
        """
        rewards = [name for name in parameters.get("rewards", ()) if ":" in name]
        if not rewards:
            return EnvironmentRow.in_words(self, parameters)
        prompts = f"{parameters['task']} prompts, " if "task" in parameters else ""
        word = "reward" if len(rewards) == 1 else "rewards"
        return f"language model ({prompts}{word} {', '.join(rewards)})"

    def sequences(self, parameters: Mapping[str, Any]) -> int:
        """Return the number of completions, including those that are cut at max_length."""
        symbols, longest = parameters["vocab_size"] - 1, parameters["max_length"]
        return int(sum(symbols**length for length in range(longest + 1)))

    def enumerable(self, parameters: Mapping[str, Any]) -> bool:
        # With two or more symbols, longer completions are too many, and take long to count.
        short = parameters["max_length"] <= MAX_SEQUENCES.bit_length()
        small = not parameters.get("pretrained")
        return small and short and self.sequences(parameters) <= MAX_SEQUENCES

    def reward_names(self, parameters: Mapping[str, Any]) -> list[str]:
        return list(parameters["rewards"]) or [TASKS.get(parameters["task"]).reward]

    def named(self, parameters: Mapping[str, Any]) -> Sequence[tuple[Catalogue[Any], str]]:
        return [(TASKS, parameters["task"]), *ScoredRow.named(self, parameters)]

    def settings_of(self, policy: Mapping[str, Any]) -> type[Settings]:
        row, default = self.policy_row(policy), self.policies[0]
        is_default = policy.get("name", default) == default
        return OwnOrPretrainedSettings if is_default else row.settings

    def written(self, policy: Mapping[str, Any]) -> dict[str, Any]:
        """Return the policy in canonical form; a folder selects the pretrained policy.

        The default policy's parameters are there, too.
        """
        if policy.get("name") != "pretrained" or not policy.get("pretrained"):
            return EnvironmentRow.written(self, policy)
        settings = {name: value for name, value in policy.items() if name != "name"}
        return self.policy_settings.defaults() | settings

    def policy_row(self, policy: Mapping[str, Any]) -> PolicyRow:
        """Return the pretrained policy if `pretrained` is given, else the default policy.

        Raises `LabError` if both are requested, too.
        """
        row = EnvironmentRow.policy_row(self, policy)
        if row.name != self.policies[0] or not policy.get("pretrained"):
            return row
        if "name" in policy:
            raise LabError(
                f"{row.name} and the folder in `pretrained` contradict each other: leave out the "
                "folder, or the name (a folder alone is the policy pretrained)"
            )
        return POLICIES.get("pretrained")

    def problems(self, parameters: Mapping[str, Any]) -> Iterator[str]:
        try:
            task = TASKS.get(parameters["task"])
        except LabError as error:
            yield str(error)
            if not parameters["rewards"]:
                return
        else:
            symbols, length = symbols_of(parameters["vocab_size"]), parameters["prompt_length"]
            if unfit := task.refusal(parameters["max_length"]):
                yield unfit
            if not can_be_split(task.name, symbols, length):
                yield (
                    f"the {len(symbols) ** length} prompts of prompt_length {length} are too few "
                    "to hold some out; raise prompt_length or vocab_size"
                )
            columns = REWARDS.get(task.reward).reads
            names = dict.fromkeys((*REWARD_ARGUMENTS, *columns))
            yield from call_problems(parameters["rewards"], [*names])
        yield from ScoredRow.problems(self, parameters)


TOY_LLM = LanguageRow(
    name="toy_llm",
    meaning="language-model bandit: a small causal transformer answers prompts of a verifiable "
    "task, token by token",
    reward="of the task's own reward function, or the weighted sum of those in `rewards`",
    implementation="maxk_lab.environments.language.environment:LanguageEnvironment",
    exact_when=f"at most {MAX_SEQUENCES} completions ((vocab_size − 1)^l summed over l = "
    "0..max_length), not pretrained",
    small={"vocab_size": 4, "max_length": 3, "prompt_length": 3},
    settings=LanguageSettings,
    functions=REWARDS,
    policies=("transformer", "pretrained"),
    label=("language model", "({task} task)"),
)


def read_prompts(path: str | Path, prompt: str) -> list[dict[str, Any]]:
    """Return the rows of a file, each with a text under the key `prompt`.

    Raises `LabError` with the line for a row without this key, with other keys than the first row,
    or with a key that reward functions have as argument.
    """
    lines: list[dict[str, Any]] = []
    for place, line in read_rows(Path(path)):
        where = f"{path}, {place}"
        if line is None:
            raise LabError(f"{where}: no JSON object, or more fields than columns")
        if not isinstance(line.get(prompt), str):
            raise LabError(f"{where}: no text under the key {prompt!r}: {shown(line)}")
        try:
            "".join(value for value in line.values() if isinstance(value, str)).encode()
        except UnicodeEncodeError:
            raise LabError(f"{where}: no text in UTF-8: {shown(line)}") from None
        if names := [name for name in REWARD_ARGUMENTS if name in line and name != prompt]:
            raise LabError(
                f"{where}: rename the key {names[0]!r}, an argument of all reward functions"
            )
        if lines and line.keys() != lines[0].keys():
            names = sorted(line.keys() ^ lines[0].keys())
            raise LabError(f"{where}: it and the first line differ in the keys {', '.join(names)}")
        lines.append(line)
    if not lines:
        raise LabError(f"{path} has no prompts")
    return lines


class PromptSettings(Settings):
    """The settings of a user's own prompts."""

    prompts: File = setting(
        "",
        "file of prompts: JSON lines, JSON, CSV or Parquet; its other columns go to the rewards",
        spelling="path",
    )
    prompt: str = setting("prompt", "the key of the prompt's text")
    rewards: Texts = setting(
        [], "dotted paths package.module:name, or names (see: maxk-lab list rewards)"
    )
    reward_weights: Numbers = setting([], "one per reward function; none: all 1")
    max_new_tokens: int = number(
        64, "completions are cut after this many tokens", low=1, high=MOST_TOKENS
    )
    temperature: float = number(1.0, "divides the logits, everywhere", low=0.01)
    stop: Texts = setting([], "tokens that end a completion, besides the end of sequence")
    chat_template: bool = setting(False, "whether a prompt is put into the model's chat template")


@dataclass(frozen=True, kw_only=True)
class PromptRow(ScoredRow):
    """A user's prompts for a language model: the answers are too many to be listed."""

    listable: bool = False
    supports: frozenset[str] = frozenset({"tempered", "cuda"})

    def in_words(self, parameters: Mapping[str, Any]) -> str:
        """`language model (arithmetic prompts, reward mine:correct)`."""
        inside = []
        if prompts := parameters.get("prompts"):
            inside.append(f"prompts {PurePath(prompts).stem}")
        if rewards := parameters.get("rewards"):
            inside.append(f"reward{'s' if len(rewards) > 1 else ''} {', '.join(rewards)}")
        return f"language model ({', '.join(inside)})" if inside else "language model"

    def enumerable(self, parameters: Mapping[str, Any]) -> bool:
        return False

    def reward_names(self, parameters: Mapping[str, Any]) -> list[str]:
        return list(parameters["rewards"])

    def problems(self, parameters: Mapping[str, Any]) -> Iterator[str]:
        yield from ScoredRow.problems(self, parameters)
        if not parameters["prompts"]:
            yield "prompts is missing: a file with a prompt a line, as JSON"
        if not parameters["rewards"]:
            yield 'rewards is missing: functions of completions, as ["mine:correct"]'
        if path := dict(parameters["prompts"] or {}).get("path"):
            try:
                field = parameters["prompt"]
                columns = read_prompts(path, field)[0].keys() - {field}
            except LabError as error:
                yield f"cannot read the prompts: {error}"
            else:
                names = (*REWARD_ARGUMENTS, *sorted(columns))
                yield from call_problems(parameters["rewards"], names)

    def refusal(self, parameters: Mapping[str, Any], policy: Mapping[str, Any]) -> str | None:
        """Return a refusal also if a prompt with its completion exceeds the model's length."""
        reason = ScoredRow.refusal(self, parameters, policy)
        return reason or _too_long(parameters, policy.get("pretrained", ""))


def _too_long(parameters: Mapping[str, Any], folder: str) -> str | None:
    """Return why the model of a folder cannot read a prompt; None if only the run can decide."""
    config = Path(folder, "config.json")
    if not (config.is_file() and find_spec("tokenizers")):
        return None
    try:
        sizes = json.loads(config.read_text(encoding="utf-8"))
        limit = sizes.get("max_position_embeddings", sizes.get("n_positions"))
    except (OSError, ValueError, AttributeError):  # loading the model reports a damaged file
        return None
    path, field = parameters["prompts"]["path"], parameters["prompt"]
    texts = [line[field] for line in read_prompts(path, field)]
    # A chat template only adds tokens.
    lengths = _lengths(folder, texts, special=not parameters["chat_template"])
    if not lengths or not isinstance(limit, int):
        return None
    length, number = max((length, -i) for i, length in enumerate(lengths))
    if length + parameters["max_new_tokens"] - 1 <= limit:
        return None
    return (
        f"prompt {1 - number} of {path} has {length} tokens; with max_new_tokens = "
        f"{parameters['max_new_tokens']} that is more than the {limit} that the model of "
        f"{folder!r} reads"
    )


def _lengths(folder: str, texts: list[str], *, special: bool) -> list[int]:
    """Return the numbers of tokens of texts; none if the folder has no readable tokenizer.

    Only old folders, without tokenizer.json, import transformers.
    """
    file = Path(folder, "tokenizer.json")
    if not file.is_file():
        try:
            loaded = import_module("maxk_lab.policies.pretrained").loaded
            encode = loaded("AutoTokenizer", folder).encode
        except (ImportError, LabError):
            return []
        return [len(encode(text, add_special_tokens=special)) for text in texts]
    try:
        encoder = import_module("tokenizers").Tokenizer.from_file(str(file))
    except Exception:  # the type that tokenizers raises for a damaged file
        return []
    encoder.no_truncation()
    return [len(code.ids) for code in encoder.encode_batch(texts, add_special_tokens=special)]


LANGUAGE = PromptRow(
    name="language",
    meaning="prompts of your own, answered by a causal language model, scored by your functions",
    reward="the weighted sum of those in `rewards`",
    implementation="maxk_lab.environments.language.environment:PromptEnvironment",
    exact_when="no settings: completions are too many",
    settings=PromptSettings,
    functions=REWARDS,
    policies=("pretrained",),
)
