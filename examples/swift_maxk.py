"""Train a tiny Qwen2 of random weights with ms-swift for the best of 4 answers, on a CPU.

    python examples/swift_maxk.py [FOLDER [MORE ARGUMENTS OF swift rlhf]]

It runs `swift rlhf --rlhf_type grpo` as a shell would. What differs from ms-swift's GRPO are MAXK_K
and MAXK_BASELINE, the plug-in of maxk-lab, and `--scale_rewards none`.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from maxk_lab.cli.verbs.adapters import SWIFT
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

# ms-swift wants an "a" among them.
TOKENS = ("<end>", *"0123456789+=a")
HERE = Path(__file__).parent
folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())

tokenizer = Qwen2Tokenizer(
    vocab={token: number for number, token in enumerate(TOKENS)},
    merges=[],
    chat_template="{% for message in messages %}{{ message['content'] }}{% endfor %}",
    **dict.fromkeys(("eos_token", "pad_token", "unk_token"), "<end>"),
)
tokenizer.save_pretrained(folder / "model")
torch.manual_seed(0)
sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.2}
config = Qwen2Config(**sizes, **heads, vocab_size=len(TOKENS), eos_token_id=0, bos_token_id=None)
model = Qwen2ForCausalLM(config)
model.generation_config.begin_suppress_tokens = [0]  # ms-swift fails at an empty completion
model.save_pretrained(folder / "model")

lines = [
    {"messages": [{"role": "user", "content": f"{a}+{b}="}], "answer": str(a + b)}
    for a in range(4)
    for b in range(4)
]
(folder / "data.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))

trainer = "--rlhf_type grpo --tuner_type full --num_generations 16 --max_completion_length 2"
batches = "--per_device_train_batch_size 128 --max_steps 12 --learning_rate 1e-2 --logging_steps 1"
loss = "--scale_rewards none --beta 0 --loss_type dr_grpo --reward_funcs right_digit"
local = "--model_type qwen2 --template dummy --torch_dtype float32 --save_strategy no"
quiet = "--report_to none --load_from_cache_file false --check_model false"
subprocess.run(
    [
        *("swift", "rlhf", "--model", folder / "model", "--dataset", folder / "data.jsonl"),
        *("--external_plugins", HERE / "swift_rewards.py", SWIFT, "--output_dir", folder / "out"),
        *f"{trainer} {batches} {loss} {local} {quiet}".split(),
        *sys.argv[2:],
    ],
    env=os.environ | {"MAXK_K": "4", "MAXK_BASELINE": "subloo", "HF_HUB_OFFLINE": "1"},
    check=True,
)
