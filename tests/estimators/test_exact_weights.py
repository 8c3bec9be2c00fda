"""The weights of 400 groups as brute force gave them once: ties, extremes, g and ratios far apart.

.venv/bin/python tests/estimators/test_exact_weights.py    write the table again
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS
from maxk_lab.estimators.check.brute_force import brute_force, has_definition
from maxk_lab.estimators.check.run import some_coefficients
from maxk_lab.estimators.method import Method

TABLE = Path(__file__).with_name("exact_weights.jsonl")
LINES = [json.loads(line) for line in TABLE.read_text(encoding="utf-8").splitlines()]
FORMS = ("top_m[2]", "cvar_upper[0.3]", "tail_rl", "order[0.5 0.0 -1.5]", "order[0.0 1.0 0.0]")


def numbers_of(line: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    """The rewards of a line, and the other numbers as `Method.weights` takes them."""
    numbers = {
        name: torch.tensor(line[name], dtype=torch.float64)
        for name in ("rewards", "ratios", "coefficients", "g")
        if name in line
    }
    if "g" in numbers:
        numbers["trajectory_weights"] = {line["kind"]: numbers.pop("g")}
    return numbers.pop("rewards"), numbers


def method_of(line: dict[str, Any]) -> Method:
    return Method.parse(line["estimator"], line["baseline"], line["k"])


BY_PAIR: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
for _line in LINES:
    BY_PAIR[_line["estimator"], _line["baseline"]].append(_line)


@pytest.mark.parametrize(("estimator", "baseline"), BY_PAIR)
def test_weights_are_the_exact_ones(estimator: str, baseline: str) -> None:
    """Within 1e-13 of the largest weight of the group; off-policy within 1e-14."""
    allowed = 1e-14 if estimator == "off_policy_maxk" else 1e-13
    for line in BY_PAIR[estimator, baseline]:
        rewards, numbers = numbers_of(line)
        found = method_of(line).weights(rewards, **numbers)
        exact = torch.tensor(line["weights"], dtype=torch.float64)
        largest = float(exact.abs().max()) or 1.0
        error = float((found - exact).abs().max()) / largest
        assert error <= allowed, (error, line)


@pytest.mark.parametrize("line", LINES[::10], ids=lambda line: line["baseline"])
def test_brute_force_still_gives_the_table(line: dict[str, Any]) -> None:
    rewards, numbers = numbers_of(line)
    assert brute_force(method_of(line), rewards, **numbers).tolist() == line["weights"]


def pairs() -> Iterator[tuple[str, str]]:
    """Every pair with a definition by subsets; of fitted baselines, with any coefficients."""
    for estimator in ("maxk", "reinforce", "off_policy_maxk", *FORMS):
        for row in BASELINES:
            for baseline in (row.name, *row.examples):
                method = Method.parse(estimator, baseline)
                if method.pair_refusal is None and has_definition(method):
                    yield estimator, baseline
    assert {row.name for row in ESTIMATORS if row.has_objective} <= {
        name.partition("[")[0] for name in ("maxk", "reinforce", *FORMS)
    }


def cases() -> Iterator[dict[str, Any]]:
    """The lines of the table without their weights."""
    generator = torch.Generator().manual_seed(0)
    turns = cycle(range(60))

    def normal(n: int) -> Tensor:
        return torch.randn(n, generator=generator, dtype=torch.float64)

    for estimator, baseline in pairs():
        of_pair = []
        for n in (1, 2, 3, 4, 5, 6):
            ks = [
                k
                for k in range(1, n + 1)
                if Method.parse(estimator, baseline, k).refusal(n) is None
            ]
            for k in ks:
                x, turn = normal(n), next(turns)
                rewards = (
                    *(x, x.round(), 3.0 * (x == x.max()).double(), 1e-3 * x - 1e4, 1e200 * x),
                    *((2.0 * x).round() - 6.0, torch.full_like(x, -2.5), x.exp()),
                )[turn % 8]
                method = Method.parse(estimator, baseline, k)
                line = {"estimator": estimator, "baseline": method.baseline.name, "k": method.k}
                line["rewards"] = rewards.tolist()
                if method.needed_weight is not None:
                    g = 10.0 ** (4.0 * normal(n))
                    g[: turn % 3] = 0.0 if turn % 2 else 1e30
                    line |= {
                        "kind": method.needed_weight,
                        "g": (0.0 * g if turn % 7 == 0 else g).tolist(),
                    }
                if method.needs_ratios:
                    ratios = ((0.0, 0.5, 5.0, 15.0, 60.0)[turn % 5] * normal(n)).exp()
                    ratios[n // 2] = 1e-200 if turn % 4 == 3 else ratios[n // 2]
                    line["ratios"] = ratios.tolist()
                if method.fit is not None:
                    count = method.baseline.row.coefficients(n, method.k)
                    line["coefficients"] = some_coefficients(count).tolist()
                of_pair.append(line)
        most = 21 if estimator == "off_policy_maxk" else 4
        yield from of_pair[:: max(1, -(-len(of_pair) // most))]


if __name__ == "__main__":
    with TABLE.open("w", encoding="utf-8") as file:
        for one in cases():
            rewards, numbers = numbers_of(one)
            weights = brute_force(method_of(one), rewards, **numbers).tolist()
            file.write(json.dumps(one | {"weights": weights}) + "\n")
