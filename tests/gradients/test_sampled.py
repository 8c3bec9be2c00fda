"""A pool cut into blocks of groups, and measures of these against gradients written out."""

import itertools

import numpy as np
import pytest
import small_environments
import torch
from score_tables import bandit, cell, measured, pool_of

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.exact import Bandit
from maxk_lab.estimators import Objective, advantages
from maxk_lab.estimators.method import Method
from maxk_lab.gradients.enumerated.exact import exact_value
from maxk_lab.gradients.sampled.blocks import KEPT, together
from maxk_lab.gradients.sampled.groups import FEW_GROUPS, MOST_BLOCKS, blocks_of, group_order
from maxk_lab.gradients.sampled.measures import carrying_share, measure_cells
from maxk_lab.gradients.scores.draw import perturbed
from maxk_lab.gradients.scores.pool import Listing, ScorePool
from maxk_lab.statistics.intervals import interval
from maxk_lab.statistics.measures import FIXED
from maxk_lab.statistics.units import Units


def sampled(*key, **rest):
    return cell(*key, complete=False, **rest)


@pytest.mark.parametrize(
    ("size", "partitions"), [(6, 1), (7, 8), (48, 8), (70, 1), (333, 8), (1024, 1)]
)
def test_blocks_share_no_trajectory_under_any_partition(size, partitions):
    n = 3
    order = group_order(2, size, n, partitions, seed=0)
    blocks, each = blocks_of(size // n, partitions)
    assert order.shape == (2, partitions, blocks, each, n)
    for instance in range(2):
        of_block = [set(order[instance, :, b].flatten().tolist()) for b in range(blocks)]
        assert sum(map(len, of_block)) == len(set.union(*of_block))
        assert set.union(*of_block) <= set(range(size))
    for groups in order.flatten(0, 1):
        used = groups.flatten().tolist()
        assert len(set(used)) == len(used), "groups of one partition are disjoint"


@pytest.mark.parametrize("partitions", [1, 8])
def test_a_record_can_hold_the_blocks_and_few_groups_are_left_over(partitions):
    for groups in range(2, 301):
        blocks, each = blocks_of(groups, partitions)
        assert 2 <= blocks <= MOST_BLOCKS
        assert blocks % together(blocks) == 0, groups
        # Never fewer than a record keeps, where there are as many of at least `least` groups.
        least = 1 if partitions == 1 or groups < FEW_GROUPS else 2
        assert each >= least
        assert blocks >= min(KEPT, groups // least), groups
        # With several partitions every trajectory of a block is in some group all the same.
        share = 0.13 if partitions == 1 or groups >= 2 * FEW_GROUPS else 0.16
        assert 0 <= groups - blocks * each <= share * groups, groups
    for power in range(1, 12):
        blocks, each = blocks_of(2**power, 1)
        assert (blocks * each, blocks) == (2**power, min(2**power, MOST_BLOCKS))


def test_the_partitions_differ_and_follow_from_the_seed_and_n():
    first, again, other = (group_order(2, 96, 3, 4, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    groups = [{frozenset(group.tolist()) for group in part.flatten(0, 1)} for part in first[0]]
    assert len({frozenset(one) for one in groups}) == 4
    with pytest.raises(ValueError, match="holds 1 group of n = 3; at least 2 are needed"):
        group_order(2, 5, 3, 8, seed=0)


def share(probabilities, rewards, k=1, *, behaviour=None, lengths=None):
    """The share of the draws of an instance that effectively carry its gradient."""
    p, values = torch.tensor(probabilities).double(), torch.tensor(rewards).double()
    drawn = p if behaviour is None else torch.tensor(behaviour).double()
    squared = torch.ones_like(p) if lengths is None else torch.tensor(lengths).double() ** 2
    listed = Listing(values, p, p, p, probabilities=p, behaviour=drawn)
    return carrying_share(listed, squared, Objective("max", k))


@pytest.mark.parametrize("rare", [0.1, 1e-3, 1e-6])
def test_one_rare_trajectory_that_carries_all_counts_as_often_as_it_is_drawn(rare):
    for often in (rare, 0.5):
        drawn = [1 - often, often]
        found = share([1 - rare, rare], [0.0, 1.0], behaviour=drawn, lengths=[0.0, 1.0])
        assert found == pytest.approx(often)


@pytest.mark.parametrize("k", [1, 3])
def test_the_share_that_carries_sees_neither_shift_nor_padding(k):
    assert share([0.25] * 4, [1.0, 1.0, -1.0, -1.0]) == pytest.approx(1)
    wanted = pytest.approx(share([0.7, 0.2, 0.1], [0.0, 1.0, 3.0], k))
    assert share([0.7, 0.2, 0.1], [50.0, 51.0, 53.0], k) == wanted
    assert share([0.7, 0.2, 0.1, 0.0], [0.0, 1.0, 3.0, 0.0], k) == wanted
    assert share([0.5, 0.5], [1.0, 1.0], k) == 0


@pytest.mark.slow
def test_sampled_measures_estimate_the_enumerated_ones():
    environment = bandit(shift=-1.0)
    behaviour = perturbed(environment.policy(0), 0.7, seed=2)
    pairs = [
        ("maxk", "centred", 2),
        ("maxk", "group_mean", 2),
        ("off_policy_maxk", "subloo", 2),
        ("reinforce", "eob_loo", 1),
        ("maxk", "optimal[logit_proxy]", 2),
        ("maxk", "affine[cross_fit]", 2),
    ]
    pool = pool_of(environment, 20_000, objectives=[1, 2], behaviour=behaviour)
    exact = measured(pool, *(cell(e, b, 4, k) for e, b, k in pairs))
    found = measured(pool, *(sampled(e, b, 4, k) for e, b, k in pairs))
    for name, metrics in exact.items():
        own = found[name]
        assert (own["against"], "bias" in own) == ("exact", False)
        names = ("variance", "value_variance", "dead_gradient_rate", "effective_sample_size")
        for measure in names:
            assert own[measure] == pytest.approx(metrics[measure], rel=0.04, abs=1e-3)
        assert own["mean_square"] == pytest.approx(metrics["mean_square"], rel=0.15)
        assert own["scale"] == pytest.approx(metrics["scale"], abs=0.1)
        assert own["cosine"] == pytest.approx(metrics["cosine"], abs=0.05)


def test_quadratic_forms_equal_the_gradients_written_out():
    environment = small_environments.make("tsp", num_loc=5)
    policy, instances = environment.policy(0), environment.instances(3, 1)
    pool = pool_of(environment, 12, 3, policy=policy, instances=instances)
    parameters = list(policy.parameters())
    (metrics,) = measured(pool, sampled("maxk", "centred", 4, 2, partitions=2)).values()
    order = group_order(3, 12, 4, 2, 0)
    for i in range(3):
        instance = instances[i : i + 1]
        listed, _ = environment.enumerate(instance)
        estimates = []
        for group in order[i].reshape(-1, 4):
            weights = advantages(pool.rewards[i, group], estimator="maxk", baseline="centred", k=2)
            actions = listed[pool.parts[i].rows[group]].unsqueeze(0)
            value = (weights * environment.log_probs(policy, instance, actions)[0]).sum()
            gradients = torch.autograd.grad(
                value, parameters, allow_unused=True, materialize_grads=True
            )
            estimates.append(torch.cat([gradient.flatten() for gradient in gradients]))
        stacked = torch.stack(estimates).view(2, 3, -1)
        second = stacked.square().sum(2).mean().item()
        assert metrics["units"]["m2"][i] == pytest.approx(second, rel=1e-9)
        means = stacked.mean(0)
        products = means @ means.T
        off = ((products.sum() - products.diagonal().sum()) / 6).item()
        assert metrics["units"]["mean_square"][i] == pytest.approx(off, rel=1e-7, abs=1e-12)


@pytest.mark.slow
def test_without_the_exact_gradient_the_reference_has_ratios():
    environment = bandit()
    behaviour = perturbed(environment.policy(0), 0.7, seed=2)
    exact = pool_of(environment, behaviour=behaviour)
    environment.enumerable = False
    pool = pool_of(environment, 20_000, behaviour=behaviour)
    cells = [sampled(name, "centred", 4, 2) for name in ("off_policy_maxk", "maxk")]
    reference, biased = measured(pool, *cells).values()
    assert reference["is_reference"]
    assert reference["against"] == biased["against"] == "reference:off_policy_maxk with centred"
    assert not biased["is_reference"]
    (listed,) = measured(exact, cell("maxk", "centred", 4, 2)).values()
    expected = listed["effective_sample_size"]
    assert biased["effective_sample_size"] == pytest.approx(expected, rel=0.02)
    with pytest.raises(
        ValueError, match=r"order\[.*\]@3 under a behaviour policy needs the exact grad"
    ):
        measured(pool, sampled("order[0 1 0]", "centred", 4, 3))


def test_a_cell_does_not_depend_on_the_other_cells_asked_for():
    alone, together = (pool_of(bandit(), 200, objectives=ks) for ks in ([2], [1, 2, 3]))
    own = sampled("maxk", "centred", 4, 2)
    others = [sampled("maxk", "none", 8, 1), own, sampled("maxk", "subloo", 4, 3)]
    assert measured(alone, own).items() <= measured(together, *others).items()


def test_the_blocks_of_every_instance_tell_how_well_it_is_known():
    (metrics,) = measured(pool_of(bandit(), 640, 2), sampled("maxk", "centred", 8, 2)).values()
    units = Units.from_metrics(metrics)
    assert units.stratum.tolist() == [0, 0]
    assert units.groups == 2 * metrics["replicates"] == 2 * 80
    # 80 groups make 16 blocks; of so few instances a record keeps them all.
    assert units.within.shape == (4, 2, 16)
    assert (units.deviations.along.freedom, units.deviations.anywhere.freedom) == (15, 7)
    found = interval(units, "variance")
    assert (found.question, found.fallen_back) == (FIXED, True)
    assert found.value == pytest.approx(metrics["variance"])
    assert found.low < found.value < found.high


def test_one_failing_cell_does_not_take_the_others_with_it():
    keys = [("centred", 4, 2), ("subloo", 4, 1), ("none", 64, 2)]
    cells = [sampled("maxk", *key) for key in keys]
    found = [dict(measure_cells(pool_of(bandit()), cells, seed=0))[one["id"]] for one in cells]
    assert found[0]["variance"] > 0
    assert isinstance(found[1], Exception)
    assert "at least 2 are needed" in str(found[2])


@pytest.mark.slow
def test_many_trajectories_take_the_exact_gradient_as_a_direction_to_the_same_numbers(monkeypatch):
    environment = small_environments.make("tsp", num_loc=5)
    table = pool_of(environment, 40, objectives=[2, 3])
    monkeypatch.setattr("maxk_lab.gradients.scores.draw.TABLE_LIMIT", 100)
    direct = pool_of(environment, 40, objectives=[2, 3])
    for one, other in zip(direct.parts, table.parts):
        assert len(one.gram) < len(other.gram) == 120
        torch.testing.assert_close(one.norm, other.norm, rtol=1e-9, atol=0)
    cells = [sampled("maxk", "centred", 4, 2), sampled("maxk", "none", 8, 3)]
    fast, slow = (measured(pool, *cells) for pool in (table, direct))
    for name, metrics in fast.items():
        for measure in ("variance", "mean_square", "scale", "squared_bias", "value"):
            assert slow[name][measure] == pytest.approx(metrics[measure], rel=1e-8, abs=1e-10)


class IntegratedBandit(Bandit):
    """A bandit whose arms cannot be listed but whose objectives are known."""

    enumerable = False
    has_exact = True

    def exact_objective(self, policy, instances, objective):
        return exact_value(policy().exp(), instances[0], objective)


def integrated_bandit(arms=3):
    policy = {"name": "tabular", "init_std": 0.5, "dtype": "float64"}
    row = ENVIRONMENTS.get("bandit")
    environment = IntegratedBandit(row, {"arms": arms, "reward_shift": 0.0}, policy)
    environment.enumerable = False
    return environment


MANY_FORMS = [
    sampled("maxk", "centred", 4, 2),
    sampled("maxk", "none", 8, 3),
    sampled("maxk", "optimal[grad_norm]", 4, 2),
    sampled("maxk", "affine[cross_fit]", 4, 3),
    sampled("maxk", "ladder[cross_fit]", 8, 3, partitions=2),
]


@pytest.mark.parametrize("count", [2, 12])
@pytest.mark.parametrize("exact", [True, False])
def test_scores_kept_as_they_are_give_the_numbers_of_their_gram_matrix(count, exact, monkeypatch):
    environment = integrated_bandit()
    environment.has_exact = exact
    few = pool_of(environment, 200, count, [2, 3])
    monkeypatch.setattr("maxk_lab.gradients.scores.draw.FEW_PARAMETERS", 2)
    many = pool_of(environment, 200, count, [2, 3])
    for one, other in zip(few.parts, many.parts):
        assert (one.scores.shape, other.gram.shape) == ((200, 3), (3, 3))
        assert one.gram is other.scores is None
    assert few.exact == exact
    kind = "grad_norm"
    torch.testing.assert_close(few.trajectory_weight(kind), many.trajectory_weight(kind))
    again = ScorePool.from_state(few.state())
    assert again.objectives == few.objectives
    kept, other = (measured(pool, *MANY_FORMS) for pool in (again, many))
    for name, metrics in kept.items():
        assert metrics["against"] == ("exact" if exact else "reference:centred")
        for part, values in metrics["units"].items():
            assert values == pytest.approx(other[name]["units"][part], rel=1e-9, abs=1e-12)


def test_an_integrated_gradient_is_the_enumerated_one():
    objectives = [Objective("max", 2), Objective("order[0 1 0]", 3)]
    pools = [pool_of(one, objectives=objectives) for one in (bandit(), integrated_bandit())]
    assert pools[0].objectives == pools[1].objectives == ("max@2", "order[0.0 1.0 0.0]@3")
    for one, other in zip(pools[1].parts, pools[0].parts):
        torch.testing.assert_close(one.norm, other.norm, rtol=1e-10, atol=0)
        torch.testing.assert_close(one.value, other.value, rtol=1e-12, atol=0)
    cells = [sampled("maxk", "subloo", 4, 2), sampled("order[0 1 0]", "centred", 4, 3)]
    listed, integrated = (measured(pool, *cells) for pool in pools)
    for name, metrics in listed.items():
        inner = integrated[name]["units"]["inner"]
        assert metrics["units"]["inner"] == pytest.approx(inner, rel=1e-9, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["maxk", "top_m", "order[0.5 0.0 -1.5]"])
def test_an_objective_without_the_exact_gradient_is_judged_against_its_own_centred_row(estimator):
    environment = integrated_bandit()
    objectives = [Method.parse(estimator, k=3).objective_at(4)]
    exact = pool_of(environment, 20_000, objectives=objectives)
    environment.has_exact = False
    blind = pool_of(environment, 20_000, objectives=objectives)
    names = ("centred", "subloo", "group_mean")
    for pool in (exact, blind):
        cells = measured(pool, *(sampled(estimator, name, 5, 3) for name in names)).values()
        own, other, shorter = cells
        assert other["scale"] == pytest.approx(1.0, abs=0.1)
        assert shorter["scale"] == pytest.approx(1 - 3 / 5, abs=0.1 * (pool is exact) + 1e-9)
        assert [one["is_reference"] for one in cells] == [pool is blind, False, False]
    assert own["against"] == other["against"] == "reference:centred"
    assert own["scale"] == 1.0
    value = np.mean([part.value.item() for part in exact.parts])
    assert own["value"] == pytest.approx(value, abs=0.05)


def test_the_value_variance_is_that_between_groups():
    pool = pool_of(bandit(), 40)
    (metrics,) = measured(pool, sampled("maxk", "centred", 4, 2)).values()
    order = group_order(12, 40, 4, 1, 0)[:, 0]
    for i in range(12):
        groups = [pool.rewards[i, group].tolist() for group in order[i].flatten(0, 1)]
        values = [np.mean([max(pair) for pair in itertools.combinations(g, 2)]) for g in groups]
        found = metrics["measures"]["value_variance"][i]
        assert found == pytest.approx(np.var(values, ddof=1), rel=1e-10)
