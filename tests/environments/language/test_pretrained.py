"""A pretrained policy from a local folder, made on the spot with random weights."""

import pytest
import torch
from model_folders import stand_in_model
from small_environments import make

from maxk_lab.errors import LabError
from maxk_lab.gradients.scores.by_layer import LayerScores
from maxk_lab.gradients.scores.per_trajectory import trajectory_scores
from maxk_lab.gradients.scores.trajectories import instance_scores
from maxk_lab.seeds import isolated_rng

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

END, BEGIN = 0, 1
TOKENS = ("<end>", "<begin>", "<unknown>", *"0123456789ab")


def save_tokenizer(folder, **special):
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel(
            {token: i for i, token in enumerate(TOKENS)}, unk_token="<unknown>"
        )
    )
    tokenizer.decoder = tokenizers.decoders.Fuse()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unknown>", **special
    ).save_pretrained(folder)


def save_model(folder):
    sizes = {"vocab_size": len(TOKENS), "eos_token_id": END, "bos_token_id": BEGIN}
    config = transformers.GPT2Config(
        n_positions=32, n_embd=16, n_layer=1, n_head=2, initializer_range=0.5, **sizes
    )
    with isolated_rng(0):
        transformers.GPT2LMHeadModel(config).save_pretrained(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("gpt2")
    save_model(path)
    save_tokenizer(path, eos_token="<end>", bos_token="<begin>")
    return str(path)


def pretrained(folder, **changes):
    sizes = {"vocab_size": 6, "max_length": 5, "prompt_length": 4}
    return make("toy_llm", policy={"pretrained": folder}, **sizes | changes)


def test_the_layers_of_a_pretrained_model_tell_its_scores(folder):
    """Of GPT-2, whose weights are tied and whose linear layers are none of torch's."""
    environment = pretrained(folder)
    policy, instance = environment.policy(0), environment.instances(1, 1)
    actions = environment.rollout(policy, instance, 6, seed=2).actions
    parameters = list(policy.parameters())
    scores = instance_scores(environment, policy, instance, actions[0])
    assert isinstance(scores, LayerScores)
    log_probs = environment.log_probs(policy, instance, actions)[0]
    expected = trajectory_scores(log_probs, parameters)
    found = torch.cat(scores(0, 6, parameters), 1)
    assert ((found - expected).norm(dim=1) / expected.norm(dim=1)).max() < 1e-9


def test_the_model_is_asked_what_follows_prompt_and_separator(folder):
    environment = pretrained(folder)
    policy, instances = environment.policy(0), environment.instances(1, 1)
    actions = environment.rollout(policy, instances, 1, seed=2).actions
    model = (
        transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
        .double()
        .eval()
    )
    (prompt,) = environment.prompts(instances)
    so_far, total = [*(TOKENS.index(symbol) for symbol in prompt), BEGIN], 0.0
    for token in actions[0, 0].tolist():
        logits = model(input_ids=torch.tensor([so_far])).logits[0, -1].detach()
        logits[BEGIN] = -torch.inf
        total += logits.log_softmax(-1)[token].item()
        so_far.append(token)
        if token == END:
            break
    assert environment.log_probs(policy, instances, actions).item() == pytest.approx(
        total, abs=1e-10
    )


def test_the_separator_is_never_written_and_texts_are_the_tokenizers(folder):
    environment = pretrained(folder, rewards=["exact_match", "single_symbol"])
    policy, instances = environment.policy(0), environment.instances(4, 1)
    rollouts = environment.rollout(policy, instances, 64, seed=2)
    assert not (rollouts.actions == BEGIN).any()
    assert torch.equal(rollouts.truncated, ~(rollouts.actions == END).any(-1))
    assert rollouts.reward_parts.shape == (4, 64, 2)
    assert environment.decode([[3, 4, 5], [], [14]]) == ["012", "", "b"]


def test_a_folder_without_a_model_its_tokenizer_a_symbol_or_an_end_is_refused(folder, tmp_path):
    stand_in_model(tmp_path)
    with pytest.raises(LabError, match="holds no causal language model with its tokenizer"):
        pretrained(str(tmp_path))
    save_tokenizer(tmp_path, eos_token="<end>")
    with pytest.raises(LabError, match="holds no causal language model with its tokenizer"):
        pretrained(str(tmp_path)).policy(0)
    save_model(tmp_path)
    save_tokenizer(tmp_path)
    with pytest.raises(LabError, match="has no end-of-sequence token"):
        pretrained(str(tmp_path))
    with pytest.raises(LabError, match="no single token for the symbol 'c'"):
        pretrained(folder, vocab_size=14)


def test_completions_beyond_the_positions_of_the_model_are_refused(folder):
    """Of 32; the last token of a completion is not read."""
    fitting = pretrained(folder, max_length=28)
    prompts = fitting.instances(1, 0)
    assert fitting.rollout(fitting.policy(0), prompts, 2, seed=0).rewards.shape == (1, 2)
    with pytest.raises(LabError, match="prompts of 4 tokens with completions of 29 take 33"):
        pretrained(folder, max_length=29).policy(0)
