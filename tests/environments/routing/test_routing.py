"""RL4CO's environments: adapter, sizes, repaired defects, and those that a user makes."""

from __future__ import annotations

import math
import sys
from typing import get_args

import pytest
import torch
from rl4co.envs import TSPEnv, get_env
from small_environments import make, parameters_of, policy_of

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.routing.problems import draw_instances, make_rl4co
from maxk_lab.environments.routing.rows import MAX_TRAJECTORIES, MTVRP_PRESETS, ROUTING
from maxk_lab.errors import LabError
from maxk_lab.policies.catalogue import fresh_policy

every_row = pytest.mark.parametrize("row", ROUTING, ids=lambda row: row.name)


@pytest.fixture(scope="module")
def tsp5():
    return make("tsp", num_loc=5)


def test_every_trajectory_belongs_to_its_own_instance_as_in_rl4co(tsp5):
    policy, instances = tsp5.policy(0), tsp5.instances(4, 1)
    copy = instances.clone()
    rollouts = tsp5.rollout(policy, instances, 6, seed=2)
    for b in range(4):
        locs = instances["locs"][b]
        for i in range(6):
            tour = locs[rollouts.actions[b, i]]
            length = (tour - tour.roll(-1, 0)).norm(dim=-1).sum()
            assert rollouts.rewards[b, i].item() == pytest.approx(-length.item(), abs=1e-12)
    actions = rollouts.actions.transpose(0, 1).reshape(24, -1)
    how = {"actions": actions, "num_samples": 6, "return_entropy": True}
    with torch.no_grad():
        out = policy(instances.clone(), tsp5.env, phase="train", **how)
    torch.testing.assert_close(out["entropy"].view(6, 4).T, rollouts.entropy)
    torch.testing.assert_close(out["reward"].view(6, 4).T, rollouts.rewards)
    # Instances are not changed by use.
    assert set(instances.keys()) == set(copy.keys())
    assert all(torch.equal(instances[key], copy[key]) for key in set(copy.keys()))


def largest(row):
    """Parameters of the largest setting that the row calls enumerable."""
    fewer = {"n_sets_to_choose": 2} if row.name == "mcp" else {}
    parameters = parameters_of(row.name, **row.small) | fewer
    sizes = [n for n in range(2, 60) if row.enumerable(parameters | {row.size_parameter: n})]
    return (
        parameters
        | {row.size_parameter: max(sizes)}
        | ({"num_agents": 9} if row.name == "mtsp" else {})
    )


@pytest.mark.slow
@every_row
def test_the_largest_enumerable_size_is_listed_whole(row):
    environment = make(**largest(row))
    assert row.exact_when
    listed, rewards = environment.enumerate(environment.instances(1, 4))
    assert 1 < len(listed) <= MAX_TRAJECTORIES
    assert rewards.isfinite().all()
    if len(listed) > 4_000:
        assert len(listed.unique(dim=0)) == len(listed)
        return
    log_probs = environment.log_probs(
        environment.policy(0), environment.instances(1, 4), listed.unsqueeze(0)
    )
    assert log_probs.exp().sum().item() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("agents", [1, 2, 9])
def test_salesmen_have_a_tour_for_every_order_and_every_way_to_cut_it(agents):
    environment = make("mtsp", num_loc=6, num_agents=agents)
    listed, _ = environment.enumerate(environment.instances(1, 0))
    assert len(listed) == math.factorial(5) * sum(
        math.comb(4, cuts) for cuts in range(min(agents, 5))
    )


@every_row
def test_sizes_that_cannot_be_are_refused(row):
    def refusal(heads=2, **changes):
        return row.refusal(parameters_of(row.name, **changes), policy_of(row.name, num_heads=heads))

    assert refusal() is None
    assert "must be a multiple of 8" in refusal(heads=5)
    assert "cannot load the env 'nowhere:make': No module named" in refusal(env="nowhere:make")
    if row.chosen:
        assert refusal(**{row.chosen: 21}).startswith(f"{row.chosen} must be at most")
    if row.name == "pdp":
        assert "must be even" in refusal(num_loc=7)


def test_the_length_of_the_longest_tour_does_not_depend_on_the_trajectories_beside_it():
    environment = make("mtsp", num_loc=9, num_agents=4)
    policy, instances = environment.policy(0), environment.instances(4, 1)
    rollouts = environment.rollout(policy, instances, 30, seed=2)
    assert rollouts.lengths.unique().numel() > 1
    for b in range(4):
        locs = instances["locs"][b]
        for i in range(30):
            longest, length, last = 0.0, 0.0, 0
            for node in [*rollouts.actions[b, i, : rollouts.lengths[b, i]].tolist(), 0]:
                length += (locs[node] - locs[last]).norm().item()
                last = node
                if node == 0:
                    longest, length = max(longest, length), 0.0
            assert rollouts.rewards[b, i].item() == pytest.approx(-longest, abs=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_vehicle_of_the_multi_task_problem_may_be_full(dtype):
    """Loads in whole numbers say so, whatever their fractions round to."""
    environment = make("mtvrp", dtype=dtype)
    instances = environment.instances(2_000, 1)
    capacity = instances["capacity_original"]
    whole = (instances["demand_linehaul"] * capacity).round()
    state, load = instances.clone(), torch.zeros_like(capacity)
    full = 0
    for _ in range(6):
        customers = state["action_mask"].clone()
        expected = ~state["visited"] & (load + whole <= capacity)
        assert torch.equal(customers[:, 1:], expected[:, 1:])
        full += int((expected & (load + whole == capacity))[:, 1:].sum())
        customers[:, 0] = ~customers[:, 1:].any(1)
        action = customers.long().argmax(1)
        load = torch.where(action[:, None] == 0, 0, load + whole.gather(1, action[:, None]))
        state.set("action", action)
        state = environment.env.step(state)["next"]
    assert full > 100


def test_the_weight_covered_is_that_of_the_union_of_the_chosen_sets():
    environment = make("mcp")
    instances = environment.instances(3, 1)
    rollouts = environment.rollout(environment.policy(0), instances, 5, seed=2)
    for b in range(3):
        sets, weights = instances["membership"][b].long(), instances["weights"][b].tolist()
        for chosen, reward in zip(rollouts.actions[b], rollouts.rewards[b].tolist(), strict=True):
            covered = set(sets[chosen].flatten().tolist()) - {0}
            assert reward == sum(weights[item - 1] for item in covered)


def test_coverage_instances_are_those_of_rl4co_and_small_ones_can_be_drawn():
    from rl4co.envs import get_env

    parameters = {"num_sets": 20, "num_items": 40, "n_sets_to_choose": 5}
    theirs = get_env("mcp", generator_params=parameters, check_solution=False)
    ours = make_rl4co("mcp", parameters)
    torch.manual_seed(3)
    expected = theirs.reset(batch_size=[30])
    drawn = draw_instances(ours, 30, 3, torch.float32)
    assert expected["membership"].shape[-1] == 15
    for key in ("membership", "weights", "action_mask"):
        assert torch.equal(drawn[key], expected[key])
    # One set of the largest size among six is a matter of luck.
    assert {
        make("mcp", num_sets=6).instances(1, seed)["membership"].shape for seed in range(8)
    } == {(1, 6, 15)}


@pytest.mark.parametrize("name", ["pdp", "mtsp", "mcp", "flp"])
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


@pytest.mark.parametrize("preset", ["all", "single_feat_otw", "cvrp", "vrptw", "ovrpbltw"])
def test_variants_of_the_multi_task_problem_run(preset):
    from rl4co.envs.routing.mtvrp.generator import VARIANT_GENERATION_PRESETS

    assert tuple(VARIANT_GENERATION_PRESETS) == get_args(MTVRP_PRESETS)
    environment = make("mtvrp", num_loc=4, variant_preset=preset)
    policy, instances = environment.policy(0), environment.instances(5, 1)
    rollouts = environment.rollout(policy, instances, 3, seed=2)
    assert (rollouts.rewards < 0).all()
    found = environment.log_probs(policy, instances, rollouts.actions)
    assert torch.equal(found, rollouts.log_probs)
    listed, _ = environment.enumerate(instances[2:3])
    total = environment.log_probs(policy, instances[2:3], listed.unsqueeze(0)).exp().sum()
    assert total.item() == pytest.approx(1.0, abs=1e-12)
    assert instances["open_route"].all() == preset.startswith("o")


@every_row
def test_forced_starts_are_feasible_where_the_row_says_so(row):
    """For any number of them.

    The others have starts out of reach or beyond the last action. mtsp's may be the depot in RL4CO,
    never here.
    """
    env = make_rl4co(row.name, parameters_of(row.name))
    instances = draw_instances(env, 100, 3, torch.float32)
    mask = instances["action_mask"]
    feasible = True
    for n in (1, 3, env.get_num_starts(instances), 2 * mask.shape[1] + 1):
        torch.manual_seed(0)
        starts = env.select_start_nodes(instances, n).view(n, len(mask))
        inside = bool((starts < mask.shape[1]).all())
        feasible &= inside and bool(mask.gather(1, starts.T).all())
    assert row.name == "mtsp" or feasible == ("multistart" in row.supports)


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


def make_another(**generator):
    return get_env("op", generator_params=generator)


def make_nothing(**generator):
    return None


@pytest.fixture(autouse=True)
def functions_in_place(monkeypatch):
    monkeypatch.setitem(sys.modules, "own_env", sys.modules[__name__])


def test_arguments_of_a_generator_and_one_that_it_does_not_have():
    small, large = (make("cvrp", num_loc=5, generator={"capacity": c}) for c in (10, 1000))
    demands = [each.instances(20, 0)["demand"] for each in (small, large)]
    torch.testing.assert_close(demands[0], 100 * demands[1])
    with pytest.raises(LabError, match=r"no argument 'capacty' \(did you mean capacity\?\)"):
        make("cvrp", num_loc=5, generator={"capacty": 10})


def test_an_environment_of_the_users_own_is_sampled_as_any_other():
    environment = make("tsp", num_loc=5, env="own_env:make_env")
    policy, instances = environment.policy(0), environment.instances(4, 0)
    rollouts = environment.rollout(policy, instances, 6, seed=1)
    assert float(instances["locs"].max()) <= 0.1
    assert float(rollouts.rewards.min()) > -0.75
    found = environment.log_probs(policy, instances, rollouts.actions)
    torch.testing.assert_close(found.detach(), rollouts.log_probs)
    # What is not known of it is said.
    assert not environment.enumerable
    with pytest.raises(LabError, match="optima of an environment of your own are not known"):
        environment.optimum_method(instances, "auto")
    row = ENVIRONMENTS.get("tsp")
    assert not row.reward_range({"num_loc": 5, "env": "own_env:make_env"}).bounded


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("own_env:make_another", "must make an environment of RL4CO named 'tsp', got one named"),
        ("own_env:make_nothing", "named 'tsp', got NoneType"),
        ("own_env:make_no", "cannot load the env 'own_env:make_no'"),
    ],
)
def test_functions_that_make_no_such_environment(path, message):
    with pytest.raises(LabError, match=message):
        make("tsp", num_loc=5, env=path)
