"""Train a tiny model for its best of 2 answers, with TRL: python examples/trl_maxk.py

Runs on a CPU in half a minute, downloads nothing, and measures while it trains which baseline has
the lowest variance.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from datasets import Dataset
from tiny_model import write
from transformers import AutoTokenizer
from trl import RLOOConfig

from maxk_lab.adapters.measuring import Measuring
from maxk_lab.adapters.trl import MaxKRLOOTrainer


def near(completions: list[str], answer: list[int], **columns: Any) -> list[float]:
    """1 for the right digit first, less the farther it is off; 0 for none."""
    digits = [int(text[0]) if text[:1].isdigit() else None for text in completions]
    return [
        0.0 if digit is None else 1 - abs(digit - right) / 10
        for digit, right in zip(digits, answer, strict=True)
    ]


def main(steps: int = 40) -> MaxKRLOOTrainer:
    """Train, print the Max@K before and after, and the last measurement."""
    folder = Path(tempfile.mkdtemp())
    write(folder)
    sums = [{"prompt": f"{a}+{b}=", "answer": a + b} for a in range(5) for b in range(5)]
    config = RLOOConfig(
        output_dir=str(folder / "out"),
        num_generations=16,
        per_device_train_batch_size=256,
        max_completion_length=2,
        max_steps=steps,
        learning_rate=1e-3,
        beta=0.0,  # else the KL penalty is inside the maximum
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        bf16=False,
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer = MaxKRLOOTrainer(
        str(folder),
        near,
        config,
        train_dataset=Dataset.from_list(sums),
        processing_class=AutoTokenizer.from_pretrained(folder),
        k=2,
        baseline="subloo",
        measuring=Measuring(every=20, parameters="lm_head", k=[1, 2]),
    )
    trainer.train()
    lines = [line for line in trainer.state.log_history if "max@2" in line]
    for name, line in (("first", lines[0]), ("last", lines[-1])):
        print(f"{name} step: Max@1 {line['max@1']:.2f}, Max@2 {line['max@2']:.2f}")
    print(*trainer.measuring.report.answer, sep="\n")
    return trainer


if __name__ == "__main__":
    main()
