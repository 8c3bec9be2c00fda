"""Every estimator and baseline, called exactly as a sweep calls them, sampled and enumerated."""

import math
from itertools import product

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
STUDY = {"warmup": {}, "stage": 0, "seed": 0, "instances": 8, "pool": 2048}
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


BINARY = toy_llm("modular", 4, 3) | {"pool": 1024}
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


def method_of(estimator, baseline, n):
    """The pair with a K at which it runs, else one at which the estimator runs at all, else 2."""
    tried = [(b, k) for b in (baseline, "none") for k in (2, 1, 3, 4)]
    k = next((k for b, k in tried if Method.parse(estimator, b, k).refusal(n) is None), 2)
    return Method.parse(estimator, baseline, k)


@pytest.fixture(scope="module")
def results():
    """The result of every pair in every way, all pairs of a unit together, as in a sweep."""
    measured = {}
    for way, (n, graded, options) in WAYS.items():
        cells = {True: [], False: []}
        for e, b in product((e for of, e in MEASURED if of == way), BASELINE_SPELLINGS):
            method = method_of(e, b, n)
            axes = {"estimator": e, "baseline": b, "n": n, "k": method.k}
            cell = {"id": (way, e, b), **axes, "partitions": 1, **options}
            cells[method.needs_binary_rewards].append(cell)
        fewer = {"instances": 4} if options else {}  # where nothing is drawn
        for binary, unit in ((False, graded), (True, BINARY)):
            if cells[binary]:
                unit_and_cells = unit | fewer, cells[binary]
                measured |= dict(measure_unit(*unit_and_cells, cache=None, event=lambda *_: None))
    return measured


def reason(way, method, n):
    """Words that the failure of the pair must hold, or None where the pair runs."""
    if (refused := method.refusal(n)) is not None:
        return refused
    if way != "sampled":
        return "set complete: false" if method.uses_other_prompts else None
    return "complete: true" if method.fit == "oracle" else None


@pytest.mark.parametrize(("way", "estimator"), MEASURED)
def test_a_pair_fails_with_the_words_of_the_catalogue_or_is_as_that_says(results, way, estimator):
    n = WAYS[way][0]
    for baseline in BASELINE_SPELLINGS:
        result, method = results[way, estimator, baseline], method_of(estimator, baseline, n)
        words, scale = reason(way, method, n), method.expected_scale(n)
        if words is not None:
            assert isinstance(result, Exception), (baseline, words)
            assert words in str(result), baseline
            continue
        assert isinstance(result, dict), (baseline, result)
        ratios = OF_RATIOS if way == "off-policy" else set()
        assert set(result["measures"]) == ALWAYS | ratios, method
        units = Units.from_metrics(result)
        if way == "sampled":
            assert result["undefined"] == {}
            assert all(math.isfinite(result[name]) for name in OF_MOMENTS), method
            if math.isfinite(scale):
                shown = interval(units, "scale", level=0.999)
                assert shown.low <= scale <= shown.high, method
        elif way == "enumerated":
            assert result["against"] == "complete"
            # At ratios of one, as here, an estimator with importance ratios has no bias to see.
            unbiased = method.is_unbiased or method.needs_ratios
            biased = "scale bias" if math.isfinite(scale) else "biased"
            assert verdict(units) == ("unbiased" if unbiased else biased), method
            if math.isfinite(scale):
                assert result["scale"] == pytest.approx(scale, rel=1e-9), method
        else:
            assert verdict(units) == ("unbiased" if method.is_unbiased else "biased"), method
            assert all(0 < share < 1 for share in result["measures"]["effective_sample_size"])


def verdict(units):
    return bias_verdicts({0: units})[0].verdict
