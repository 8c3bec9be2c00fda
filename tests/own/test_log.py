"""Logs as people have them: every form and column is read as it is meant, or refused by name."""

import gzip
import json
import os
from collections import defaultdict
from itertools import combinations
from math import comb
from statistics import mean

import pandas as pd
import pyarrow
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from pyarrow import ArrowException, parquet
from typer.testing import CliRunner

from maxk_lab.cli import app
from maxk_lab.errors import LabError
from maxk_lab.own.audit import audit

# Rewards of six prompts with four samples each, and their pass@1, pass@2 and pass@4 by hand.
REWARDS = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 0, 1], [0, 0, 0, 1]]
CURVE = {1: 10 / 24, 2: (3 / 6 + 5 / 6 + 0 + 1 + 5 / 6 + 3 / 6) / 6, 4: 5 / 6}
CHAT = [{"role": "user", "content": "q"}]


def rows(prompt="prompt", reward="reward", value=float, **more):
    """A row for each sample; a column of `more` is a value or a function of (prompt, sample)."""
    return [
        {prompt: f"q{p}", reward: value(r)}
        | {name: each(p, s) if callable(each) else each for name, each in more.items()}
        for p, rewards in enumerate(REWARDS)
        for s, r in enumerate(rewards)
    ]


def prompts(change, **more):
    """Rows with changed prompts."""
    return [row | {"prompt": change(row["prompt"])} for row in rows(**more)]


def trl(**more):
    return rows(reward="accuracy_reward", step=1, completion="x", **more, advantage=0.0)


def lines(table):
    return "".join(json.dumps(row) + "\n" for row in table)


def csv(table, **options):
    return pd.DataFrame(table).to_csv(index=False, **options)


def samples(table, key):
    """The rows by their prompt."""
    return {name: [row for row in table if row[key] == name] for name in {r[key]: 0 for r in table}}


def written(folder, name, content):
    """A file of bytes, a text, rows or a document."""
    path = folder / name
    if isinstance(content, list | dict):
        content = lines(content) if isinstance(content, list) else json.dumps(content, indent=1)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


SWIFT = {"completion": ["x"] * 24, "Match": [r for rewards in REWARDS for r in rewards]}
SWIFT |= {"Form": [0.0] * 24, "advantages": [0.0] * 24, "num_turns": [3] * 24}
SWIFT = [{"gen_step": [s] * 24, "prompt": [*"aaaabbbbccccddddeeeeffff"], **SWIFT} for s in (1, 2)]
LONE = rows(reward="f", completion="7", gold=lambda p, s: "x7"[s % 2 :], advantage=0.0)
LISTS = [{"prompt": f"q{p}", "rewards": r} for p, r in enumerate(REWARDS)]
TOOLS = rows(reward="f", completion="x", advantage=0.0, tools=[{"score": 1}] * 3)
WANDB = {"columns": [*trl()[0]], "data": [[*row.values()] for row in trl()]}
PASSED = rows("task_id", "passed", bool, result="x")
EXPLAINED = rows("id", "score_match", {1: "C", 0: "I"}.get, epoch=1, input="x", target="y")
EXPLAINED = [row | {"score_match_explanation": "as it is"} for row in EXPLAINED]
INSPECT = rows("id", "value", {1: "C", 0: "I"}.get, epoch=1, input="x", target="y")
INSPECT = [row | {"scores": {"match": {"value": row.pop("value")}}} for row in INSPECT]
INSPECT = {"version": 2, "eval": {}, "samples": INSPECT}
EVALPLUS = rows("task_id", "base_status", {1: "pass", 0: "fail"}.get, plus_status="pass")
EVALPLUS = {"eval": samples(EVALPLUS, "task_id")}
VERL = rows("input", "score", output="x", gts="y", step=1)
UIDS = rows("uid", "score", uid=lambda p, s: f"id-{p}_{s}_0", input="x", output="y", step=1)
STEPS = [{"step": s, "config": {}, "rollouts": rows(), "tags": ["x"]} for s in (1, 2)]
PROMPTS = [{"prompt": p, "responses": each} for p, each in samples(rows(), "prompt").items()]
CUT_OFF = lines([*rows(), {"reward": 1}, {"reward": 0, "prompt": None}]) + '{"rew'
PARQUET = trl(length_reward=lambda p, s: (None, 0.0)[s % 2], gold=7)
PARQUET = [row | {"prompt": [CHAT[0] | {"content": row["prompt"]}]} for row in PARQUET]
PLAIN, INSPECTED = "reward = reward, group = prompt", "reward = score_match (C = 1; I = 0), group"
# By name: content, how it is read, and the name of the file. Every log has the rewards of REWARDS.
LOGS = {
    "a lone reward of any name beside texts that may be numbers": (LONE, "reward = f, group"),
    "ms-swift": (
        SWIFT,
        "reward = Match + Form (2 columns; num_turns not added), group = prompt, step = gen_step",
    ),
    "a line for each prompt": (LISTS, "reward = rewards, group = prompt"),
    "wandb": (json.dumps(WANDB), "reward = accuracy_reward", "a.table.json"),
    "an indented array": (json.dumps(rows(), indent=1), PLAIN, "a.json"),
    "columns of pandas": (pd.DataFrame(rows()).to_json(), PLAIN, "a.json"),
    "rows of pandas": (pd.DataFrame(rows()).to_json(orient="index"), PLAIN, "a.json"),
    "an index": (csv(rows(index=lambda p, s: 4 * p + s)), f"{PLAIN};", "a.csv"),
    "grad_norm": (rows(grad_norm=10.0), f"{PLAIN};"),
    "a BOM": (b"\xef\xbb\xbf" + csv(rows()).encode(), PLAIN, "a.csv"),
    "UTF-16": (csv(rows()).encode("utf-16"), PLAIN, "a.csv"),
    "Latin-1": (csv(rows(note="é")).encode("latin-1"), PLAIN, "a.csv"),
    "Excel": (csv(rows(), sep=";", decimal=","), "reward = reward (decimal commas)", "a.csv"),
    "lists": (trl(data=["a", "b"], samples=[1, 2]), "reward = accuracy_reward, group"),
    "a document for each step": (STEPS, f"{PLAIN}, step = step; 48 samples in 12 groups"),
    "a document for each prompt": (PROMPTS, f"{PLAIN}; 24 samples in 6 groups"),
    "tools beside a reward of any name": (TOOLS, "reward = f, group = prompt, advantage = adv"),
    "blanks around the header": ("\n  \n" + csv(rows()).replace(",", " ,"), PLAIN, "a.csv"),
    "spaces before quotes": (csv(rows(), quoting=1).replace(",", ", "), PLAIN, "a.csv"),
    "a column PK": ("PK," + csv(rows()).replace("\n", "\n7,", 24), PLAIN, "a.csv"),
    "spaces as separators": (csv(rows(), sep=" "), PLAIN, "a.txt"),
    "no suffix": (rows(), PLAIN, "log"),
    "human-eval": (PASSED, "reward = passed, group = task_id"),
    "booleans as text": (csv(PASSED), "reward = passed (True = 1; False = 0), group", "a.csv"),
    "verdicts": (rows(value={1: "pass", 0: "failed"}.get), "reward = reward (pass = 1; failed"),
    "evalplus": (EVALPLUS, "reward = base_and_plus_status, group = task_id", "a.json"),
    "inspect_ai": (INSPECT, INSPECTED, "log.json"),
    "inspect_ai as a table": (csv(EXPLAINED), INSPECTED, "a.csv"),
    "gold answers beside rewards": (rows(reward="acc", correct="x"), "reward = acc,"),
    "a score": (rows(value=lambda r: {"score": r, "a": 7}), "reward = reward (its `score`), g"),
    "huge numbers as keys": (prompts(lambda prompt: 2**70 + int(prompt[1])), PLAIN),
    "long prompts that differ at their ends": (prompts(lambda prompt: 99 * "a " + prompt), PLAIN),
    "keys of any type": (prompts(lambda prompt: [1, {"b": prompt}], step=-1), f"{PLAIN}, step"),
    "lm-eval": (rows("doc_id", "exact_match", resps=[["x"]]), "reward = exact_match"),
    "verl": (VERL, "reward = score, group = input, step = step"),
    "uids of samples": (UIDS, "reward = score, group = PROMPT_of_uid"),
    "rows that do not count": (
        CUT_OFF,
        f"{PLAIN}; 24 samples in 6 groups, 2 rows without a prompt left out, "
        "1 row unreadable (a.jsonl, line 27)",
    ),
    "conversations in Parquet": (
        pd.DataFrame(PARQUET).to_parquet(),
        "reward = accuracy_reward + length_reward (2 columns; gold not added; a missing value "
        "counts as 0), group = prompt, step = step",
        "a.parquet",
    ),
}


def curve(log):
    return dict(log.curve[[step is None for step in log.curve.step]][["k", "value"]].to_numpy())


@pytest.mark.parametrize("case", LOGS)
def test_a_log_is_read_as_it_is_meant(case, tmp_path):
    content, reading, *names = LOGS[case]
    log = audit(written(tmp_path, *names or ["a.jsonl"], content))
    assert log.reading.startswith(reading)
    assert curve(log) == pytest.approx(CURVE)


# By name: samples, and the right Max@K by step; None is all steps.
RIGHT = {
    "one prompt six times in a step": (
        prompts(lambda prompt: "q"),
        {None: {1: 10 / 24, 2: 1 - comb(14, 2) / comb(24, 2), 4: 1 - comb(14, 4) / comb(24, 4)}},
    ),
    "an evaluation before training": (
        [*rows(step=0), *rows(step=-1, value=lambda r: 0)],
        {None: {k: value / 2 for k, value in CURVE.items()}, -1: {1: 0, 2: 0, 4: 0}, 0: CURVE},
    ),
    "steps as texts, interleaved": (
        [row | {"step": step} for row in rows() for step in ("10", "2", "1")],
        dict.fromkeys((None, 1, 2, 10), CURVE),
    ),
    "a sum of a column with itself": (
        rows(),
        {None: {k: 2 * value for k, value in CURVE.items()}},
        {"reward": "reward+reward"},
    ),
    "a resumed run": (2 * rows(step=3), {step: {1: CURVE[1], 8: 5 / 6} for step in (None, 3)}),
}


@pytest.mark.parametrize("case", RIGHT)
def test_a_log_has_the_values_by_hand(case, tmp_path):
    table, values, *options = RIGHT[case]
    log = audit(written(tmp_path, "a.jsonl", table), **dict(*options))
    assert [*dict.fromkeys(log.curve.step)] == [*values]
    measured = {(step, k): value for step, k, value in log.curve[["step", "k", "value"]].to_numpy()}
    for step, by_k in values.items():
        for k, value in by_k.items():
            assert measured[step, k] == pytest.approx(value)


def test_a_folder_of_files_of_all_forms_is_one_log_and_other_files_are_left_out(tmp_path):
    written(tmp_path, "1.CSV", csv(rows(step=1)))
    written(tmp_path, "2.jsonl", rows(step=2))
    written(tmp_path, "9.tsv.gz", gzip.compress(csv(rows(step=9), sep="\t").encode()))
    pd.DataFrame(rows(step=10)).to_parquet(tmp_path / "10.parquet")
    for name, content in {"empty.csv": "", "README.md": "x", ".hidden.csv": "x"}.items():
        written(tmp_path, name, content)
    written(tmp_path, "metrics.jsonl", [{"step": 9, "reward": 7, "loss": 0.1}])
    log = audit(tmp_path)
    assert (curve(log), log.samples) == (pytest.approx(CURVE), 96)
    assert [*dict.fromkeys(log.curve.step)] == [None, 1, 2, 9, 10]
    assert "metrics.jsonl left out: it has no column of prompts" in log.reading


def test_noise_and_signal_do_not_depend_on_the_unit_of_rewards(tmp_path):
    log = audit(written(tmp_path, "a.jsonl", rows()))
    for unit in (1e-200, 1e-14, 1e40):
        scaled = audit(written(tmp_path, "b.jsonl", rows(value=lambda r, unit=unit: r * unit)))
        for column in ("signal", "relative"):
            expected = pytest.approx(log.rows[column].tolist(), nan_ok=True)
            assert scaled.rows[column].tolist() == expected, unit


def test_only_the_number_of_samples_limits_k(tmp_path):
    """Samples that are missing count for no K; K above the groups is said, not measured."""
    table = [row for i, row in enumerate(rows()) if i not in (0, 9)]
    log = audit(written(tmp_path, "a.jsonl", table), ks=(1, 4, 4, 8))
    assert log.curve.k.tolist() == [1, 4]
    assert curve(log)[4] == 1
    assert log.notes == (
        "pass@8 needs at least 8 samples a prompt; groups have 3 to 4",
        "K = 4: 4 of 6 groups have at least 4 samples",
    )


# By name, or by the name of the file: content, the message, and arguments.
REFUSED = {
    "no reward": ([{"prompt": 1}], "no column of the rewards: name it"),
    "no prompt": ([{"reward": 1}], "no column of the groups"),
    "a wrong name": ([{"reward": 1, "prompt": 1}], "did you mean reward", {"reward": "rewrd"}),
    "a wrong sum": (rows(), "has no column 'a'; it has prompt, reward", {"reward": "reward+a"}),
    "one sample": ([{"reward": 1, "prompt": 1}], "no group of two samples: reward = reward"),
    "K": (rows(), "^pass@8 needs at least 8 samples a prompt; groups have 4", {"ks": (8,)}),
    "infinite": (rows(value=lambda r: -1e999 * r), r"a.jsonl, line 1: reward is -inf, no fi"),
    "texts": (rows(value="ab".__getitem__), r"line 1: reward is 'b', no finite .* \(24 such"),
    "TRL without names": (
        rows(reward="f", completion="x", g=1, advantage=0.0),
        r"the reward may be f, g: name it, reward=f .*, or a sum, f\+g",
    ),
    "two scorers": (rows(reward="score_a", score_b=1), "the reward may be score_a, score_b"),
    "nothing": ([], "has no rows"),
    "a column without a name": ([{"": None, "reward": 1}], "1 row without a", {"group": ""}),
    "objects": (rows(value=lambda r: {"a": r}), r"line 1: reward is '{\"a\": 1}', no finite"),
    "scores of objects": (rows(value=lambda r: {"score": {"a": r}}), "line 1: reward is '{"),
    "thousands": (rows(value=lambda r: "1,000"), "line 1: reward is '1,000', no finite"),
    "huge": (rows(value=lambda r: 1e200 * r), r"reward is 1e\+200, too large \(10 such"),
    "huge whole numbers": (rows(value=lambda r: 10**400), r"\(401 characters\), too large"),
    "K of 0": (rows(), "K must be at least 1, got 0", {"ks": (2, 0)}),
    "log.bin": (b"a\0b", "is not JSON, CSV or Parquet"),
    "log.xlsx": (b"PK\3\4", "is an archive, turn it into JSON or CSV"),
    "log.json": (b'{"a": [1,', r"has no rows that can be read \(log.json, line 1\)"),
    "log.pq": (b"PAR1....PAR1", "^cannot read /[^:]*/log.pq: Parquet"),
    "log.gz": (b"\x1f\x8b..", "cannot read .*log.gz"),
    "quote.csv": ('prompt,reward\n"a,1\nb,0\n', "cannot read .*quote.csv, line 3: unexpected end"),
    "escaped.csv": ('prompt,reward\n"a \\"b\\"",1\n', "cannot read .*escaped.csv, line 2: ','"),
    "twice.csv": ("prompt,reward,reward\na,1,2", "has two columns 'reward'"),
    "header.csv": ("q0,1\nq0,0\n", "no column of the groups: .* it has q0, 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_measured_is_refused(case, tmp_path):
    content, message, *options = REFUSED[case]
    path = written(tmp_path, case if "." in case else "a.jsonl", content)
    with pytest.raises(LabError, match=message):
        audit(path, **dict(*options))


def test_what_is_no_log_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # cannot be read twice
    (tmp_path / "run/completions").mkdir(parents=True)
    twice = pyarrow.table([["a", "a"], [0.0, 1.0], [1.0, 1.0]], ["prompt", "reward", "reward"])
    parquet.write_table(twice, tmp_path / "twice.parquet")
    for name, message in {
        "pipe": "pipe is no file",
        "absent.csv": "does not exist",
        "run": r"has no \.jsonl.*; it has the folders completions",
        "twice.parquet": "has two columns 'reward'",
    }.items():
        with pytest.raises(LabError, match=message):
            audit(tmp_path / name)


# Separators, half a character, digits of other scripts, and ends of lines.
TEXTS = st.text("a1,;'\"{\n\r\t\0 é٣\ud83d\u2028\U0001f600", max_size=3)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
NAMES = st.sampled_from(["prompt", "reward", "step", "advantage", "uid", "completion", "x_reward"])
VALUES = st.recursive(
    SCALARS | st.sampled_from(["C", "1", "1,5", "-inf", 10**400, {"score": 1}, [1, 0], CHAT]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | TEXTS, inner),
    max_leaves=4,
)
TABLES = st.lists(st.dictionaries(NAMES | TEXTS, VALUES, min_size=1), max_size=8)


@given(table=TABLES, form=st.sampled_from(["lines", "array", "csv", "document", "parquet"]))
@settings(max_examples=20, deadline=None)
def test_no_file_has_a_traceback(table, form, tmp_path_factory):
    texts = {
        "lines": lambda: lines(table),
        "array": lambda: json.dumps(table),
        "csv": lambda: csv(table),
        "document": lambda: json.dumps({"columns": table[:1], "data": table, "x": table}),
        "parquet": lambda: pd.DataFrame(table).to_parquet(),
    }
    try:
        text = texts[form]()
    except (ValueError, TypeError, OverflowError, ArrowException):  # Parquet has no such values
        reject()
    content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    path = written(tmp_path_factory.mktemp("log"), "log", content)
    result = CliRunner().invoke(app, ["audit", str(path)])
    assert result.exit_code in (0, 2), result.exception
    table = result.output.partition("\n\n")[2]  # below the sentences, which name columns
    assert not set(table.split()) & {"nan", "inf", "nan]", "[nan,"}


KEYS = st.sampled_from(["a", "b", "01", 1, "1", 1.0, None, True, CHAT, [1], -1, {"b": 1, "a": 2}])
SAMPLES = st.fixed_dictionaries(
    {},
    optional={
        "prompt": KEYS,
        "step": st.sampled_from([-1, 0, 1, "1", "10", 10.0, None]),
        "reward": st.sampled_from([0, 1, 1.0, True, False, "0", "1", None]),
    },
)


def brute_force(table, k):
    """pass@K of every group of at least K samples; None is a key or a reward that is missing."""
    groups = defaultdict(list)
    has_steps = any(row.get("step") is not None for row in table)
    for row in table:
        step, prompt, reward = (row.get(name) for name in ("step", "prompt", "reward"))
        if prompt is None or reward is None or (has_steps and step is None):
            continue
        prompt = int(prompt) if isinstance(prompt, float) else prompt
        prompt = prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True)
        groups[step if step is None else int(step), prompt].append(float(reward))
    return [mean(map(max, combinations(g, k))) for g in groups.values() if len(g) >= k]


@given(table=st.lists(SAMPLES, max_size=14), random=st.randoms(use_true_random=False))
def test_a_log_of_random_shape_has_the_pass_at_k_of_all_subsets(table, random, tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    try:
        log = audit(written(folder, "a.jsonl", table))
    except LabError:
        assert not brute_force(table, 2) or not any("prompt" in row for row in table)
        return
    for k, value in curve(log).items():
        assert value == pytest.approx(mean(brute_force(table, int(k))))
    shuffled = random.sample(table, len(table))
    again = audit(written(folder, "b.json", json.dumps(shuffled)))
    pd.testing.assert_frame_equal(again.curve, log.curve)
