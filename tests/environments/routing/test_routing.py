"""RL4CO's environments: adapter, sizes, and those that a user makes."""

from __future__ import annotations

import sys

import pytest
import torch
from rl4co.envs import TSPEnv, get_env
from small_environments import make, parameters_of, policy_of

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.routing.problems import draw_instances, make_rl4co
from maxk_lab.environments.routing.rows import ROUTING
from maxk_lab.errors import LabError
from maxk_lab.policies.catalogue import fresh_policy

every_row = pytest.mark.parametrize("row", ROUTING, ids=lambda row: row.name)


@pytest.mark.slow
@every_row
def test_the_largest_enumerable_size_is_listed_whole(row):
    size = {row.size_parameter: row.enumerable_up_to}
    environment = make(row.name, **size)
    assert row.enumerable(size)
    instances = environment.instances(1, 4)
    listed, rewards = environment.enumerate(instances)
    assert 1 < len(listed) <= 50_000
    assert len(listed.unique(dim=0)) == len(listed)
    assert rewards.isfinite().all()
    if len(listed) <= 4_000:
        log_probs = environment.log_probs(environment.policy(0), instances, listed.unsqueeze(0))
        assert log_probs.exp().sum().item() == pytest.approx(1.0, abs=1e-12)


@every_row
def test_sizes_that_cannot_be_are_refused(row):
    def refusal(heads=2, **changes):
        return row.refusal(parameters_of(row.name, **changes), policy_of(row.name, num_heads=heads))

    assert refusal() is None
    assert "must be a multiple of 8" in refusal(heads=5)
    assert "cannot load the env 'nowhere:make': No module named" in refusal(env="nowhere:make")
    if row.name == "pdp":
        assert "must be even" in refusal(num_loc=7)


@pytest.mark.parametrize("name", ["tsp", "pdp"])
def test_repaired_policies_are_those_of_rl4co(name):
    """The same weights under the same names, and the same log-probabilities in float32."""
    from rl4co.models.zoo.am.policy import AttentionModelPolicy

    environment = make(name, dtype="float32")
    torch.manual_seed(5)
    sizes = {key: value for key, value in policy_of(name).items() if key != "dtype"}
    theirs = AttentionModelPolicy(
        env_name=name, normalization="instance", use_graph_context=False, **sizes
    )
    ours = environment.policy(5)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for a, b in zip(ours.state_dict().values(), theirs.state_dict().values()):
        assert torch.equal(a, b)
    instances = environment.instances(3, 1)
    actions = environment.rollout(ours, instances, 4, seed=2).actions
    torch.testing.assert_close(
        environment.log_probs(theirs.eval(), instances, actions),
        environment.log_probs(ours, instances, actions),
    )


@every_row
def test_forced_starts_are_feasible_where_the_row_says_so(row):
    """Other rows have starts out of reach or beyond the last action."""
    env = make_rl4co(row.name, parameters_of(row.name))
    instances = draw_instances(env, 100, 3, torch.float32)
    mask = instances["action_mask"]
    feasible = []
    for n in (1, 3, env.get_num_starts(instances), 2 * mask.shape[1] + 1):
        torch.manual_seed(0)
        starts = env.select_start_nodes(instances, n).view(n, len(mask))
        inside = bool((starts < mask.shape[1]).all())
        feasible.append(inside and bool(mask.gather(1, starts.T).all()))
    assert all(feasible) == ("multistart" in row.supports)


@every_row
def test_an_environment_and_its_policy_are_made_without_a_word(row, capsys, caplog):
    env = make_rl4co(row.name, parameters_of(row.name, **row.small))
    fresh_policy({"name": "attention"} | policy_of(row.name), 0, environment=row.name)
    draw_instances(env, 2, 0, torch.float32)
    assert not caplog.records
    assert capsys.readouterr() == ("", "")


class Clustered(TSPEnv):
    """Cities in one corner of the square."""

    def _reset(self, td=None, batch_size=None):
        return super()._reset(td.set("locs", td["locs"] / 10), batch_size)


def make_env(**generator):
    assert generator == {"num_loc": 5}
    return Clustered(generator_params=generator, check_solution=False)


def make_facilities(**generator):
    return get_env("flp", generator_params=generator | {"to_choose": generator["num_loc"] // 2})


def make_nothing(**generator):
    return None


@pytest.fixture(autouse=True)
def functions_in_place(monkeypatch):
    monkeypatch.setitem(sys.modules, "own_env", sys.modules[__name__])


def test_arguments_reach_the_generator():
    small, large = (make("cvrp", num_loc=5, generator={"capacity": c}) for c in (10, 1000))
    demands = [each.instances(20, 0)["demand"] for each in (small, large)]
    torch.testing.assert_close(demands[0], 100 * demands[1])


def test_an_environment_of_the_users_own_is_sampled_as_any_other():
    parameters = {"num_loc": 5, "env": "own_env:make_env"}
    environment = make("tsp", **parameters)
    policy, instances = environment.policy(0), environment.instances(4, 0)
    rollouts = environment.rollout(policy, instances, 6, seed=1)
    assert float(instances["locs"].max()) <= 0.1
    assert float(rollouts.rewards.min()) > -0.75
    log_probs = environment.log_probs(policy, instances, rollouts.actions)
    torch.testing.assert_close(log_probs.detach(), rollouts.log_probs)
    # Nothing else is known of it.
    assert not environment.enumerable
    with pytest.raises(LabError, match="optima of an environment of your own are not known"):
        environment.optimum_method(instances, "auto")
    row = ENVIRONMENTS.get("tsp")
    assert not row.reward_range(parameters).bounded
    assert row.in_words(parameters) == ""
    with pytest.raises(LabError, match="must make an environment of RL4CO, got NoneType"):
        make("tsp", num_loc=5, env="own_env:make_nothing")


def test_a_users_environment_may_be_of_a_problem_without_a_row():
    """Its policy has the embeddings of that problem, and each trajectory its own encoding."""
    environment = make("tsp", num_loc=6, env="own_env:make_facilities")
    policy, instances = environment.policy(0), environment.instances(3, 0)
    rollouts = environment.rollout(policy, instances, 4, seed=1)
    assert rollouts.lengths.eq(3).all()
    log_probs = environment.log_probs(policy, instances, rollouts.actions)
    torch.testing.assert_close(log_probs.detach(), rollouts.log_probs)
    listed = torch.cartesian_prod(*[torch.arange(6)] * 3)
    distinct = torch.tensor([len(set(row.tolist())) == 3 for row in listed])
    every = environment.log_probs(policy, instances[:1], listed[distinct].unsqueeze(0))
    assert every.exp().sum().item() == pytest.approx(1.0, abs=1e-12)
    forced = make("tsp", num_loc=3, env="own_env:make_facilities").forced_starts()
    with pytest.raises(LabError, match="leaves nothing to decide"):
        forced.rollout(policy, forced.instances(3, 1), 2, seed=0)
