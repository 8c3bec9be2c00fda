"""Folders of saved language models: what is wrong with one is said before it is loaded."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from model_folders import stand_in_model
from sweep_files import SMALL, Write, problems

from maxk_lab.policies.model_folder import folder_problem


def test_a_whole_folder_has_no_problem(tmp_path: Path) -> None:
    stand_in_model(tmp_path)
    assert folder_problem(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config.json", None, "is no folder of a saved model (it has no config.json)"),
        ("config.json", b"{", "has a damaged config.json, which must be a mapping in JSON"),
        ("config.json", b"[" * 100_000, "has a damaged config.json"),
        ("config.json", b"\xff\xfe", "has a damaged config.json"),
        ("tokenizer.json", b"[]", "has a damaged tokenizer.json"),
        ("tokenizer.json", None, "has no tokenizer: none of tokenizer.json, "),
        ("model.safetensors", None, "has no weights: none of *.safetensors, pytorch_model*.bin"),
        ("model.safetensors", b"", "has a damaged model.safetensors, which is shorter than it"),
        ("model.safetensors", struct.pack("<Q", 2**60), "has a damaged model.safetensors"),
        (
            "model.safetensors",
            struct.pack("<Q", 29) + b'{"a": {"data_offsets": [0,8]}}'[:29],
            "has a damaged model.safetensors",
        ),
    ],
)
def test_a_folder_that_cannot_be_loaded_is_refused(
    tmp_path: Path, write: Write, name: str, content: bytes | None, words: str
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    stand_in_model(folder)
    (folder / name).unlink() if content is None else (folder / name).write_bytes(content)
    assert (folder_problem(folder) or "").startswith(words)
    text = SMALL.replace("bandit, arms: 4}", "toy_llm}\npolicy: {pretrained: model}")
    (problem,) = problems(write(text))
    assert problem.startswith(f"sweep.yaml:4:22: policy.pretrained: pretrained: 'model' {words}")
