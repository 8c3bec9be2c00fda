"""`maxk-lab adapters`: the lines that bring Max@K advantages into other trainers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maxk_lab.catalogue import did_you_mean
from maxk_lab.cli.console import tell
from maxk_lab.errors import LabError

# What ms-swift takes as a plug-in.
SWIFT = Path(__file__).parents[2] / "adapters/swift/maxk_swift.py"
# The trainer, the version it was verified with, and what to paste.
TRAINERS = {
    "trl": (
        "1.16.0",
        "from maxk_lab.adapters.trl import MaxKRLOOTrainer, MaxKGRPOTrainer",
        'trainer = MaxKRLOOTrainer(…, k=8, baseline="subloo")',
    ),
    "verl": ("0.9.1", "algorithm.adv_estimator=maxk +algorithm.maxk_k=8"),
    "swift": (
        "4.6.0",
        "MAXK_K=8 swift rlhf --rlhf_type grpo --scale_rewards none \\",
        '    --external_plugins "$(maxk-lab adapters swift)" …',
    ),
    "torchrl": (
        "0.14.1",
        "from maxk_lab.adapters.torchrl import MaxKAdvantage",
        "buffer.append_transform(MaxKAdvantage(grpo_size=16, k=8))",
    ),
    "rl4co": (
        "0.7.0",
        "from maxk_lab.adapters.rl4co import with_maxk",
        "model = with_maxk(AttentionModel)(env, num_samples=16, k=8)",
    ),
}


def main(
    trainer: Annotated[
        str | None, typer.Argument(help="One of trl, verl, swift, torchrl, rl4co.")
    ] = None,
) -> None:
    """Print the lines that bring Max@K advantages into other trainers; docs/adapters.md has more.

    Of swift it is the path of the plug-in alone.

    \b
    [bold]maxk-lab adapters[/bold]
    [bold]swift rlhf --external_plugins "$(maxk-lab adapters swift)"[/bold]
    """
    if trainer == "swift":
        tell(str(SWIFT))
        return
    if trainer is not None and trainer not in TRAINERS:
        raise LabError(
            f"no adapter for {trainer}{did_you_mean(trainer, TRAINERS)}; there are "
            f"{', '.join(TRAINERS)}, and grouped_advantages for any other"
        )
    for name in [trainer] if trainer else TRAINERS:
        version, *lines = TRAINERS[name]
        tell(f"{name}, verified with {version}", bold=True)
        tell("".join(f"    {line}\n" for line in lines))
