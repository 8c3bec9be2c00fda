"""Prompts of the user's own: read, sampled, scored and taught as the model itself would."""

import json
import re
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from maxk_lab.cli import app
from maxk_lab.environments.environment import make_environment
from maxk_lab.environments.language.rows import read_prompts
from maxk_lab.errors import LabError
from maxk_lab.files import resolved_file

pytest.importorskip("transformers")
sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
from tiny_model import TOKENS, write

LINES = [{"q": "1+1=", "answer": "2"}, {"q": "12*3-4=", "answer": "9"}, {"q": "7-", "answer": "0"}]


def count_of(prompts, completions, answer, truncated, **columns):
    """The number of characters of a completion, and 10 where the answer is in it."""
    assert set(columns) <= {"completion_ids", "kind"}
    assert len(prompts) == len(truncated)
    pairs = zip(completions, answer, strict=True)
    return [len(text) + 10.0 * (right in text) for text, right in pairs]


@pytest.fixture(scope="module", params=["gpt2", "qwen2"])
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param)
    write(path, request.param, 16)
    return str(path)


@pytest.fixture
def gpt2(tmp_path):
    write(tmp_path / "gpt2", "gpt2", 16)
    return str(tmp_path / "gpt2")


def made(folder, tmp_path, lines=LINES, **changes):
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    parameters = {
        **{"name": "language", "prompts": resolved_file(str(path), "prompts"), "prompt": "q"},
        **{"rewards": ["test_prompts:count_of"], "reward_weights": [], "max_new_tokens": 4},
        **{"temperature": 1.0, "stop": [], "chat_template": False},
    }
    return make_environment(parameters | changes, {"pretrained": folder, "dtype": "float64"})


@pytest.fixture(autouse=True)
def rewards_in_place(monkeypatch):
    monkeypatch.setitem(sys.modules, "test_prompts", sys.modules[__name__])


ALL = torch.arange(len(LINES))


def test_completions_have_the_probability_that_the_model_gives_them(folder, tmp_path):
    """One row at a time, without padding, memory or temperature: the definition."""
    environment = made(folder, tmp_path)
    policy = environment.policy(0)
    rollouts = environment.rollout(policy, ALL, 6, seed=1)
    log_probs = environment.log_probs(policy, ALL, rollouts.actions)
    for i in range(len(LINES)):
        prompt = environment.encoded(ALL[i : i + 1])[0][0]
        for j, row in enumerate(rollouts.actions[i]):
            length = int((row != 0).sum()) + int((row == 0).any())
            tokens = torch.cat([prompt, row[:length]])
            with torch.no_grad():
                logits = policy.model(input_ids=tokens[None]).logits[0].double()
            steps = logits[len(prompt) - 1 : -1].log_softmax(-1)
            expected = steps.gather(-1, row[:length, None]).sum()
            assert float(log_probs[i, j].detach()) == pytest.approx(float(expected), rel=1e-6)
    torch.testing.assert_close(rollouts.log_probs, log_probs.detach())


def test_samples_are_those_of_the_first_token_s_distribution(gpt2, tmp_path):
    environment = made(gpt2, tmp_path)
    policy = environment.policy(0)
    drawn = environment.rollout(policy, ALL[1:2], 1000, seed=0).actions[0, :, 0]
    with torch.no_grad():
        logits = policy.model(input_ids=environment.encoded(ALL[1:2])[0]).logits[0, -1]
    chance = logits.double().softmax(-1)
    shares = torch.bincount(drawn, minlength=len(chance)) / len(drawn)
    assert ((shares - chance).abs() < 4.5 * (chance / len(drawn)).sqrt() + 1e-3).all()


def test_rewards_are_called_with_the_other_keys_of_a_line(gpt2, tmp_path):
    environment = made(gpt2, tmp_path)
    rollouts = environment.rollout(environment.policy(0), ALL, 5, seed=3)
    tokens = rollouts.actions.flatten(0, 1)
    texts = environment.tokenizer.batch_decode(tokens, skip_special_tokens=True)
    answers = [line["answer"] for line in LINES for _ in range(5)]
    expected = [
        len(text) + 10.0 * (right in text) for text, right in zip(texts, answers, strict=True)
    ]
    assert rollouts.rewards.flatten().tolist() == expected


def test_temperature_and_stop_tokens(gpt2, tmp_path):
    environment = made(gpt2, tmp_path, stop=["1", "2", "+"])
    policy = environment.policy(0)
    cold = environment.tempered(1e-5).rollout(policy, ALL, 8, seed=0).actions
    assert (cold[0] == cold[0, :1]).all()
    ends = [TOKENS.index(token) for token in ("<end>", "1", "2", "+")]
    actions = environment.rollout(policy, ALL, 50, seed=0).actions.flatten(0, 1)
    for row in actions.tolist():
        first = next((t for t, token in enumerate(row) if token in ends), len(row))
        assert set(row[first + 1 :]) <= {0}
    with pytest.raises(LabError, match="is 2 tokens of this model"):
        made(gpt2, tmp_path, stop=["12"])


def test_held_out_prompts_are_none_of_the_others(gpt2, tmp_path):
    lines = [{"q": f"{i}+{j}=", "answer": "0"} for i in range(10) for j in range(5)]
    environment = made(gpt2, tmp_path, lines)
    train, held_out = (environment.instances(200, 0, held_out=out) for out in (False, True))
    assert not set(train.tolist()) & set(held_out.tolist())
    assert len(set(train.tolist())) + len(set(held_out.tolist())) == 50
    counts = torch.bincount(train)
    assert counts[counts > 0].max() - counts[counts > 0].min() <= 1
    assert torch.equal(train, environment.instances(200, 0))
    with pytest.raises(LabError, match="is held out: give more"):
        made(gpt2, tmp_path, LINES[:1]).instances(3, 0, held_out=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"q": "1"}\n{"p": "1"}\n', "line 2: no text under the key 'q'"),
        ('{"q": "1"}\n{"q": \n', "line 2: no JSON object"),
        ('{"q": "1"}\n{"q": "2", "answer": 3}\n', "line 2: it and the first line differ .* answer"),
        ('{"q": [{"role": "user", "content": "1"}]}', "line 1: no text under the key 'q'"),
        ('{"q": "1", "completions": "2"}', "line 1: rename the key 'completions', an arg"),
        ('{"q": "1", "answer": "\udcfc"}', r"line 1: no text in UTF-8: .*\\udcfc"),
        ("\n", "has no prompts"),
    ],
)
def test_damaged_prompts_are_refused(tmp_path, text, message):
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(LabError, match=message):
        read_prompts(path, "q")


def test_prompts_may_be_in_any_form(tmp_path):
    table = pd.DataFrame(LINES)
    for text in (
        "\ufeff" + table.to_json(orient="records", lines=True),
        table.to_json(orient="records", indent=1),
        table.to_csv(index=False, sep=";"),
    ):
        (tmp_path / "prompts").write_text(text, encoding="utf-8")
        assert read_prompts(tmp_path / "prompts", "q") == LINES
    (tmp_path / "prompts").write_text("q\none word\nword\n")
    assert read_prompts(tmp_path / "prompts", "q") == [{"q": "one word"}, {"q": "word"}]


SWEEP = """name: a
environment:
  name: language
  prompts: prompts.jsonl
  prompt: q
  rewards: ["{reward}"]
  max_new_tokens: {tokens}
  chat_template: true
policy: {{pretrained: model}}
seeds: 1
gradient: {{instances: 2, grid: {{estimator: maxk, baseline: centred, n: 4, k: 2}}}}
"""
FUNCTIONS = """
def good(completions, answer, prompts=None, **kwargs): ...
def exact(prompts, completions, completion_ids, truncated, answer): ...
def narrow(prompts, completions, answer): ...
def hungry(completions, solution, **kwargs): ...
def places(prompts, completions, /, **kwargs): ...
good.good = hungry

from functools import cache
from others_of_mine import strict as imported
again = narrow

def timed(function):
    def call(*a, **k):
        print(function.__name__)
        return function(*a, **k)
    return call

def chosen(function):
    def call(*a, **k):
        return function(*a, answer=k["answer"])
    return call

@cache
@timed
def decorated(completions, answer): ...
@chosen
def free(prompts, completions, answer): ...
made = chosen(narrow)
"""
OTHERS = "from functions_of_mine import narrow as strict"


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """Plans a sweep file from another folder; prompts, model and functions are beside the sweep."""
    write(tmp_path / "model", "gpt2", 16)
    (tmp_path / "functions_of_mine.py").write_text(FUNCTIONS)
    (tmp_path / "others_of_mine.py").write_text(OTHERS)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    def plan(sweep, *lines):
        text = "".join(json.dumps(line) + "\n" for line in LINES)
        Path("../prompts.jsonl").write_text("".join([text, *lines]))
        Path("../a.yaml").write_text(sweep)
        return CliRunner().invoke(app, ["plan", "../a.yaml"], env={"COLUMNS": "1000"})

    return plan


OF_LANGUAGE = {
    ("good", 58): None,
    ("exact", 4): None,
    ("narrow", 4): "functions_of_mine:narrow' does not take completion_ids, truncated: add ..kw",
    ("hungry", 4): "rewards.0: .*hungry' needs solution: it is called by name, with prompts, ",
    ("places", 4): "places' takes prompts by its position",
    ("decorated", 4): "does not take prompts, completion_ids, truncated: add ..kwargs",
    ("imported", 4): "'functions_of_mine:imported' does not take completion_ids, truncated",
    ("again", 4): "'functions_of_mine:again' does not take completion_ids, truncated",
    ("free", 4): None,
    ("made", 4): None,
    ("good", 59): "prompt 2 of .*prompts.jsonl has 7 tokens; with max_new_tokens = 59 that is",
}


def test_a_plan_refuses_what_a_run_cannot_do(plan):
    for (reward, tokens), message in OF_LANGUAGE.items():
        result = plan(SWEEP.format(reward=f"functions_of_mine:{reward}", tokens=tokens))
        assert result.exit_code == (0 if message is None else 2), result.output
        assert message is None or re.search(rf"^../a.yaml:\d+:\d+: .*{message}", result.output)


def test_a_plan_leaves_a_damaged_model_to_the_run(plan):
    sweep = SWEEP.format(reward="functions_of_mine:good", tokens=64)
    for name in ("tokenizer.json", "config.json"):
        Path("../model", name).write_text("version https://git-lfs.github.com/spec/v1")
        assert plan(sweep).exit_code == 0


def test_a_plan_names_the_line_of_a_prompt(plan):
    place = (
        r"../a.yaml:4:12: environment.prompts: cannot read the prompts: \S*prompts.jsonl, line 4"
    )
    sweep = SWEEP.format(reward="functions_of_mine:good", tokens=4)
    for line, message in {'{"q": "1", "mask": 0}': "it and the", "{": "no JSON object"}.items():
        assert re.match(f"{place}: {message}", plan(sweep, line).output)


def test_a_plan_knows_the_columns_of_a_toy_task(plan):
    sweep = (
        "name: a\nenvironment: {{name: toy_llm, rewards: ['functions_of_mine:{}']}}\nseeds: 1\n"
        "gradient: {{instances: 2, grid: {{estimator: maxk, baseline: centred, n: 4, k: 2}}}}\n"
    )
    assert plan(sweep.format("good")).exit_code == 0
    result = plan(sweep.format("hungry"))
    assert result.exit_code == 2
    place = "../a.yaml:2:40: environment.rewards.0: 'functions_of_mine:hungry' needs sol"
    assert place in result.output
    assert "with prompts, completions, completion_ids, truncated, answer\n" in result.output
