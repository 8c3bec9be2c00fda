"""Every estimator and baseline, called exactly as a sweep calls them, sampled and enumerated."""

import math

import pytest

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS, choose_baseline, choose_estimator
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
ESTIMATOR_SPELLINGS = spellings(ESTIMATORS, choose_estimator)
# What the four columns of every unit give, what is measured of every cell beside them, and what
# only some cells have.
OF_MOMENTS = [row.name for row in measures_of("gradient") if row.source == "moments"]
ALWAYS, OF_RATIOS = (
    {row.name for row in measures_of("gradient") if row.per_unit and row.needs == needs}
    for needs in ("", "behaviour")
)
STUDY = {"warmup": {}, "stage": 0, "seed": 0, "instances": 16, "pool": 4096}
BANDIT = STUDY | {
    "environment": {"name": "bandit", "arms": 4, "reward_shift": 0.0},
    "policy": {"init_std": 0.5, "dtype": "float64"},
}


def toy_llm(task, vocab_size, max_length):
    """Completions of several lengths."""
    row = ENVIRONMENTS.get("toy_llm")
    sizes = {"task": task, "vocab_size": vocab_size, "max_length": max_length, "prompt_length": 3}
    return STUDY | {
        "environment": row.settings.defaults() | {"name": "toy_llm"} | sizes,
        "policy": row.policy_settings.defaults() | {"dtype": "float64", "embed_dim": 8},
    }


BINARY = toy_llm("modular", 4, 3) | {"pool": 2048}
# What measures them: n, the unit, and what it is told of each cell.
WAYS = {
    "sampled": (8, BANDIT, {}),
    "enumerated": (4, toy_llm("deceptive", 3, 3), {"complete": True}),
    "off-policy": (4, BANDIT | {"behaviour": {"distance": 0.7}}, {"complete": True}),
}
MEASURED = [
    (way, estimator)
    for way in WAYS
    for estimator in ESTIMATOR_SPELLINGS
    if way != "off-policy" or Method.parse(estimator).needs_ratios
]


def k_of(estimator, baseline, n):
    """A K at which the pair runs, else one at which the estimator runs at all, else 2."""
    tried = [(b, k) for b in (baseline, "none") for k in (2, 1, 3, 4)]
    return next((k for b, k in tried if Method.parse(estimator, b, k).refusal(n) is None), 2)


@pytest.fixture(scope="module")
def results():
    """The result of every pair in every way, all pairs of a unit together, as in a sweep."""
    found = {}
    for way, (n, graded, options) in WAYS.items():
        cells = {True: [], False: []}
        for e in (estimator for of, estimator in MEASURED if of == way):
            for b in BASELINE_SPELLINGS:
                axes = {"estimator": e, "baseline": b, "n": n, "k": k_of(e, b, n)}
                cell = {"id": (way, e, b), **axes, "partitions": 1, **options}
                cells[Method.parse(e, b).needs_binary_rewards].append(cell)
        for binary, unit in ((False, graded), (True, BINARY)):
            if cells[binary]:
                fewer = {"instances": 4} if options else {}  # where nothing is drawn
                told = (unit | fewer, cells[binary])
                found |= dict(measure_unit(*told, cache=None, event=lambda *_: None))
    return found


def reason(way, estimator, baseline, n):
    """Words that the failure of the pair must hold, or None where the pair runs."""
    refused = Method.parse(estimator, baseline, k_of(estimator, baseline, n)).refusal(n)
    if refused is not None:
        return refused
    method = Method.parse(estimator, baseline)
    if way != "sampled":
        return "set complete: false" if method.uses_other_prompts else None
    return "complete: true" if method.fit == "oracle" else None


@pytest.mark.parametrize(("way", "estimator"), MEASURED)
def test_a_pair_fails_with_the_words_of_the_catalogue_or_is_as_that_says(results, way, estimator):
    n, checks = WAYS[way][0], CHECKS[way]
    for baseline in BASELINE_SPELLINGS:
        result = results[way, estimator, baseline]
        expected = reason(way, estimator, baseline, n)
        if expected is not None:
            assert isinstance(result, Exception), (baseline, expected)
            assert expected in str(result), baseline
        else:
            assert isinstance(result, dict), (baseline, result)
            method = Method.parse(estimator, baseline, k_of(estimator, baseline, n))
            checks(result, method, method.expected_scale(n))


def measures_everything_at_its_scale(result, method, scale):
    assert result["undefined"] == {}
    assert all(math.isfinite(result[name]) for name in OF_MOMENTS), method
    assert set(result["measures"]) == ALWAYS
    if math.isfinite(scale):
        found = interval(Units.from_metrics(result), "scale", level=0.999)
        assert found.low <= scale <= found.high, method


def has_the_bias_of_the_catalogue(result, method, scale):
    assert result["against"] == "complete"
    assert set(result["measures"]) == ALWAYS
    # At ratios of one, as here, an estimator with importance ratios has no bias to see.
    biased = "scale bias" if math.isfinite(scale) else "biased"
    unbiased = method.is_unbiased or method.needs_ratios
    assert verdict(result) == ("unbiased" if unbiased else biased), method
    if math.isfinite(scale):
        assert result["scale"] == pytest.approx(scale, rel=1e-9), method


def has_the_bias_of_the_catalogue_under_another_policy(result, method, scale):
    assert verdict(result) == ("unbiased" if method.is_unbiased else "biased"), method
    assert set(result["measures"]) == ALWAYS | OF_RATIOS
    assert all(0 < share < 1 for share in result["measures"]["effective_sample_size"]), method


def verdict(result):
    return bias_verdicts({0: Units.from_metrics(result)})[0].verdict


CHECKS = {
    "sampled": measures_everything_at_its_scale,
    "enumerated": has_the_bias_of_the_catalogue,
    "off-policy": has_the_bias_of_the_catalogue_under_another_policy,
}
