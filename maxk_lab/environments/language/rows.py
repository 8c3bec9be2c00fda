"""The catalogue row of the toy language: what may be set about it and its policy.

Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maxk_lab.catalogue import Parameter
from maxk_lab.environments.language.reward_rows import REWARDS, load_reward_object
from maxk_lab.environments.language.task_rows import TASKS
from maxk_lab.environments.language.tasks import can_be_split
from maxk_lab.environments.language.vocabulary import MAX_VOCABULARY, symbols_of
from maxk_lab.environments.rows import EnvironmentRow
from maxk_lab.errors import LabError
from maxk_lab.policies.catalogue import POLICIES, PRETRAINED_FOLDER, PolicyRow

MAX_SEQUENCES = 20_000


def reward_names(parameters: Mapping[str, Any]) -> list[str]:
    """The reward functions that score a sweep's completions: the given ones, or the task's own."""
    return list(parameters["rewards"]) or [TASKS.get(parameters["task"]).reward]


def reward_weights(parameters: Mapping[str, Any]) -> list[float]:
    """One weight per reward function, all 1 unless given."""
    return list(parameters["reward_weights"]) or [1.0] * len(reward_names(parameters))


@dataclass(frozen=True, kw_only=True)
class LanguageRow(EnvironmentRow):
    """The toy language: enumerable where sequences are few and nothing cuts their distribution."""

    def sequences(self, parameters: Mapping[str, Any]) -> int:
        """The number of completions, those that are cut at max_length included."""
        symbols, longest = parameters["vocab_size"] - 1, parameters["max_length"]
        return int(sum(symbols**length for length in range(longest + 1)))

    def enumerable(self, parameters: Mapping[str, Any]) -> bool:
        whole = parameters["top_p"] == 1.0 and not parameters.get("pretrained")
        return whole and self.sequences(parameters) <= MAX_SEQUENCES

    def decisions(self, parameters: Mapping[str, Any]) -> float:
        # Teacher forcing takes all tokens in one pass, which makes a token cheaper than a routing
        # decision.
        return 0.25 * float(parameters["max_length"])

    def other_rewards(self, parameters: Mapping[str, Any]) -> str | None:
        names, weights = reward_names(parameters), reward_weights(parameters)
        if len(names) > 1:
            return f"{' and '.join(names)} are added up"
        if weights != [1.0]:
            return f"{names[0]} has the weight {weights[0]:g}"
        if names[0] in REWARDS and not REWARDS.get(names[0]).binary:
            return f"{names[0]} gives others"
        return None

    def refusal(self, parameters: Mapping[str, Any], policy: Mapping[str, Any]) -> str | None:
        of_policy = EnvironmentRow.refusal(self, parameters, policy)
        reasons = [*_language_problems(parameters), *([of_policy] if of_policy else [])]
        return "; ".join(reasons) or None

    def parameters_of(self, policy: Mapping[str, Any]) -> tuple[Parameter, ...]:
        """Its own policy gives way to the pretrained one where `pretrained` is given, too."""
        row = EnvironmentRow.policy_row(self, policy)
        is_own = row.name == self.policies[0]
        return (*row.parameters, PRETRAINED_FOLDER) if is_own else row.parameters

    def policy_row(self, policy: Mapping[str, Any]) -> PolicyRow:
        row = EnvironmentRow.policy_row(self, policy)
        gives_way = row.name == self.policies[0] and policy.get("pretrained")
        return POLICIES.get("pretrained") if gives_way else row


def _language_problems(parameters: Mapping[str, Any]) -> list[str]:
    problems = []
    try:
        task = TASKS.get(parameters["task"])
    except LabError as error:
        return [str(error), *_reward_problems(parameters["rewards"], parameters["reward_weights"])]
    symbols = symbols_of(parameters["vocab_size"])
    unfit = task.refusal(len(symbols), parameters["prompt_length"], parameters["max_length"])
    if unfit:
        problems.append(unfit)
    if not can_be_split(task.name, symbols, parameters["prompt_length"]):
        problems.append(
            f"the {len(symbols) ** parameters['prompt_length']} prompts of prompt_length "
            f"{parameters['prompt_length']} are too few to hold some out; raise prompt_length or "
            "vocab_size"
        )
    return problems + _reward_problems(reward_names(parameters), parameters["reward_weights"])


def _reward_problems(names: Sequence[str], weights: Sequence[float]) -> list[str]:
    problems = []
    for name in names:
        try:
            load_reward_object(name)
        except LabError as error:
            problems.append(str(error))
    if weights and len(weights) != len(names):
        problems.append(
            f"reward_weights must hold one weight for each of the {len(names)} reward functions "
            f"({', '.join(names)}), "
            f"got {len(weights)}"
        )
    return problems


TOY_LLM = LanguageRow(
    name="toy_llm",
    meaning="language-model bandit: a small causal transformer answers prompts of a verifiable "
    "task, token by token",
    reward="of the task's own reward function, or the weighted sum of those in `rewards`",
    implementation="maxk_lab.environments.language.toy_llm:make_language_environment",
    exact_when=f"at most {MAX_SEQUENCES} completions ((vocab_size − 1)^l summed over l = "
    "0..max_length), top_p = 1, not pretrained",
    small={"vocab_size": 4, "max_length": 3, "prompt_length": 3},
    parameters=(
        Parameter(
            "task", str, "edit", meaning="what the prompts ask for; see: maxk-lab list tasks"
        ),
        Parameter(
            "vocab_size",
            int,
            16,
            low=3,
            high=MAX_VOCABULARY,
            meaning="number of tokens, the end included",
        ),
        Parameter(
            "max_length", int, 16, low=1, meaning="completions are cut after this many tokens"
        ),
        Parameter("prompt_length", int, 8, low=1, meaning="symbols of a prompt"),
        Parameter("temperature", float, 1.0, low=0.01, meaning="divides the logits, everywhere"),
        Parameter("top_p", float, 1.0, low=0.01, high=1.0, meaning="mass of the nucleus; 1 is off"),
        Parameter(
            "rewards",
            str,
            (),
            many=True,
            meaning="names (see: maxk-lab list rewards) or dotted paths package.module:name; none: "
            "the task's own",
        ),
        Parameter(
            "reward_weights", float, (), many=True, meaning="one per reward function; none: all 1"
        ),
    ),
    policies=("transformer", "pretrained"),
)
