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


def trl(**more):
    return rows(reward="accuracy_reward", step=1, completion="x", **more, advantage=0.0)


def lines(table):
    return "".join(json.dumps(row) + "\n" for row in table)


def csv(table, **options):
    return pd.DataFrame(table).to_csv(index=False, **options)


def columns(table):
    """The rows as a step of ms-swift."""
    return {name: [row[name] for row in table] for name in table[0]}


def chat(table):
    return [row | {"prompt": [CHAT[0] | {"content": row["prompt"]}]} for row in table]


def samples(table, key):
    """The rows by their prompt."""
    return {name: [row for row in table if row[key] == name] for name in {r[key]: 0 for r in table}}


SWIFT = [
    {"gen_step": s, "prompt": r["prompt"], "completion": "x", "Match": r["reward"], "Form": 0.0}
    | {"advantages": 0.0, "num_turns": 3}
    for s in (1, 2)
    for r in rows()
]
STEPS = [row | {"step": step} for row in rows() for step in ("10", "2", "1")]
EXPLAINED = rows("id", "score_match", {1: "C", 0: "I"}.get, epoch=1, input="x", target="y")
EXPLAINED = [row | {"score_match_explanation": "as it is"} for row in EXPLAINED]
INSPECT = rows("id", "value", {1: "C", 0: "I"}.get, epoch=1, input="x", target="y")
INSPECT = [row | {"scores": {"match": {"value": row.pop("value")}}} for row in INSPECT]
EVALPLUS = rows("task_id", "base_status", {1: "pass", 0: "fail"}.get, plus_status="pass")
VERL = rows("input", "score", output="x", gts="y", step=1)
UIDS = rows("uid", "score", uid=lambda p, s: f"id-{p}_{s}_0", input="x", output="y", step=1)
BOM = b"\xef\xbb\xbf"
BAD = "reward = accuracy_reward (gold_length not added)"

# By name: file, content, how it is read. Every log has the rewards of REWARDS.
LOGS = {
    "steps interleaved": ("a.jsonl", lines(STEPS), "reward = reward, group = prompt, step = step"),
    "rows in any order": ("a.jsonl", lines(sorted(rows(), key=str)), "reward = reward"),
    "conversations": ("a.jsonl", lines(chat(trl())), "reward = accuracy_reward, group = prompt"),
    "a column that is no reward": ("a.jsonl", lines(trl(gold_length=7)), BAD),
    "a lone reward of any name beside texts that may be numbers": (
        *(
            "a.jsonl",
            lines(rows(reward="f", completion="7", gold=lambda p, s: "x7"[s % 2 :], advantage=0.0)),
        ),
        "reward = f, group",
    ),
    "ms-swift": (
        *("completions.jsonl", lines([columns(SWIFT[:24]), columns(SWIFT[24:])])),
        "reward = Match + Form (2 columns; num_turns not added), group = prompt, step = gen_step",
    ),
    "a line for each prompt": (
        "a.jsonl",
        lines({"prompt": f"q{p}", "rewards": r} for p, r in enumerate(REWARDS)),
        "reward = rewards, group = prompt",
    ),
    "wandb": (
        "a.table.json",
        json.dumps({"columns": [*trl()[0]], "data": [[*row.values()] for row in trl()]}),
        "reward = accuracy_reward",
    ),
    "an array": ("a.json", json.dumps(rows()), "reward = reward"),
    "an indented array": ("a.json", json.dumps(rows(), indent=1), "reward = reward"),
    "columns of pandas": ("a.json", pd.DataFrame(rows()).to_json(), "reward = reward"),
    "rows of pandas": ("a.json", pd.DataFrame(rows()).to_json(orient="index"), "reward = reward"),
    "an index": (
        "a.csv",
        csv(rows(index=lambda p, s: 4 * p + s)),
        "reward = reward, group = prompt;",
    ),
    "grad_norm": ("a.jsonl", lines(rows(grad_norm=10.0)), "reward = reward, group = prompt;"),
    "a BOM before JSON": ("a.jsonl", BOM + lines(rows()).encode(), "reward = reward"),
    "a BOM before CSV": ("a.csv", BOM + csv(rows()).encode(), "reward = reward"),
    "UTF-16": ("a.csv", csv(rows()).encode("utf-16"), "reward = reward"),
    "Latin-1": ("a.csv", csv(rows(note="é")).encode("latin-1"), "reward = reward"),
    "upper case": ("A.CSV", csv(rows()), "reward = reward"),
    "tabs": ("a.tsv", csv(rows(), sep="\t"), "reward = reward"),
    "compressed": ("a.csv.gz", gzip.compress(csv(rows()).encode()), "reward = reward"),
    "Excel": ("a.csv", csv(rows(), sep=";", decimal=","), "reward = reward (decimal commas)"),
    "lists beside a reward": (
        "a.jsonl",
        lines(trl(data=["a", "b"], samples=[1, 2])),
        "reward = accuracy_reward, group",
    ),
    "a document for each step": (
        "a.jsonl",
        lines({"step": s, "config": {}, "rollouts": rows(), "tags": ["x"]} for s in (1, 2)),
        "reward = reward, group = prompt, step = step; 48 samples in 12 groups",
    ),
    "a document for each prompt": (
        "a.jsonl",
        lines(
            {"prompt": p, "responses": [*map(dict, x)]}
            for p, x in samples(rows(), "prompt").items()
        ),
        "reward = reward, group = prompt; 24 samples in 6 groups",
    ),
    "tools beside a reward of any name": (
        "a.jsonl",
        lines(rows(reward="f", completion="x", advantage=0.0, tools=[{"score": 1}] * 3)),
        "reward = f, group = prompt, advantage = advantage; 24 samples",
    ),
    "blank lines and spaces around the header": (
        "a.csv",
        "\n  \n" + csv(rows()).replace(",", " ,"),
        "reward = reward, group = prompt",
    ),
    "no suffix": ("log", lines(rows()), "reward = reward"),
    "human-eval": ("a.jsonl", lines(rows("task_id", "passed", bool, result="x")), "reward = pas"),
    "booleans as text": (
        *("a.csv", csv(rows("task_id", "passed", bool))),
        "reward = passed (True = 1; False = 0), group = task_id",
    ),
    "evalplus": (
        *("a_eval_results.json", json.dumps({"eval": samples(EVALPLUS, "task_id")})),
        "reward = base_and_plus_status, group = task_id",
    ),
    "inspect_ai": (
        *("log.json", json.dumps({"version": 2, "eval": {}, "samples": INSPECT}, indent=1)),
        "reward = score_match (C = 1; I = 0), group = id",
    ),
    "inspect_ai as a table": ("a.csv", csv(EXPLAINED), "reward = score_match (C = 1; I = 0), g"),
    "gold answers beside rewards": (
        "a.jsonl",
        lines(rows(reward="acc", correct="x")),
        "reward = acc,",
    ),
    "rewards with a score": (
        *("a.jsonl", lines(rows(value=lambda r: {"score": r, "acc": 7}))),
        "reward = reward (its `score`), group = prompt",
    ),
    "spaces after separators": (
        *("a.csv", csv(rows()).replace(",", ", ")),
        "reward = reward, group = prompt",
    ),
    "spaces as separators": ("a.txt", csv(rows(), sep=" "), "reward = reward, group = prompt"),
    "huge numbers as keys": (
        *("a.jsonl", lines(row | {"prompt": 2**70 + int(row["prompt"][1])} for row in rows())),
        "reward = reward, group = prompt",
    ),
    "long prompts that differ at their ends": (
        *("a.jsonl", lines(row | {"prompt": 99 * "same " + row["prompt"]} for row in rows())),
        "reward = reward, group = prompt",
    ),
    "lm-eval": ("samples.jsonl", lines(rows("doc_id", "exact_match", resps=[["x"]])), "reward = e"),
    "verl": ("1.jsonl", lines(VERL), "reward = score, group = input, step = step"),
    "uids of samples": ("1.jsonl", lines(UIDS), "reward = score, group = PROMPT_of_uid"),
    "a resumed run": ("a.jsonl", lines(2 * rows(step=3)), "reward = reward, group = prompt, st"),
    "keys of any type": (
        *(
            "a.jsonl",
            lines(row | {"prompt": [1, {"b": row["prompt"]}], "step": -1} for row in rows()),
        ),
        "reward = reward, group = prompt, step = step",
    ),
    "rows that do not count": (
        *("a.jsonl", lines([*rows(), {"reward": 1}, {"reward": 0, "prompt": None}]) + '{"rew'),
        "reward = reward, group = prompt; 24 samples in 6 groups, 2 rows without a prompt left "
        "out, 1 row unreadable (a.jsonl, line 27)",
    ),
}


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def curve(log, **options):
    return dict(log.curve[[step is None for step in log.curve.step]][["k", "value"]].to_numpy())


@pytest.mark.parametrize("case", LOGS)
def test_a_log_is_read_as_it_is_meant(case, tmp_path):
    name, content, reading = LOGS[case]
    log = audit(written(tmp_path, name, content))
    assert log.reading.startswith(reading)
    if case == "a resumed run":  # the groups are those of both
        assert log.sizes == (8, 8)
        assert curve(log)[1] == pytest.approx(CURVE[1])
    else:
        assert curve(log) == pytest.approx(CURVE)
    if case == "steps interleaved":
        assert [*dict.fromkeys(log.curve.step)] == [None, 1, 2, 10]


# By name: samples, and the right Max@K by step; None is all steps.
RIGHT = {
    "one prompt six times in a step": (
        [row | {"prompt": "q"} for row in rows()],
        {None: {1: 10 / 24, 2: 1 - comb(14, 2) / comb(24, 2), 4: 1 - comb(14, 4) / comb(24, 4)}},
    ),
    "groups of two and four": (
        [row for i, row in enumerate(rows()) if i % 8 < 6],
        {None: {1: 2.75 / 6, 2: mean((1 / 2, 1, 0, 1, 5 / 6, 0)), 4: 2 / 3}},
    ),
    "an evaluation before training": (
        [*rows(step=0), *rows(step=-1, value=lambda r: 0)],
        {-1: {1: 0, 2: 0, 4: 0}, 0: CURVE, None: {k: value / 2 for k, value in CURVE.items()}},
    ),
    "a reward that is missing": (
        [row | {"reward": None if i == 0 else row["reward"]} for i, row in enumerate(rows())],
        {None: {1: mean((0, 1 / 2, 0, 1, 1 / 2, 1 / 4)), 4: mean((1, 0, 1, 1, 1))}},
    ),
}


@pytest.mark.parametrize("case", RIGHT)
def test_a_log_has_the_values_by_hand(case, tmp_path):
    table, values = RIGHT[case]
    log = audit(written(tmp_path, "a.jsonl", lines(table)))
    measured = {(step, k): value for step, k, value in log.curve[["step", "k", "value"]].to_numpy()}
    for step, by_k in values.items():
        for k, value in by_k.items():
            assert measured[step, k] == pytest.approx(value)


def test_a_folder_of_files_of_all_forms_is_one_log(tmp_path):
    written(tmp_path, "1.CSV", csv(rows(step=1)))
    written(tmp_path, "2.jsonl", lines(rows(step=2)))
    written(tmp_path, "3.tsv.gz", gzip.compress(csv(rows(step=3), sep="\t").encode()))
    pd.DataFrame(rows(step=4)).to_parquet(tmp_path / "4.parquet")
    for name, content in {"empty.csv": "", "README.md": "x", ".hidden.csv": "x"}.items():
        written(tmp_path, name, content)
    log = audit(tmp_path)
    assert (curve(log), log.samples, log.steps) == (pytest.approx(CURVE), 96, 4)


def test_a_folder_is_one_log_and_other_files_are_left_out(tmp_path):
    for step in (9, 10):
        written(tmp_path, f"{step}.jsonl", lines(rows("input", "score", output="x", step=step)))
    written(tmp_path, "metrics.jsonl", lines([{"step": 9, "reward": 7, "loss": 0.1}]))
    log = audit(tmp_path)
    assert curve(log) == pytest.approx(CURVE)
    assert [*dict.fromkeys(log.curve.step)] == [None, 9, 10]
    assert "metrics.jsonl left out: it has no column of prompts" in log.reading


def test_parquet_has_conversations_and_missing_rewards(tmp_path):
    table = pd.DataFrame(chat(trl(length_reward=lambda p, s: (None, 0.0)[s % 2], gold=7)))
    (tmp_path / "completions").mkdir()
    for step in (1, 2):
        table.assign(step=step).to_parquet(tmp_path / f"completions/completions_{step}.parquet")
    log = audit(tmp_path / "completions")
    assert log.reading.startswith(
        "reward = accuracy_reward + length_reward (2 columns; gold not added; a missing value "
        "counts as 0), group = prompt, step = step"
    )
    assert (curve(log), log.groups) == (pytest.approx(CURVE), 12)


def test_parquet_with_two_columns_of_one_name_is_refused(tmp_path):
    table = pyarrow.table([["a", "a"], [0.0, 1.0], [1.0, 1.0]], ["prompt", "reward", "reward"])
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(LabError, match="has two columns 'reward'"):
        audit(tmp_path / "a.parquet")


def test_a_k_that_is_named_twice_counts_once(tmp_path):
    path = written(tmp_path, "a.jsonl", lines(rows()))
    assert audit(path, ks=(2, 2)).curve.equals(audit(path, ks=(2,)).curve)


@pytest.mark.parametrize("unit", [1e-200, 1e-14, 1e40])
def test_noise_and_signal_do_not_depend_on_the_unit_of_rewards(unit, tmp_path):
    log = audit(written(tmp_path, "a.jsonl", lines(rows())))
    scaled = audit(written(tmp_path, "b.jsonl", lines(rows(value=lambda r: r * unit))))
    for column in ("signal", "relative"):
        assert scaled.rows[column].tolist() == pytest.approx(log.rows[column].tolist(), nan_ok=True)


def test_only_the_number_of_samples_limits_k(tmp_path):
    """Samples that are missing count for no K; K above the groups is said, not measured."""
    table = [row for i, row in enumerate(rows()) if i not in (0, 9)]
    log = audit(written(tmp_path, "a.jsonl", lines(table)), ks=(1, 4, 8))
    assert curve(log)[4] == 1
    assert log.notes == (
        "pass@8 needs at least 8 samples a prompt; groups have 3 to 4",
        "K = 4: 4 of 6 groups have 4 samples",
    )


REFUSED = {
    "no reward": ([{"prompt": 1}], {}, "no column of the rewards: name it"),
    "no prompt": ([{"reward": 1}], {}, "no column of the groups"),
    "a wrong name": ([{"reward": 1, "prompt": 1}], {"reward": "rewrd"}, "did you mean reward"),
    "a wrong sum": (rows(), {"reward": "reward+a"}, "has no column 'a'; it has prompt, reward"),
    "one sample": ([{"reward": 1, "prompt": 1}], {}, "no group of two samples: reward = reward"),
    "K": (rows(), {"ks": (8,)}, "^pass@8 needs at least 8 samples a prompt; groups have 4"),
    "infinite": (rows(value=lambda r: -1e999 * r), {}, r"a.jsonl, line 1: reward is -inf, no fi"),
    "texts": (rows(value="ab".__getitem__), {}, r"line 1: reward is 'b', no finite .* \(24 such"),
    "TRL without names": (
        *(rows(reward="f", completion="x", g=1, advantage=0.0), {}),
        r"the reward may be f, g: name it, reward=f .*, or a sum, f\+g",
    ),
    "two scorers": (rows(reward="score_a", score_b=1), {}, "the reward may be score_a, score_b"),
    "nothing": ([], {}, "has no rows"),
    "objects": (rows(value=lambda r: {"a": r}), {}, r"line 1: reward is '{\"a\": 1}', no finite"),
    "scores of objects": (rows(value=lambda r: {"score": {"a": r}}), {}, "line 1: reward is '{"),
    "thousands": (rows(value=lambda r: "1,000"), {}, "line 1: reward is '1,000', no finite"),
    "huge": (rows(value=lambda r: 1e200 * r), {}, r"reward is 1e\+200, too large \(10 such"),
    "huge whole numbers": (rows(value=lambda r: 10**400), {}, r"\(401 letters\), too large"),
    "K of 0": (rows(), {"ks": (2, 0)}, "K must be at least 1, got 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_measured_is_refused(case, tmp_path):
    table, options, message = REFUSED[case]
    with pytest.raises(LabError, match=message):
        audit(written(tmp_path, "a.jsonl", lines(table)), **options)


FILES = {
    "log.bin": (b"a\0b", "is not JSON, CSV or Parquet"),
    "log.xlsx": (b"PK\3\4", "is an archive, turn it into JSON or CSV"),
    "log.json": (b'{"a": [1,', r"has no rows that can be read \(log.json, line 1\)"),
    "log.pq": (b"PAR1....PAR1", "^cannot read /[^:]*/log.pq: Parquet"),
    "log.gz": (b"\x1f\x8b..", "cannot read .*log.gz"),
    "quote.csv": (b'prompt,reward\n"a,1\nb,0\n', "cannot read .*quote.csv, line 3: unexpected end"),
    "escaped.csv": (
        b'prompt,reward\na,0\n"a \\"b\\"",1\n',
        "cannot read .*escaped.csv, line 3: ','",
    ),
    "twice.csv": (b"prompt,reward,reward\na,1,2", "has two columns 'reward'"),
    "header.csv": (b"q0,1\nq0,0\n", "no column of the groups: .* it has q0, 1"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_no_form_is_refused(name, tmp_path):
    content, message = FILES[name]
    with pytest.raises(LabError, match=message):
        audit(written(tmp_path, name, content))


def test_a_path_that_is_not_there_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LabError, match="pipe is no file"):  # it cannot be read twice
        audit(tmp_path / "pipe")
    with pytest.raises(LabError, match="does not exist"):
        audit(tmp_path / "absent.csv")
    (tmp_path / "completions").mkdir()
    with pytest.raises(LabError, match=r"has no \.jsonl.*; it has the folders completions"):
        audit(tmp_path)


TEXTS = st.text(st.characters(exclude_categories=()), max_size=3)  # with halves of characters
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
NAMES = st.sampled_from(["prompt", "reward", "step", "advantage", "uid", "completion", "x_reward"])
VALUES = st.recursive(
    SCALARS | st.sampled_from(["C", "1", "1,5", "-inf", 10**400, {"score": 1}, [1, 0], CHAT]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | TEXTS, inner),
    max_leaves=4,
)
TABLES = st.lists(st.dictionaries(NAMES | TEXTS, VALUES, min_size=1), max_size=8)


@given(table=TABLES, form=st.sampled_from(["lines", "array", "csv", "document", "parquet"]))
@settings(max_examples=40, deadline=None)
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


PROMPTS = st.sampled_from(
    ["a", "b", "01", 1, "1", 1.0, None, True, CHAT, [1], -1, {"b": 1, "a": 2}]
)
SAMPLES = st.fixed_dictionaries(
    {},
    optional={
        "prompt": PROMPTS,
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
@settings(max_examples=40, deadline=None)
def test_a_log_of_random_shape_has_the_pass_at_k_of_all_subsets(table, random, tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    try:
        log = audit(written(folder, "a.jsonl", lines(table)))
    except LabError:
        assert not brute_force(table, 2) or not any("prompt" in row for row in table)
        return
    for k, value in curve(log).items():
        assert value == pytest.approx(mean(brute_force(table, int(k))))
    shuffled = random.sample(table, len(table))
    again = audit(written(folder, "b.json", json.dumps(shuffled)))
    pd.testing.assert_frame_equal(again.curve, log.curve)
