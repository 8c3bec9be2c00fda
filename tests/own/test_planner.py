"""Plans of steps from rewards, against enumerated variances, brute force and measured scores."""

import json
import re
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from maxk_lab import advantages, measure
from maxk_lab.cli.verbs.audit import show
from maxk_lab.errors import LabError
from maxk_lab.estimators.check.bandit import TinyBandit
from maxk_lab.estimators.method import Method
from maxk_lab.own.audit import audit
from maxk_lab.own.plans.chart import write_plan
from maxk_lab.own.plans.coherence import Coherence, coherences
from maxk_lab.own.plans.products import ScoreProducts, mid_ranks, score_products_by_rank
from maxk_lab.own.plans.steps import (
    BASELINES,
    FEWEST,
    _interval,
    group_sizes,
    plan,
    recommendations,
)

BUDGET = 24


@pytest.mark.parametrize("wins", [1, 2])
def test_a_binary_plan_is_the_enumerated_variance_where_scores_have_equal_norms(wins):
    """Arms of equal chance: ‖ψ‖² = 1 − 1/A of each, and κ = 1/(A − 1). All prompts are alike."""
    arms = 4
    bandit = TinyBandit((0.0,) * arms, (1.0,) * wins + (0.0,) * (arms - wins))
    kappa, share = 1 / (arms - 1), 0.3
    known = Coherence((kappa,) * 3, (share,) * 3)
    with_p = _binomial_groups(wins / arms)
    frame = plan([with_p], [np.zeros(len(with_p), dtype=int)], BUDGET, (1, 2), {1: known, 2: known})
    for row in frame[frame.n <= 6].itertuples():
        method = Method.parse("maxk", row.baseline, row.k)
        variance = bandit.trace_variance(row.n, method)
        square = float(bandit.gradient(row.k).square().sum())
        step = row.n / BUDGET * (variance + share * square)
        expected = step / ((1 - share) * square)
        assert row.relative_variance == pytest.approx(expected, rel=1e-3)
    assert set(frame.n) == {*group_sizes(BUDGET)} == {2, 3, 4, 6, 8, 12, 24}


def _binomial_groups(p):
    """Groups of 2 whose two moments are those of a single p = 1/4 or 1/2: 16 groups."""
    counts = {0: round(16 * (1 - p) ** 2), 1: round(32 * p * (1 - p)), 2: round(16 * p**2)}
    rows = [[float(s > 0), float(s > 1)] for s, count in counts.items() for _ in range(count)]
    return torch.tensor(rows, dtype=torch.float64)


def test_other_rewards_are_averaged_over_all_groups_of_n():
    """E Σ w² of groups cut out of larger ones, and none larger than the log's."""
    rewards = torch.tensor([[0.5, 1.5, -1.0, 3.0], [0.0, 0.25, 0.5, 2.0]], dtype=torch.float64)
    small = Coherence((1e-9,) * 3, (0.5,) * 3)
    frame = plan([rewards], [np.arange(2)], 4, (1, 2), {1: small, 2: small})
    assert set(frame.n) == {2, 4}
    for k, n, baseline in ((1, 4, "centred"), (2, 4, "subloo")):
        row = frame[(frame.k == k) & (frame.n == n) & (frame.baseline == baseline)].iloc[0]
        best = frame[(frame.k == k)].sort_values("loss").iloc[0]

        def squares(name, size, k=k):
            groups = [r[list(c)] for r in rewards for c in combinations(range(4), size)]
            weights = [advantages(group, k=k, baseline=name) for group in groups]
            return size * np.mean([float(w.square().sum()) for w in weights])

        expected = squares(baseline, n) / squares(best.baseline, int(best.n))
        assert row.loss == pytest.approx(expected, rel=0.15)


def test_an_interval_is_that_of_students_t_on_the_log_scale():
    """The jackknife of a mean has the mean's standard error."""
    values = np.random.default_rng(0).standard_normal(12)
    lacking = (values.sum() - values) / 11
    ends = np.log(_interval(np.exp([values.mean(), *lacking])))
    half = stats.t.ppf(0.975, 11) * stats.sem(values)
    assert ends == pytest.approx([values.mean() - half, values.mean() + half])
    for undefined in ([1.0, 1.0, np.nan], [2.0, 2.0, 2.0], [2.0, 1.0]):
        assert np.isnan(_interval(np.array(undefined))).all()
    assert _interval(np.ones(3)) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("group", "others", "informative"),
    [
        ([1, 1, 0, 0], [1, 1, 1, 1], 0),  # no other prompt has a failure
        ([1, 1, 0, 0], [1, 0, 0, 0], 0),  # one success is no pair
        ([0.5, 0.2, 0.2, 0.2], [2.0, 2.0, 2.0, 2.0], 0),
        ([1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], 5),
        ([1, 1, 0, 0], [0.5, 0.0, 0.0, 0.0], 5),
    ],
)
def test_intervals_need_informative_prompts(group, others, informative):
    """`group` is that of all informative prompts but one too few, `others` are 5 more prompts."""
    rows = torch.tensor([group] * (FEWEST - 1) + [others] * 5, dtype=torch.float64)
    frame = plan([rows], [np.arange(len(rows))], 4, (1,))
    count = FEWEST - 1 + informative
    withheld = f"no interval: {count} of {len(rows)} prompts are informative, {FEWEST} needed"
    assert set(frame.reason) == {withheld if informative == 0 else ""}
    assert frame.low.isna().all() == (informative == 0)


def test_a_row_without_an_interval_is_no_tie():
    """Prompts that are all alike: the jackknife agrees on the loss of a whole group."""
    rows = torch.tensor([[0.3, 1.0, 2.0, 0.1]] * FEWEST, dtype=torch.float64)
    frame = plan([rows], [np.arange(len(rows))], 4, (1,)).assign(source="all")
    (line,) = recommendations(frame)
    assert "ties: " not in line
    assert "; ties are unknown without intervals" in line


def gaussian_scores(prompts=24):
    rng = np.random.default_rng(1)
    scores = rng.standard_normal((prompts, 32, 40))
    rewards = (scores[..., 0] + 0.5 * rng.standard_normal((prompts, 32)) > 0.4).astype(float)
    return torch.from_numpy(rewards), torch.from_numpy(scores)


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """A file of rewards and scores."""
    path = tmp_path_factory.mktemp("scores") / "s.npz"
    np.savez(path, **dict(zip(("rewards", "scores"), gaussian_scores(), strict=True)))
    return path


def test_measured_coherence_is_that_of_the_scores():
    """R has the correlation ρ with one of D coordinates of ψ: κ = ρ²/D, alike in all prompts."""
    rewards, scores = gaussian_scores(prompts=200)
    coherence = coherences(rewards, scores @ scores.mT, scores, (1,))[1]
    correlation = np.corrcoef(rewards.flatten(), scores[..., 0].flatten())[0, 1]
    value, low, high = coherence.coherence
    assert low < correlation**2 / 40 < high < 2 * value
    assert coherence.between[0] < 0.2
    assert coherences(rewards, scores @ scores.mT, None, (1,))[1].between == (0.5, 0.1, 0.9)


def test_two_prompts_have_no_measured_share_between_prompts():
    """Without one of two prompts, no pair is left."""
    rewards, scores = gaussian_scores(prompts=2)
    coherence = coherences(rewards, scores @ scores.mT, scores, (1,))[1]
    assert coherence.between == (0.5, 0.1, 0.9)


def test_an_audit_of_scores_ranks_as_their_measured_variance(scores):
    """The audit and the report on the same samples name one baseline."""
    rows = audit(scores, budget=64, ks=(4,)).plan
    lowest = rows[rows.n == 8].sort_values("loss").baseline.iloc[0]
    arrays = np.load(scores)
    report = measure(arrays["rewards"], scores=arrays["scores"], n=8, k=4)
    assert re.search(rf"^Use +{lowest}\.", str(report), re.MULTILINE)


def log_of(path, groups):
    """A log of prompts p0, p1, ... whose source is the parity of their number."""
    lines = [
        {"prompt": f"p{i}", "reward": float(reward), "source": i % 2}
        for i, rewards in enumerate(groups)
        for reward in rewards
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_sources_are_planned_apart_and_scores_replace_the_assumption(tmp_path, scores):
    rng = np.random.default_rng(0)
    path = log_of(tmp_path / "log.jsonl", [rng.random(8) < 0.1 + 0.8 * (i % 2) for i in range(40)])
    log = audit(path, budget=16, by="source", ks=(1,))
    assert [*dict.fromkeys(log.plan.source)] == ["all", "0", "1"]
    assert log.assumption == "assumed: coherence 0.05 (0.005 to 0.5), share between prompts 0.5"
    assert log.use[0].startswith("Use at all, K = 1: ")
    # Without a baseline, prompts that are nearly always solved have most variance.
    plain = log.plan[(log.plan.n == 4) & (log.plan.baseline == "none")].set_index("source")
    assert plain.loss["1"] > 3 * plain.loss["0"]
    measured = audit(path, scores, budget=16, ks=(1,))
    assert measured.assumption.startswith("scores measured at the ranks of rewards; measured: ")
    with pytest.raises(LabError, match="one file of scores"):
        audit(path, scores, scores, budget=16)
    with pytest.raises(LabError, match=r"s\.npz has no columns: leave out step, by"):
        audit(scores, budget=16, by="source", step="step")


def test_a_log_without_a_signal_has_no_plan(tmp_path):
    log = audit(log_of(tmp_path / "log.jsonl", [[1.0] * 4, [0.0] * 4]), budget=16)
    assert isinstance(log.plan, pd.DataFrame)
    assert log.plan.empty
    assert log.use == ()
    assert log.notes[-1] == "no plan: all groups have equal rewards"
    with pytest.raises(LabError, match="no plan: all groups"):
        write_plan(log, tmp_path)
    indivisible = audit(log_of(tmp_path / "log.jsonl", [[0.3, 0.1]]), budget=7)
    assert indivisible.notes[-1] == "no plan: no possible n divides the budget of 7"


@pytest.mark.parametrize("level", [1.0, 0.3])
def test_a_source_without_a_signal_or_groups_has_no_recommendation(tmp_path, level):
    path = log_of(tmp_path / "log.jsonl", [[0.0, 1.0] * 2, [level] * 4, [0.0, 1.0] * 2])
    log = audit(path, budget=4, by="source", ks=(1,))
    assert log.use[-1] == "1, K = 1: no signal"
    show(log)
    path = log_of(path, [[0.0, 1.0] * 2, [level], [0.0, 1.0] * 2])
    log = audit(path, budget=4, by="source", ks=(1,))
    assert log.plan.source.unique().tolist() == ["all", "0"]
    assert log.notes[-1] == "1 has no plan: it has no group of two samples"


@pytest.mark.parametrize(
    ("sources", "message"), [("aab", "group .0. has several values"), (["all"], "the value 'all'")]
)
def test_sources_that_are_no_parts_of_the_log_are_refused(tmp_path, sources, message):
    rows = [{"prompt": i // 4, "reward": i % 3, "of": sources[i % len(sources)]} for i in range(24)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(LabError, match=message):
        audit(tmp_path / "log.jsonl", budget=4, by="of")


@pytest.mark.parametrize("rewards", [(0.0, 1.0, 0.0, 1.0), (0.3, -1.0, 2.0, 0.3)])
@pytest.mark.parametrize("baseline", BASELINES)
def test_norms_and_products_by_reward_give_the_enumerated_variance(rewards, baseline):
    """V_n of a bandit whose arms of one reward have different chances and scores."""
    bandit = TinyBandit((0.3, -0.5, 1.0, 0.1), rewards)
    chances = torch.softmax(torch.tensor(bandit.logits, dtype=torch.float64), -1)
    scores = bandit.scores(1)[0]
    values, arms = np.unique(rewards, return_inverse=True)
    member = torch.nn.functional.one_hot(torch.from_numpy(arms), len(values)).double()
    shares = chances @ member
    means = (member * chances[:, None]).T @ scores / shares[:, None]
    norms = (chances * scores.square().sum(1)) @ member / shares
    exact = ScoreProducts(norms, means @ means.T)
    checked = 0
    for n, k in product((2, 3, 4), (1, 2, 3)):
        method = Method.parse("maxk", baseline, k)
        if method.refusal(n) is not None:
            continue
        groups = torch.cartesian_prod(*[torch.arange(len(values))] * n)
        weights = method.weights(torch.from_numpy(values)[groups])
        moment = shares[groups].prod(1) @ exact.second_moments(weights, groups)
        variance = moment - bandit.gradient(k).square().sum()
        assert float(variance) == pytest.approx(bandit.trace_variance(n, method), rel=1e-10)
        checked += 1
    assert checked >= 5


@pytest.mark.parametrize("binary", [True, False])
def test_a_plan_with_scores_by_rank_has_the_variance_of_the_scores(binary):
    """Norms grow with the reward: equal norms are refuted, and other samples tell the variance."""
    rng = np.random.default_rng(3)
    scores = rng.standard_normal((2, 24, 48, 8))
    rewards = scores[..., 0] + 0.3 * rng.standard_normal(scores.shape[:-1])
    rewards = (rewards > 0.8).astype(float) if binary else rewards
    scores *= np.where(rewards > 0.8, 3.0, 0.5)[..., None]
    rewards, scores = torch.from_numpy(rewards), torch.from_numpy(scores)
    products = scores @ scores.mT
    elsewhere = score_products_by_rank(rewards[1], products[1])
    given = [rewards[0]], [np.arange(24)], 16, (1, 2)
    frames = [
        plan(*given).assign(rule="none"),
        plan(*given, products=products[0]).assign(rule="scores"),
        plan(*given, by_rank=elsewhere).assign(rule="ranks"),
    ]
    table = pd.concat(frames).pivot(index=["k", "n", "baseline"], columns="rule", values="loss")
    table = table[table.scores.notna()]
    assert len(table) > 20
    error = (table.ranks / table.scores - 1).abs()
    assert error.median() < 0.1
    assert error.median() < 0.5 * (table.none / table.scores - 1).abs().median()


def test_halves_too_small_for_a_k_leave_it_to_the_coherence(tmp_path, scores):
    """Groups of 8 have halves of 4; rewards of 0 and 1 need none."""
    groups = np.random.default_rng(0).random((40, 8))
    log = audit(log_of(tmp_path / "log.jsonl", groups), scores, budget=16, ks=(2, 4))
    first, second = log.assumption.split("; K = ")
    assert first.startswith("K = 2: scores measured at the ranks of rewards; measured: share betw")
    assert second.startswith("4: measured: coherence ")
    log = audit(log_of(tmp_path / "log.jsonl", groups > 0.5), scores, budget=16, ks=(2, 4))
    assert "coherence" not in log.assumption


def test_score_products_are_the_means_over_the_samples_of_bins():
    """Means over bins by hand; failures are in bin 1, successes in 2, and 0 and 3 are empty."""
    rewards, scores = gaussian_scores(prompts=3)
    by_rank = score_products_by_rank(rewards, scores @ scores.mT, (0.25, 0.5, 1.5))
    bins = by_rank.bins(mid_ranks(rewards)).numpy()
    assert by_rank.norms[3] == by_rank.norms[2]
    assert by_rank.means[3, 0] == by_rank.means[2, 1]
    products = (scores @ scores.mT).numpy()
    for i, j in ((1, 1), (1, 2), (2, 2)):
        pairs = (bins[:, :, None] == i) & (bins[:, None, :] == j)
        pairs &= ~np.eye(bins.shape[1], dtype=bool)
        assert float(by_rank.means[i, j]) == pytest.approx(products[pairs].mean())
    squares = np.einsum("pii->pi", products)
    assert float(by_rank.norms[1]) == pytest.approx(squares[bins == 1].mean())
