"""Every estimator and baseline, called exactly as a sweep calls them, sampled and enumerated."""

import math

import numpy as np
import pytest

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.estimators.catalogue import (
    BASELINES,
    ESTIMATORS,
    choose_baseline,
    choose_estimator,
)
from maxk_lab.estimators.method import Method
from maxk_lab.statistics.bias import bias_verdicts
from maxk_lab.statistics.intervals import interval
from maxk_lab.statistics.measures import measures_of
from maxk_lab.statistics.units import Units
from maxk_lab.studies.gradient.work import measure as measure_unit

pytestmark = pytest.mark.slow


def spellings(catalogue, choose):
    """Every row with its default parameter, and with the further ones that it names."""
    return [choose(name).name for row in catalogue for name in (row.name, *row.examples)]


BASELINE_SPELLINGS = spellings(BASELINES, choose_baseline)
PAIRS = [(e, b) for e in spellings(ESTIMATORS, choose_estimator) for b in BASELINE_SPELLINGS]
# What the four columns of every unit give, what is measured of every cell beside them, and what
# only some cells have.
OF_MOMENTS = [row.name for row in measures_of("gradient") if row.source == "moments"]
OF_UNITS = [row for row in measures_of("gradient") if row.of_units]
ALWAYS, ANATOMY, OF_RATIOS = (
    {row.name for row in OF_UNITS if row.needs == needs}
    for needs in ("", "enumeration", "behaviour")
)
STUDY = {"warmup": {}, "stage": 0, "seed": 0, "instances": 16, "pool": 4096}
BANDIT = STUDY | {
    "environment": {"name": "bandit", "arms": 4, "reward_shift": 0.0},
    "policy": {"init_std": 0.5, "dtype": "float64"},
}
TOY_LLM = ENVIRONMENTS.get("toy_llm")


def toy_llm(task, vocab_size, max_length):
    """Completions of several lengths."""
    sizes = {"task": task, "vocab_size": vocab_size, "max_length": max_length, "prompt_length": 3}
    return STUDY | {
        "environment": TOY_LLM.settings.defaults() | {"name": "toy_llm"} | sizes,
        "policy": TOY_LLM.policy_settings.defaults() | {"dtype": "float64", "embed_dim": 8},
    }


GRADED, BINARY = toy_llm("edit", 3, 2), toy_llm("hidden_target", 4, 3)


def k_of(estimator, baseline, n):
    """A K at which the pair runs, else one at which the estimator runs at all, else 2."""
    tried = [(b, k) for b in (baseline, "none") for k in (2, 1, 3, 4)]
    return next((k for b, k in tried if Method.parse(estimator, b, k).refusal(n) is None), 2)


def results(n, graded, **options):
    """The result of every pair, all pairs of a unit together, as in a sweep."""
    found = {}
    for unit, binary in ((graded, False), (BINARY, True)):
        cells = [
            {
                "id": f"{e}-{b}",
                "estimator": e,
                "baseline": b,
                "n": n,
                "k": k_of(e, b, n),
                "partitions": 1,
            }
            | options
            for e, b in PAIRS
            if Method.parse(e, b).needs_binary_rewards == binary
        ]
        found |= dict(measure_unit(unit, cells, cache=None, event=lambda name, payload: None))
    return found


@pytest.fixture(scope="module")
def sampled():
    return results(8, BANDIT)


@pytest.fixture(scope="module")
def enumerated():
    return results(4, GRADED, complete=True)


def reason(estimator, baseline, n, *, sampled):
    """Words that the failure of the pair must hold, or None where the pair runs."""
    refused = Method.parse(estimator, baseline, k_of(estimator, baseline, n)).refusal(n)
    if refused is not None:
        return refused
    if choose_baseline(baseline).row.token_level:
        return baseline
    return (
        "complete: true" if sampled and Method.parse(estimator, baseline).fit == "oracle" else None
    )


def running(n, *, sampled):
    """Runs the test once for each pair that runs."""
    pairs = [pair for pair in PAIRS if reason(*pair, n, sampled=sampled) is None]
    return pytest.mark.parametrize(
        ("estimator", "baseline"), pairs, ids=["-".join(pair) for pair in pairs]
    )


@pytest.mark.parametrize("estimator", dict(PAIRS))
def test_pairs_that_the_catalogue_refuses_fail_with_its_words(sampled, enumerated, estimator):
    """The others run, so that each pair is either here or in the two tests below."""
    wrong = {}
    for results_of, n, drawn in ((sampled, 8, True), (enumerated, 4, False)):
        for baseline in BASELINE_SPELLINGS:
            result = results_of[f"{estimator}-{baseline}"]
            expected = reason(estimator, baseline, n, sampled=drawn)
            told = str(result) if isinstance(result, Exception) else None
            if (expected is None) != (told is None) or (expected and expected not in told):
                wrong[f"{baseline}, sampled={drawn}"] = f"{told} instead of {expected}"
    assert not wrong


@running(8, sampled=True)
def test_a_sampled_pair_measures_everything_at_the_scale_of_the_catalogue(
    sampled, estimator, baseline
):
    result = sampled[f"{estimator}-{baseline}"]
    assert result["undefined"] == {}
    assert all(math.isfinite(result[name]) for name in OF_MOMENTS)
    assert set(result["measures"]) == ALWAYS
    scale = Method.parse(estimator, baseline, k_of(estimator, baseline, 8)).expected_scale(8)
    if math.isfinite(scale):
        found = interval(Units.from_metrics(result), "scale", level=0.999)
        assert found.low <= scale <= found.high


@running(4, sampled=False)
def test_complete_enumeration_proves_what_the_catalogue_says_of_the_bias(
    enumerated, estimator, baseline
):
    result = enumerated[f"{estimator}-{baseline}"]
    assert result["against"] == "complete"
    assert set(result["measures"]) == ALWAYS | ANATOMY
    parts = [np.mean(result["measures"][name]) for name in sorted(ANATOMY)]
    assert sum(parts) == pytest.approx(result["variance"], rel=1e-9)
    scale = Method.parse(estimator, baseline, k_of(estimator, baseline, 4)).expected_scale(4)
    verdict = bias_verdicts({0: Units.from_metrics(result)})[0].verdict
    # At ratios of one, as here, an estimator with importance ratios has no bias to see.
    if Method.parse(estimator, baseline).is_unbiased or Method.parse(estimator).needs_ratios:
        assert verdict == "unbiased"
    else:
        assert verdict == ("scale bias" if math.isfinite(scale) else "biased")
    if math.isfinite(scale):
        assert result["scale"] == pytest.approx(scale, rel=1e-9)


WITH_RATIOS = [
    pair
    for pair in PAIRS
    if Method.parse(pair[0]).needs_ratios and Method.parse(*pair, 2).refusal(4) is None
]


@pytest.fixture(scope="module")
def off_policy():
    cells = [
        {
            "id": f"{e}-{b}",
            "estimator": e,
            "baseline": b,
            "n": 4,
            "k": 2,
            "partitions": 1,
            "complete": True,
        }
        for e, b in WITH_RATIOS
    ]
    unit = BANDIT | {"behaviour": {"distance": 0.7}}
    return dict(measure_unit(unit, cells, cache=None, event=lambda name, payload: None))


@pytest.mark.parametrize(
    ("estimator", "baseline"), WITH_RATIOS, ids=["-".join(pair) for pair in WITH_RATIOS]
)
def test_under_another_policy_the_bias_is_as_catalogued(off_policy, estimator, baseline):
    result = off_policy[f"{estimator}-{baseline}"]
    verdict = bias_verdicts({0: Units.from_metrics(result)})[0].verdict
    assert verdict == ("unbiased" if Method.parse(estimator, baseline).is_unbiased else "biased")
    assert set(result["measures"]) == ALWAYS | ANATOMY | OF_RATIOS
    assert all(0 < share < 1 for share in result["measures"]["effective_sample_size"])
