"""A pool cut into blocks of groups, and measures of these against gradients written out."""

import itertools
from dataclasses import replace

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
from maxk_lab.gradients.plain_methods import plain_method
from maxk_lab.gradients.sampled.blocks import KEPT, together
from maxk_lab.gradients.sampled.groups import (
    FEW_GROUPS,
    MOST_BLOCKS,
    blocks_of,
    group_order,
    groups_of,
)
from maxk_lab.gradients.sampled.measures import carrying_share, measure_cells
from maxk_lab.gradients.scores import draw
from maxk_lab.gradients.scores.draw import perturbed
from maxk_lab.gradients.scores.per_trajectory import trained
from maxk_lab.gradients.scores.pool import Listing, ScorePool
from maxk_lab.statistics.intervals import interval
from maxk_lab.statistics.measures import FIXED
from maxk_lab.statistics.units import Units


def sampled(*key, **rest):
    return cell(*key, complete=False, **rest)


@pytest.mark.parametrize(
    ("size", "n", "partitions", "starts"),
    [
        *((size, 3, 1, 1) for size in (6, 70, 1024)),
        *((size, 3, 8, 1) for size in (7, 48, 333)),
        *((203, n, parts, 5) for n, parts in ((3, 1), (5, 4), (7, 1), (10, 4))),
    ],
)
def test_blocks_share_no_trajectory_and_member_i_of_a_group_has_start_i(
    size, n, partitions, starts
):
    order = group_order(2, size, n, partitions, seed=0, starts=starts)
    turns = -(-n // starts)
    blocks, each = blocks_of(size // (turns * starts), partitions)
    assert order.shape == (2, partitions, blocks, each, n)
    assert torch.equal(order % starts, (torch.arange(n) % starts).expand_as(order))
    for instance in range(2):
        of_block = [set(order[instance, :, b].flatten().tolist()) for b in range(blocks)]
        assert sum(map(len, of_block)) == len(set.union(*of_block))
        assert set.union(*of_block) <= set(range(size))
    for groups in order.flatten(0, 1):
        assert len(groups.unique()) == groups.numel(), "groups of one partition are disjoint"


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
    with pytest.raises(ValueError, match="holds 0 groups of n = 3;"):
        group_order(2, 2, 3, 8, seed=0)
    forced = "holds 1 group of n = 7, which takes 10 with 5 forced starts; at least 2 are needed"
    with pytest.raises(ValueError, match=forced):
        group_order(1, 19, 7, 1, 0, starts=5)


def share(probabilities, rewards, k=1, *, behaviour=None, lengths=None):
    """The share of the draws of an instance that effectively carry its gradient."""
    p, values = torch.tensor(probabilities).double(), torch.tensor(rewards).double()
    drawn = p if behaviour is None else torch.tensor(behaviour).double()
    squared = torch.ones_like(p) if lengths is None else torch.tensor(lengths).double() ** 2
    listed = Listing(values, p, p, p, probabilities=p, behaviour=drawn)
    return carrying_share(listed, squared, Objective("max", k))


def test_the_share_of_draws_that_carry_the_gradient():
    for rare in (0.1, 1e-3, 1e-6):  # one rare trajectory that carries all
        for often in (rare, 0.5):
            drawn = [1 - often, often]
            found = share([1 - rare, rare], [0.0, 1.0], behaviour=drawn, lengths=[0.0, 1.0])
            assert found == pytest.approx(often)
    assert share([0.25] * 4, [1.0, 1.0, -1.0, -1.0]) == pytest.approx(1)
    for k in (1, 3):
        wanted = pytest.approx(share([0.7, 0.2, 0.1], [0.0, 1.0, 3.0], k))
        assert share([0.7, 0.2, 0.1], [50.0, 51.0, 53.0], k) == wanted
        assert share([0.7, 0.2, 0.1, 0.0], [0.0, 1.0, 3.0, 0.0], k) == wanted
        assert share([0.5, 0.5], [1.0, 1.0], k) == 0


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
    pool = pool_of(environment, 10_000, objectives=[1, 2], behaviour=behaviour)
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
    policy, instances = environment.policy(0), environment.instances(2, 1)
    pool = pool_of(environment, 12, 2, policy=policy, instances=instances)
    (metrics,) = measured(pool, sampled("maxk", "centred", 4, 2, partitions=2)).values()
    order = group_order(2, 12, 4, 2, 0)
    for i in range(2):
        instance = instances[i : i + 1]
        listed, _ = environment.enumerate(instance)
        estimates, values = [], []
        for group in order[i].reshape(-1, 4):
            pairs = itertools.combinations(pool.rewards[i, group].tolist(), 2)
            values.append(np.mean([max(pair) for pair in pairs]))
            weights = advantages(pool.rewards[i, group], baseline="centred", k=2)
            actions = listed[pool.parts[i].rows[group]].unsqueeze(0)
            value = (weights * environment.log_probs(policy, instance, actions)[0]).sum()
            gradients = torch.autograd.grad(
                value, trained(policy), allow_unused=True, materialize_grads=True
            )
            estimates.append(torch.cat([gradient.flatten() for gradient in gradients]))
        stacked = torch.stack(estimates).view(2, 3, -1)
        second = stacked.square().sum(2).mean().item()
        assert metrics["units"]["m2"][i] == pytest.approx(second, rel=1e-9)
        means = stacked.mean(0)
        products = means @ means.T
        off = ((products.sum() - products.diagonal().sum()) / 6).item()
        assert metrics["units"]["mean_square"][i] == pytest.approx(off, rel=1e-7, abs=1e-12)
        # Three groups under each of two partitions.
        between = np.var(values) * 3 / 2
        assert metrics["measures"]["value_variance"][i] == pytest.approx(between, rel=1e-10)


def test_without_the_exact_gradient_the_reference_has_ratios():
    environment = bandit()
    behaviour = perturbed(environment.policy(0), 0.7, seed=2)
    exact = pool_of(environment, behaviour=behaviour)
    environment.enumerable = False
    pool = pool_of(environment, 4000, behaviour=behaviour)
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


def test_trajectory_j_of_a_pool_with_forced_starts_has_start_j():
    """`test_catalogue.py` of the estimators has the mean of estimates from such groups."""
    plain = small_environments.make("tsp", num_loc=5)
    forced, policy, instance = plain.forced_starts(), plain.policy(0), plain.instances(1, 1)
    listed, _ = plain.enumerate(instance)
    chances = forced.log_probs(policy, instance, listed.unsqueeze(0))[0].detach().exp()
    of_start = torch.zeros(5).double().index_add_(0, listed[:, 0], chances.double())
    torch.testing.assert_close(of_start, torch.ones(5).double())
    actions = forced.rollout(policy, instance, 20, seed=1).actions[0]
    assert torch.equal(actions[:, 0], torch.arange(20) % 5)
    pool = pool_of(forced, 20, 1, policy=policy, instances=instance, starts=5)
    assert (pool.starts, pool.exact) == (5, False)
    assert pool.gradient_products["max@2"].isnan().all()
    members = groups_of(pool, 4, 1, 0).gathered(torch.arange(20).unsqueeze(0)) % 5
    assert torch.equal(members, torch.arange(4).expand_as(members))


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
    by_id = dict(measure_cells(pool_of(bandit()), cells, seed=0))
    found = [by_id[one["id"]] for one in cells]
    assert found[0]["variance"] > 0
    assert isinstance(found[1], Exception)
    assert "at least 2 are needed" in str(found[2])


class IntegratedBandit(Bandit):
    """A bandit whose arms cannot be listed but whose objectives are known."""

    enumerable = False
    has_exact = True

    def exact_objective(self, policy, instances, objective):
        return exact_value(policy().exp(), instances[0], objective)


def integrated_bandit():
    policy = {"name": "tabular", "init_std": 0.5, "dtype": "float64"}
    row = ENVIRONMENTS.get("bandit")
    environment = IntegratedBandit(row, {"arms": 3, "reward_shift": 0.0}, policy)
    environment.enumerable = False
    return environment


def test_groups_are_sampled_unless_the_trajectories_of_every_instance_are_listed():
    pool, both = pool_of(bandit(), count=2), ("maxk", "centred", 4, 2)
    few = replace(pool, parts=(pool.parts[0], replace(pool.parts[1], listed=None)))
    (complete,) = measured(few, cell(*both)).values()
    assert (complete["against"], complete) == ("exact", *measured(few, sampled(*both)).values())
    (failed,) = dict(
        measure_cells(few, [cell(*both) | {"selection": "drop_equal"}], seed=0)
    ).values()
    assert str(failed).endswith("selection needs fewer trajectories an instance")


def test_the_reference_runs_at_any_n_and_k():
    for n, k in ((1, 1), (2, 1), (2, 2), (3, 2)):
        assert plain_method(Objective("max", k), n).refusal(n) is None


def test_ways_to_the_same_numbers(monkeypatch):
    """Of listed, integrated and estimated gradients; of Gram matrices, directions and scores."""
    objectives = [Objective("max", 2), Objective("max", 3), Objective("order[0 1 0]", 3)]
    tours, listed, kept = small_environments.make("tsp", num_loc=5), bandit(), integrated_bandit()
    blind = integrated_bandit()
    blind.has_exact = False
    environments = (tours, listed, kept, blind)
    first, *others = (pool_of(one, 48, 2, objectives) for one in environments)
    monkeypatch.setattr(draw, "TABLE_LIMIT", 100)
    monkeypatch.setattr(draw, "FEW_PARAMETERS", 2)
    directed = pool_of(tours, 48, 2, objectives)
    assert len(directed.parts[0].gram) < len(first.parts[0].gram) == 120
    by_gram = [pool_of(one, 48, 2, objectives) for one in (kept, blind)]
    for few, many in zip(others[1:], by_gram, strict=True):
        assert (few.parts[0].scores.shape, many.parts[0].gram.shape) == ((48, 3), (3, 3))
        assert few.parts[0].gram is many.parts[0].scores is None
        norms = [pool.trajectory_weight("grad_norm") for pool in (few, many)]
        torch.testing.assert_close(*norms)
    cells = [
        sampled("maxk", "none", 8, 3),
        sampled("maxk", "subloo", 4, 2),
        sampled("order[0 1 0]", "centred", 4, 3),
        sampled("maxk", "optimal[grad_norm]", 4, 2),
        sampled("maxk", "affine[cross_fit]", 4, 3),
        sampled("maxk", "ladder[cross_fit]", 8, 3, partitions=2),
    ]
    pairs = [(first, directed), (others[0], others[1]), *zip(others[1:], by_gram, strict=True)]
    for one, other in pairs:
        assert one.objectives == other.objectives
        assert one.exact == (other is not by_gram[1])
        for part, wanted in zip(one.parts, other.parts, strict=True) if one.exact else ():
            torch.testing.assert_close(part.norm, wanted.norm, rtol=1e-10, atol=0)
            torch.testing.assert_close(part.value, wanted.value, rtol=1e-12, atol=0)
        again = ScorePool.from_state(one.state())
        expected, found = (measured(pool, *cells) for pool in (other, again))
        for name, metrics in found.items():
            assert metrics["against"] == ("exact" if one.exact else "reference:centred")
            assert metrics["value"] == pytest.approx(expected[name]["value"], rel=1e-9)
            for part, values in metrics["units"].items():
                wanted = expected[name]["units"][part]
                # A pool that lists all trajectories expects what others count.
                if part not in ("carrying", "rare", "rare_alone") or other in by_gram:
                    assert values == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("estimator", ["maxk", "order[0.5 0.0 -1.5]"])
def test_an_objective_without_the_exact_gradient_is_judged_against_its_own_centred_row(estimator):
    environment = integrated_bandit()
    objectives = [Method.parse(estimator, k=3).objective_at(4)]
    value = np.mean([part.value.item() for part in pool_of(environment, 2, 12, objectives).parts])
    environment.has_exact = False
    pool = pool_of(environment, 4000, 12, objectives)
    names = ("centred", "subloo", "group_mean")
    own, other, shorter = measured(pool, *(sampled(estimator, x, 5, 3) for x in names)).values()
    assert own["against"] == other["against"] == "reference:centred"
    assert [one["is_reference"] for one in (own, other, shorter)] == [True, False, False]
    assert own["scale"] == 1.0
    assert other["scale"] == pytest.approx(1.0, abs=0.1)
    assert shorter["scale"] == pytest.approx(1 - 3 / 5, abs=1e-9)
    assert own["value"] == pytest.approx(value, abs=0.05)
