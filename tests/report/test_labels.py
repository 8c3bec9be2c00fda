"""What a report calls an environment: what tells it from others, and no more."""

import pytest

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.report.drawing.style import finish, own_style, panels, wide_enough, wrapped
from maxk_lab.report.naming import environment_label, environment_words, plain_setting
from maxk_lab.sweeps.spec.environment import telling_parameters


def resolved(name, **given):
    """An environment block with its defaults filled in, as a cell has it."""
    defaults = ENVIRONMENTS.get(name).settings.defaults()
    assert set(given) <= set(defaults)
    return {"name": name, **defaults, **given}


@pytest.mark.parametrize(
    ("environment", "label"),
    [
        (resolved("tsp"), "tsp(num_loc=20)"),
        (resolved("smtwtp", num_job=5), "smtwtp(num_job=5)"),
        (resolved("bandit"), "bandit(arms=10)"),
        (resolved("bandit", reward_shift=2.5), "bandit(arms=10, reward_shift=2.5)"),
        (resolved("toy_llm"), "toy_llm(task=edit)"),
        (
            resolved("toy_llm", task="deceptive", vocab_size=6, max_length=4),
            "toy_llm(max_length=4, task=deceptive, vocab_size=6)",
        ),
        (resolved("toy_llm", temperature=1), "toy_llm(task=edit)"),
        (
            resolved("toy_llm", rewards=["finished"], top_p=0.9),
            "toy_llm(rewards=['finished'], task=edit, top_p=0.9)",
        ),
    ],
)
def test_defaults_stay_out_but_for_size_and_task(environment, label):
    assert environment_label({"environment": environment}) == label


def test_of_an_unknown_environment_all_is_shown_but_what_is_empty():
    environment = {"name": "someone_elses", "top_p": 1.0, "num_loc": 20, "extra": "", "rewards": []}
    assert environment_label({"environment": environment}) == "someone_elses(num_loc=20, top_p=1.0)"
    assert environment_label({"environment": {"name": "bare"}}) == "bare"


@pytest.mark.parametrize("row", list(ENVIRONMENTS), ids=lambda row: row.name)
def test_environments_that_differ_have_different_labels(row):
    plain = resolved(row.name)
    labels = {environment_label({"environment": plain})}
    for setting in row.settings.each():
        others = {str: "else", int: 3, float: 0.5, list: ["else"], bool: not plain[setting.name]}
        changed = {**plain, setting.name: others[setting.type]}
        assert telling_parameters(changed)[setting.name] == changed[setting.name]
        labels.add(environment_label({"environment": changed}))
    assert len(labels) == 1 + len(row.settings.each())


@pytest.mark.parametrize(
    ("environment", "varied", "words"),
    [
        (resolved("tsp"), {}, "TSP with 20 cities"),
        (resolved("tsp"), {"environment.num_loc": 20}, "TSP"),
        (resolved("bandit", arms=5), {}, "bandit with 5 arms"),
        (resolved("bandit", rewards="binary"), {}, "bandit with 10 arms (binary rewards)"),
        (resolved("toy_llm", vocab_size=6), {}, "language model (edit task)"),
        (resolved("gaussian", reward="two_peaks"), {}, "Gaussian draws (two peaks)"),
        (resolved("gaussian", reward="my_own:two_peaks"), {}, "Gaussian draws (my_own:two_peaks)"),
        ({"name": "knapsack", "max_items": 5, "file": ""}, {}, "knapsack (max items 5)"),
        ({"name": "knapsack", "items": 5}, {"environment.items": 5}, "knapsack"),
        ({"name": "knap\nsack", "items": "a\x1bb"}, {}, "knap sack (items a\\x1bb)"),
    ],
)
def test_readers_are_told_plain_words(environment, varied, words):
    assert environment_words({"environment": environment, "setting": varied}) == words


@pytest.mark.parametrize("row", list(ENVIRONMENTS), ids=lambda row: row.name)
def test_every_environment_of_the_lab_has_a_plain_name_that_holds_its_size(row):
    words = row.in_words(resolved(row.name))
    assert words
    assert not set("_=") & set(words)
    assert not row.size_parameter or str(resolved(row.name)[row.size_parameter]) in words


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ((), ""),
        ((("environment.arms", 8), ("behaviour.distance", 0.25)), "arms 8, distance 0.25"),
        ((("policy.checkpoint", "policies/pomo-100.pt"),), "pomo-100"),
        ((("policy.checkpoint", "a/b\n\x1bc.pt"),), "b \\x1bc"),
        ((("environment.reward_shift", 1.0),), "reward shift 1"),
    ],
)
def test_settings_are_told_in_words(setting, words):
    assert plain_setting(setting) == words


@pytest.mark.parametrize("title", ["a\nb\nc\nd\ne", "word " * 90, "w" * 900])
def test_a_title_of_any_lines_has_a_width(title):
    width = wide_enough(title, 4.0)
    assert 4.0 <= width < 100
    assert wrapped(title, width).count("\n") < max(3, len(title.splitlines()))


@pytest.mark.parametrize("limits", [(-0.5, 3.5), (3.5, -0.5)])
def test_a_legend_names_what_is_seen_whichever_way_an_axis_runs(limits):
    with own_style():
        figure, axes = panels(1, 1, (4.0, 3.0))
        panel = axes[0][0]
        panel.plot([1.0], [2.0], "o", label="within")
        panel.plot([1.0], [9.0], "o", label="beyond")
        panel.set_ylim(*limits)
        finish(figure, axes, "title")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["within"]


def test_a_model_of_the_users_own_is_named_unless_it_varies():
    cell = {"environment": {"name": "bare"}, "policy": {"pretrained": "models/tiny-gpt"}}
    assert environment_words(cell) == "bare, model tiny-gpt"
    varied = cell | {"setting": {"policy.pretrained": "models/tiny-gpt"}}
    assert environment_words(varied) == "bare"
    assert environment_words(cell | {"policy": {"pretrained": ""}}) == "bare"
