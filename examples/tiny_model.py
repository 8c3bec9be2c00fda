"""Write a tiny language model with random weights, to try what takes a model folder.

    python examples/tiny_model.py tiny           a GPT-2 of 30,000 parameters
    python examples/tiny_model.py tiny qwen2     a Qwen2

Its tokens are the characters of the arithmetic prompts in examples/prompts.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

TOKENS = ("<end>", "<unknown>", *"0123456789+-*=")
CHAT = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def write(folder: str | Path, kind: str = "gpt2", width: int = 32) -> None:
    """Write the model and its tokenizer."""
    numbers = {token: number for number, token in enumerate(TOKENS)}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="<unknown>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unknown>",
        eos_token="<end>",
        chat_template=CHAT,
    ).save_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        _model(kind, width).save_pretrained(folder)


def _model(kind: str, width: int) -> Any:
    common: dict[str, Any] = {"vocab_size": len(TOKENS), "eos_token_id": 0, "bos_token_id": None}
    if kind == "gpt2":
        config = GPT2Config(
            n_positions=64, n_embd=width, n_layer=2, n_head=4, initializer_range=0.2, **common
        )
        return GPT2LMHeadModel(config)
    sizes = {"hidden_size": width, "intermediate_size": 2 * width, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.2}
    return Qwen2ForCausalLM(Qwen2Config(**sizes, **heads, **common))


if __name__ == "__main__":
    write(*sys.argv[1:3])
