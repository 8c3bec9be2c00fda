"""Rows of a study with settings: kept apart, named, judged, compared with POMO's loss."""

import csv
import io

import pytest
from pydantic import TypeAdapter

from maxk_lab.report.formats.render import render
from maxk_lab.studies.training.pairs import methods
from maxk_lab.sweeps.spec.claims import Claim

ZSCORE = "weight_normalization"


def with_settings(cells, **overridden):
    """The cells of a grid's entry that overrides these settings, given by dotted keys."""
    made = []
    for cell in cells:
        training = dict(cell["training"])
        for key, value in overridden.items():
            block, _, name = key.rpartition("__")
            training |= (
                {block: {**training.get(block, {}), name: value}} if block else {name: value}
            )
        setting = {key.replace("__", "."): value for key, value in overridden.items()}
        name = "-".join(map(str, overridden.values()))
        made.append(
            cell
            | {
                "id": f"{cell['id']}-{name}",
                "training": training,
                "setting": {**cell["setting"], **setting},
            }
        )
    return made


def test_settings_are_rows_of_their_own(study, tsp):
    assert (
        len(study.studies["training"].rows)
        == len(tsp.points)
        == len({row.key.path for row in study.studies["training"].rows})
    )
    forced = tsp.row_of(study, "reinforce", "group_mean", 1, "multistart")
    assert forced.key.path == "training/start=multistart/reinforce/group_mean/n16/k1"
    assert tsp.row_of(study, "maxk", "subloo", 8).key.path == "training/maxk/subloo/n16/k8"


def test_names_tell_pomo_and_what_is_not_the_default(study):
    assert methods(study.studies["training"].rows)[:4] == [
        "POMO (reinforce group_mean), K = 1",
        "POMO (reinforce group_mean), K = 1, start=multistart",
        "reinforce centred, K = 1",
        "maxk centred, K = 4",
    ]


@pytest.mark.parametrize(
    ("overridden", "word", "label"),
    [
        ({"start": "iid"}, "unbiased", "maxk centred"),
        ({"start": "multistart"}, "other objective", "maxk centred, start=multistart"),
        (
            {"k_schedule__kind": "linear", "k_schedule__first": 2, "k_schedule__until": 200},
            "scheduled K",
            "maxk centred, k_schedule(kind=linear, first=2, until=200)",
        ),
        ({ZSCORE: "zscore"}, "biased", "maxk centred, weight_normalization=zscore"),
        ({"max_grad_norm": None}, "unbiased", "maxk centred"),
        ({"learning_rate": 1e-4}, "unbiased", "maxk centred, learning_rate=0.0001"),
    ],
)
def test_what_is_derived_of_a_row_is_of_its_own_settings(tsp, overridden, word, label):
    cells = with_settings(tsp.cells(points=[("maxk", "centred", 16, 8, "iid")]), **overridden)
    (row,) = tsp.report(cells).studies["training"].rows
    assert (row.derived, methods([row])[0]) == (word, label)
    (flat,) = csv.DictReader(io.StringIO(render(tsp.report(cells), "csv")))
    assert flat["derived"] == word


@pytest.mark.parametrize("settings", [{"start": "multistart"}, {"k_schedule": {"kind": "step"}}])
def test_no_row_of_such_a_study_is_called_unbiased(tsp, settings):
    cells = tsp.cells(points=[("maxk", "centred", 16, 8, "iid")], setting=False, **settings)
    (row,) = tsp.report(cells).studies["training"].rows
    assert row.derived != "unbiased"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bent", "name"),
    [
        ({"entropy_bonus": 0.01}, "entropy_bonus 0.01"),
        ({"kl": {"place": "loss"}}, "kl in the loss"),
        ({"reward_clip": [-5, 0]}, "reward_clip [-5.0, 0.0]"),
        ({"reward_scale": 0.1}, "reward_scale 0.1 (scale only)"),
        ({"max_grad_norm": 1.0}, "max_grad_norm 1.0"),
        ({}, ""),
    ],
)
def test_a_shared_setting_that_bends_the_gradient_stands_beside_what_the_pair_is(tsp, bent, name):
    points = [("maxk", "centred", 16, 8, "iid")]
    cells = tsp.cells(points=points, setting=False, **{"max_grad_norm": None} | bent)
    (flat,) = csv.DictReader(io.StringIO(render(tsp.report(cells), "csv")))
    assert (flat["derived"], flat["bent_by"]) == ("unbiased", name)


def test_differences_are_to_pomo_s_loss(study):
    plain = "training/reinforce/group_mean/n16/k1"
    assert {
        row.compared_with for row in study.studies["training"].rows if row.key.path != plain
    } == {plain}
    assert study.studies["training"].rows[0].key.path == plain
    assert study.studies["training"].rows[0].compared_with == ""


@pytest.mark.slow
def test_a_forced_start_is_compared_with_pomo_as_shipped_and_that_with_its_loss(tsp):
    forced = [
        ("reinforce", "group_mean", 16, 1, "multistart"),
        ("reinforce", "group_mean", 16, 1, "iid"),
    ]
    cells = tsp.cells(points=[*forced, ("maxk", "centred", 16, 8, "iid")])
    shipped = with_settings(
        tsp.cells(points=[("maxk", "subloo", 16, 8, "iid")]), start="multistart"
    )
    references = {
        row.key.path: row.compared_with
        for row in tsp.report(cells + shipped).studies["training"].rows
    }
    iid, multistart = (
        f"training/{start}reinforce/group_mean/n16/k1" for start in ("", "start=multistart/")
    )
    assert references == {
        iid: "",
        multistart: iid,
        "training/maxk/centred/n16/k8": iid,
        "training/start=multistart/maxk/subloo/n16/k8": multistart,
    }


@pytest.mark.slow
def test_environments_have_their_own_references(tsp):
    points = [("reinforce", "group_mean", 16, 1, "iid"), ("maxk", "subloo", 16, 8, "iid")]
    cells = []
    for name in ("cvrp", "op"):
        made = tsp.cells(points=points, environment={"name": name, "num_loc": 20}, setting=False)
        cells += [cell | {"setting": {"environment.name": name}} for cell in made]
    summary = tsp.report(cells)
    assert [row.key.environment for row in summary.studies["training"].rows] == [
        "cvrp(num_loc=20)"
    ] * 2 + ["op(num_loc=20)"] * 2
    assert [bool(row.compared_with) for row in summary.studies["training"].rows] == [
        False,
        True,
    ] * 2
    assert summary.studies["training"].rows[1].key.path == "training/name=cvrp/maxk/subloo/n16/k8"


@pytest.mark.slow
def test_claims_speak_of_the_settings_of_a_training(tsp):
    claim = TypeAdapter(Claim).validate_python(
        {
            "name": "it", "kind": "difference", "metric": "max@64", "at_least": 0,
            "of": {"estimator": "maxk", "baseline": "subloo", "k": 8, "setting": {"start": "iid"}},
            "over": {"estimator": "reinforce", "baseline": "group_mean", "k": 1,
                     "setting": {"start": "multistart"}},
        }
    )  # fmt: skip
    from maxk_lab.report.summarise import summarise_records

    cells = tsp.cells()
    (verdict,) = summarise_records(cells, map(tsp.record, cells), name="it", claims=[claim]).claims
    assert verdict.verdict == "supported"
    assert (
        "training/maxk/subloo/n16/k8 minus training/start=multistart/reinforce/group_mean/n16/k1"
        in verdict.detail
    )
