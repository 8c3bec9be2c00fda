"""Sweep files: what is read, and the exact words for everything that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from sweep_files import Write, problems

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError, SpecError, shown
from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS
from maxk_lab.statistics.measures import claimable
from maxk_lab.sweeps.plan.plan import make_plan
from maxk_lab.sweeps.spec.claims.arithmetic import evaluate_value
from maxk_lab.sweeps.spec.load import load_spec, spec_to_yaml

SMALL_LINES = [
    "name: small",
    "seeds: [0, 1]",
    "environment: {name: bandit, arms: 4}",
    "policy: {}",
    "gradient:",
    "  instances: 2",
    "  pool: 16",
    "  grid: {estimator: maxk, baseline: [none, centred], n: [4, 8], k: 2}",
]


AS_WRITTEN = (
    "a sweep file is read as it is written and means the same everywhere; write the value itself, "
    "or give it with --set"
)


def with_line(number: int, line: str) -> str:
    """The small sweep with line `number`, from 1, replaced by any number of lines."""
    return "\n".join([*SMALL_LINES[: number - 1], *line.splitlines(), *SMALL_LINES[number:]]) + "\n"


def with_claim(claim: str) -> str:
    return "\n".join([*SMALL_LINES, "claims:", f"  - {claim}"]) + "\n"


def test_defaults_are_filled_in(small: str) -> None:
    spec = load_spec(small)
    assert spec.environment == {"name": "bandit", "arms": 4, "reward_shift": 0.0}
    assert spec.policy == {"init_std": 1.0, "dtype": "float64"}
    assert spec.gradient.stages == (0,)
    assert spec.gradient.warmup.model_dump() == {
        "batch": 32,
        "n": 16,
        "learning_rate": 1e-3,
        "clip": 1.0,
    }
    assert (spec.tracking.wandb, spec.tracking.project) == ("disabled", "maxk-lab")


def test_who_writes_a_block_tracking_asks_for_it(small: str) -> None:
    tracking = load_spec(small, ["tracking.entity=me", "tracking.tags=mine"]).tracking
    assert (tracking.wandb, tracking.entity, tracking.group) == ("offline", "me", None)
    assert tracking.tags == ("mine",)


def test_resolved_spec_reads_back_to_itself(write: Write) -> None:
    claim = (
        "{name: c, kind: equals, metric: scale, value: 1 - k/n, tolerance: 0.1, "
        "where: {n: 8, baseline: centred}}"
    )
    spec = load_spec(write(with_claim(claim)))
    assert load_spec(write(spec_to_yaml(spec))) == spec


BANDIT_KEYS = f"known: {', '.join(ENVIRONMENTS.get('bandit').settings.model_fields)}"
KNOWN_BASELINES = f"known: {', '.join(BASELINES.names())}"
KNOWN_ESTIMATORS = f"known: {', '.join(ESTIMATORS.names())}"
KNOWN_ENVIRONMENTS = ", ".join(ENVIRONMENTS.names())
KINDS = "unbiased, biased, equals, ratio, order, difference"
METRICS = ", ".join(claimable("equals"))
SEEDS = "must be how many seeds (1 to 1,000,000: from 0 on) or a list of them"
FOLDER = (
    "names the folder of results: at most 100 letters, digits, '.', '_' and '-', "
    "beginning with a letter or digit and not ending with '.'"
)


@pytest.mark.parametrize(
    ("line", "text", "expected"),
    [
        (1, "", "1:1: name: is missing"),
        (1, "name: ../up", f"1:7: name: {FOLDER}, got '../up'"),
        (1, "name: 5", "1:7: name: must be a text, got 5"),
        (2, "sedes: [0]\nseeds: [0]", "2:1: sedes: unknown key 'sedes' (did you mean seeds?)"),
        (2, "seeds: []", "2:8: seeds: must not be empty"),
        (2, "seeds: [1, -2]", "2:12: seeds.1: must be at least 0, got -2"),
        (2, "seeds: [1, 0.5]", "2:12: seeds.1: must be a whole number, got 0.5"),
        (2, "seeds: [1, yes]", "2:12: seeds.1: must be a whole number, got True"),
        (2, "seeds: [3, 1, 3]", "2:8: seeds: must be distinct, got 3 more than once"),
        (2, "seeds:", f"2:7: seeds: {SEEDS}, got nothing"),
        (2, "seeds: 0", f"2:8: seeds: {SEEDS}, got 0; for the one seed 0 write [0]"),
        (2, "seeds: -3", f"2:8: seeds: {SEEDS}, got -3"),
        (2, "seeds: yes", f"2:8: seeds: {SEEDS}, got True"),
        (2, "seeds: 2.0", f"2:8: seeds: {SEEDS}, got 2.0"),
        (2, "seeds: two", f"2:8: seeds: {SEEDS}, got 'two'"),
        (
            2,
            "seeds: 2000000",
            f"2:8: seeds: {SEEDS}, got 2000000; for the one seed 2000000 write [2000000]",
        ),
        (2, "seeds: [0]\nseeds: [1]", "3:1: seeds: key 'seeds' is given twice, first on line 2"),
        (
            3,
            "environment: bandit",
            "3:14: environment: must be a mapping of keys to values, got 'bandit'",
        ),
        (
            3,
            "environment: {arms: 4}",
            f"3:14: environment.name: is missing; one of {KNOWN_ENVIRONMENTS}",
        ),
        (3, "environment: {name: 4}", "3:21: environment.name: must be a text, got 4"),
        (
            3,
            "environment: {name: bandits}",
            "3:21: environment.name: unknown environment 'bandits' (did you mean "
            f"bandit?); known: {KNOWN_ENVIRONMENTS}",
        ),
        (
            3,
            "env: {name: bandit}\nenvironment: {name: bandit}",
            "3:1: env: unknown key 'env' (did you mean environment?)",
        ),
        (4, "policy: {type: t}", "4:10: policy.type: unknown key 'type' (did you mean name?)"),
        (
            8,
            "  grid: {estimator: maxk, baseline: none, n: 4, k: 2, K: 2}",
            "8:55: gradient.grid.K: unknown key 'K' (did you mean k?)",
        ),
        (
            3,
            "environment: {name: bandit, arm: 4}",
            "3:29: environment.arm: unknown key 'arm' (did you mean arms?)",
        ),
        (
            3,
            "environment: {name: bandit, z: 4}",
            f"3:29: environment.z: unknown key 'z'; {BANDIT_KEYS}",
        ),
        (
            3,
            "environment: {name: bandit, arms: 1}",
            "3:35: environment.arms: must be at least 2, got 1",
        ),
        (
            3,
            "environment: {name: bandit, arms: x}",
            "3:35: environment.arms: must be a whole number, got 'x'",
        ),
        (
            4,
            "policy: {name: tabular, z: 4}",
            "4:25: policy.z: unknown key 'z'; known: init_std, dtype, "
            "success_probability, name, checkpoint",
        ),
        (
            4,
            "policy: {name: tabula}",
            "4:16: policy.name: bandit takes no policy 'tabula' (did you mean tabular?); "
            "known: tabular",
        ),
        (
            4,
            "policy: {name: attention}",
            "4:16: policy.name: bandit takes no policy 'attention'; known: tabular",
        ),
        (
            4,
            "policy: {name: [tabular]}",
            "4:16: policy.name: bandit takes no policy ['tabular']; known: tabular",
        ),
        (
            4,
            "policy: {dtype: float46}",
            "4:17: policy.dtype: must be one of float32, float64, got 'float46' "
            "(did you mean float64?)",
        ),
        (4, "policy: [1]", "4:9: policy: must be a mapping of keys to values, got [1]"),
        (6, "  stages: [0, 5, 5]", "6:11: gradient.stages: must be distinct, got 5 more than once"),
        (6, "  stages: [0, -5]", "6:15: gradient.stages.1: must be at least 0, got -5"),
        (6, "  instances: 0", "6:14: gradient.instances: must be at least 1, got 0"),
        (
            6,
            "  instance: 3",
            "6:3: gradient.instance: unknown key 'instance' (did you mean instances?)",
        ),
        (6, "  warmup: {clip: 0}", "6:18: gradient.warmup.clip: must be greater than 0, got 0"),
        (
            6,
            "  warmup: {clip: .inf}",
            "6:18: gradient.warmup.clip: must be a finite number, got inf",
        ),
        (6, "  warmup: {clip: x}", "6:18: gradient.warmup.clip: must be a number, got 'x'"),
        (
            6,
            "  warmup: {learnin_rate: 1}",
            "6:12: gradient.warmup.learnin_rate: unknown key 'learnin_rate' (did you mean "
            "learning_rate?)",
        ),
        (
            7,
            "  pool: 15",
            "7:9: gradient.pool: must be at least 16, two replicates of the largest n = 8, got 15",
        ),
        (7, "  pool: many", "7:9: gradient.pool: must be a whole number, got 'many'"),
        (8, "", "6:3: gradient.grid: is missing"),
        (
            8,
            "  grid: {estimator: maxk, baseline: [none, sublo], n: 4, k: 2}",
            "8:44: gradient.grid.baseline.1: unknown baseline 'sublo' (did you mean subloo?); "
            f"{KNOWN_BASELINES}",
        ),
        (
            8,
            "  grid: {estimator: mxk, baseline: none, n: 4, k: 2}",
            "8:21: gradient.grid.estimator: unknown estimator 'mxk' (did you mean maxk?); "
            f"{KNOWN_ESTIMATORS}",
        ),
        (
            8,
            "  grid: {estimator: [maxk, rloo], baseline: none, n: 4, k: 2}",
            "8:28: gradient.grid.estimator.1: unknown estimator 'rloo': rloo is a baseline; take "
            "estimator reinforce with baseline rloo",
        ),
        (
            8,
            "  grid: {estimator: maxk, baseline: none, n: 0, k: 2}",
            "8:46: gradient.grid.n: must be at least 1, got 0",
        ),
        (
            8,
            "  grid: {estimator: maxk, baseline: [], n: 4, k: 2}",
            "8:37: gradient.grid.baseline: must not be empty",
        ),
        (
            8,
            "  grid: {estimator: maxk, baseline: subloo, n: 4, k: 1}",
            "8:54: gradient.grid.k: estimator=maxk baseline=subloo n=4 k=1 cannot run: "
            "subloo needs 2 <= K <= n, got K = 1 and n = 4",
        ),
        (
            8,
            "  grid: {estimator: maxk, baseline: [subloo, centred], n: 4, k: 5}",
            "8:9: gradient.grid: none of its 2 points can run: maxk needs 1 <= K <= n, "
            "got K = 5 and n = 4",
        ),
        (8, f"{SMALL_LINES[7]}\ntraining: {{steps: 3}}", "9:11: training.grid: is missing"),
        (
            8,
            f"{SMALL_LINES[7]}\ntracking: {{wandb: off}}",
            "9:19: tracking.wandb: must be one of offline, online, disabled; YAML reads "
            "on, off, yes and no as "
            "true and false, write disabled instead",
        ),
        (
            8,
            f"{SMALL_LINES[7]}\ntracking: {{wandb: onlin}}",
            "9:19: tracking.wandb: must be one of offline, online, disabled, got "
            "'onlin' (did you mean online?)",
        ),
        (
            8,
            f"{SMALL_LINES[7]}\ntracking: {{entity: we/me}}",
            "9:20: tracking.entity: must have 1 to 128 characters and none of / \\ # ? % :, got "
            "'we/me'",
        ),
        (
            8,
            f"{SMALL_LINES[7]}\ntracking: {{tags: {'x' * 65}}}",
            f"9:18: tracking.tags: must have 1 to 64 characters, got {shown('x' * 65)}",
        ),
    ],
)
def test_one_problem(write: Write, line: int, text: str, expected: str) -> None:
    assert problems(write(with_line(line, text))) == [f"sweep.yaml:{expected}"]


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (
            "{name: c, kind: unbiased, where: {baseline: centred}}",
            "10:5: claims.0.detectable: is missing",
        ),
        ("{name: c, detectable: 1}", f"10:5: claims.0.kind: is missing; one of {KINDS}"),
        (
            "{name: c, kind: equal}",
            f"10:21: claims.0.kind: must be one of {KINDS}, got 'equal' (did you mean equals?)",
        ),
        (
            "{name: c, kind: equals, metric: cosin, value: 1, tolerance: 1}",
            f"10:37: claims.0.metric: must be one of {METRICS}, got 'cosin' (did you mean cosine?)",
        ),
        (
            "{name: c, kind: equals, metric: scale, value: 1 - q, tolerance: 1}",
            "10:51: claims.0.value: must be a number or arithmetic in n and k such as '1 - k/n', "
            "got '1 - q'",
        ),
        (
            "{name: c, kind: equals, metric: scale, value: 1/(n-4), tolerance: 1}",
            "10:51: claims.0.value: '1/(n-4)' divides by zero at n = 4, k = 2",
        ),
        (
            "{name: c, kind: unbiased, detectable: 1, where: {seed: 1}}",
            "10:54: claims.0.where.seed: unknown key 'seed'; known: estimator, baseline, n, k, "
            "stage, setting",
        ),
        (
            "{name: c, kind: unbiased, detectable: 1, where: {n: 16}}",
            "10:53: claims.0.where: matches no point of the grid that can run",
        ),
        (
            "{name: c, kind: ratio, metric: variance, of: {baseline: none}, over: "
            "{baseline: subloo}, at_most: 1}",
            "10:50: claims.0.of: matches no two points of the grid that can run",
        ),
        (
            "{name: c, kind: ratio, metric: variance, of: {baseline: none}, "
            "over: {baseline: centred}}",
            "10:5: claims.0: needs exactly one of at_least and at_most",
        ),
        (
            "{name: c, kind: ratio, metric: variance, of: {baseline: none}, over: {n: 8}, "
            "at_most: 1}",
            "10:5: claims.0: over must give every axis that of gives, "
            "e.g. of: {baseline: subloo}, over: {baseline: none}",
        ),
        (
            "{name: c, kind: unbiased, detectable: 1}\n  - {name: c, kind: unbiased, "
            "detectable: 1}",
            "11:12: claims.1.name: two claims are named 'c'",
        ),
        ("just words", "10:5: claims.0: must be a mapping of keys to values, got 'just words'"),
    ],
)
def test_one_problem_of_a_claim(write: Write, claim: str, expected: str) -> None:
    assert problems(write(with_claim(claim))) == [f"sweep.yaml:{expected}"]


def test_a_misspelt_kind_of_a_claim_is_told_where_it_stands(write: Write) -> None:
    assert problems(write(with_claim("{name: c, kin: unbiased, detectable: 1}"))) == [
        f"sweep.yaml:10:5: claims.0.kind: is missing; one of {KINDS}",
        "sweep.yaml:10:15: claims.0.kin: unknown key 'kin' (did you mean kind?)",
    ]


def test_all_problems_at_once_in_the_order_of_the_file(write: Write) -> None:
    text = (
        "sedes: [0]\nenvironment: {name: bandit, arms: 1}\ngradient:\n  instances: 0\n  pool: 4\n"
    )
    path = write(f"{text}  grid: {{estimator: maxk, baseline: subloo, n: 4, k: 1}}\n")
    assert [problem.split(": ")[1] for problem in problems(path)] == [
        "name", "sedes", "seeds", "environment.arms", "gradient.instances", "gradient.pool",
        "gradient.grid.k",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1:1: (file): is empty; a sweep needs name, seeds, environment and a study"),
        ("# nothing\n",
         "1:1: (file): is empty; a sweep needs name, seeds, environment and a study"),
        ("- a\n- b\n", "1:1: (file): must be a mapping of keys to values, got ['a', 'b']"),
        (
            "name: a\nseeds: [0\nenvironment: {}\n",
            "3:12: (file): not YAML: while parsing a flow sequence, expected ',' or ']', "
            "but got ':'",
        ),
        ("name: a\n\tseeds: 1\n",
         "2:1: (file): not YAML: while scanning for the next token, found character "
         "'\\t' that cannot start any token"),
        ("name: *who\n", "1:7: (file): not YAML: found undefined alias 'who'"),
        ("name: &a [*a]\n", "1:7: (file): is nested in more than 40 levels"),
        ("? [a]\n: 1\n", "1:3: (file): not YAML: a key must be a plain text"),
        ("name: a\x00b\n", "1:1: (file): not YAML: character '\\x00' is not allowed"),
        ("a: 1\n---\nb: 2\n", "2:1: (file): not YAML: expected a single document in the stream, "
         "but found another document"),
    ],
)  # fmt: skip
def test_files_that_are_no_mapping(write: Write, text: str, expected: str) -> None:
    assert problems(write(text)) == [f"sweep.yaml:{expected}"]


def test_files_that_cannot_be_read(write: Write, tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"^absent.yaml does not exist$"):
        load_spec("absent.yaml" if write("") else "")
    with pytest.raises(LabError, match=r"is a folder; give the sweep file itself$"):
        load_spec(tmp_path)
    with pytest.raises(LabError, match=r"^sweep.yaml is not a text file in UTF-8 \(byte 7\)$"):
        load_spec(write(b"name: \xff"))


@pytest.mark.parametrize("text", ["${gradient.instances}", "a ${oc.env:HOME}", "'${'"])
def test_no_value_points_to_another(write: Write, text: str) -> None:
    told = f"sweep.yaml:7:9: (file): a text may not hold ${{: {AS_WRITTEN}"
    assert problems(write(with_line(7, f"  pool: {text}"))) == [told]


def test_overrides_win_and_keep_the_rest(small: str) -> None:
    overrides = ["gradient.pool=64", "seeds=[5]", "gradient.grid.n.0=2", "gradient.grid.n[1]=16"]
    spec = load_spec(
        small, [*overrides, "gradient.warmup={learning_rate: 1e-2}", "tracking.wandb=disabled"]
    )
    assert (spec.gradient.pool, spec.seeds, spec.gradient.grid[0].n) == (64, (5,), (2, 16))
    assert (spec.gradient.warmup.learning_rate, spec.gradient.warmup.clip) == (0.01, 1.0)
    assert spec.tracking.wandb == "disabled"
    assert spec.environment["arms"] == 4


def test_shifted_seeds_are_the_only_change_and_stay_in_the_written_spec(write: Write) -> None:
    path = write(with_line(2, "seeds: [0, 7]"))
    plain, shifted = load_spec(path), load_spec(path, seeds_shifted_by=100)
    assert shifted.seeds == (100, 107)
    assert shifted.model_copy(update={"seeds": plain.seeds}) == plain
    assert load_spec(write(spec_to_yaml(shifted))).seeds == (100, 107)
    assert load_spec(path, ["seeds=[5]"], seeds_shifted_by=100).seeds == (105,)
    assert load_spec(path, ["seeds=2"], seeds_shifted_by=100).seeds == (100, 101)


def test_a_number_of_seeds_is_those_from_0_on_and_makes_the_same_cells(write: Write) -> None:
    listed = load_spec(write(with_line(2, "seeds: [0, 1, 2]")))
    counted = load_spec(write(with_line(2, "seeds: 3")))
    assert counted == listed == load_spec(write(with_line(2, "seeds: [7]")), ["seeds=3"])
    assert [c.id for c in make_plan(counted).cells] == [c.id for c in make_plan(listed).cells]
    assert "seeds:\n- 0\n- 1\n- 2\n" in spec_to_yaml(counted)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("seeds: [0, one]", "2:12: seeds.1: must be a whole number, got 'one'"),
        ("seeds: true", f"2:8: seeds: {SEEDS}, got True"),
        ("seeds: [0, -5]", "2:12: seeds.1: must be at least 0, got -5"),
        ("seeds: [3, 3]", "2:8: seeds: must be distinct, got 103 more than once"),
        ("seeds:", f"2:7: seeds: {SEEDS}, got nothing"),
        ("description: none", "1:1: seeds: is missing"),
        ("seeds: [9223372036854775807]", "2:9: seeds.0: must be less than 9.22337e+18"),
    ],
)
def test_seeds_that_cannot_be_shifted_are_told(write: Write, line: str, expected: str) -> None:
    path = write(with_line(2, line))
    with pytest.raises(SpecError) as error:
        load_spec(path, seeds_shifted_by=100)
    assert str(error.value).startswith(f"{path}:{expected}")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("gradient.pool=few", "1:15: gradient.pool: must be a whole number, got 'few'"),
        ("gradient.pol=64", "1:1: gradient.pol: unknown key 'pol' (did you mean pool?)"),
        ("environment.arms=1", "1:18: environment.arms: must be at least 2, got 1"),
        ("seeds.7=1", "1:1: seeds.7: cannot be set: list index out of range"),
        ("gradient.grid.baseline=[a",
         "1:24: gradient.grid.baseline: not YAML: while parsing a flow sequence, "
         "expected ',' or ']', but got '<stream end>'"),
        ("gradient.pool=${seeds}", "1:15: gradient.pool: a text may not hold ${: " + AS_WRITTEN),
        ("gradient.pool", "1:1: gradient.pool: must read key=value, got 'gradient.pool'"),
        ("=3", "1:1: (option): must read key=value, got '=3'"),
        ("gradient.grid={baselin: none}", "1:15: gradient.grid.baselin: unknown key 'baselin' "
         "(did you mean baseline?)"),
    ],
)  # fmt: skip
def test_problems_of_overrides_say_so(small: str, override: str, expected: str) -> None:
    assert problems(small, override) == [f"--set:{expected}"]


def test_second_override_is_line_two(small: str) -> None:
    assert problems(small, "gradient.pool=64", "gradient.instances=0") == [
        "--set:2:20: gradient.instances: must be at least 1, got 0"
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1.0),
        (0.5, 0.5),
        ("1 - k/n", 0.75),
        ("-(n + k) * 2 / 4", -5.0),
        ("1e-3", 0.001),
        ("n ** k", 64.0),
    ],
)
def test_values_of_claims(value: float | str, expected: float) -> None:
    assert evaluate_value(value, n=8, k=2) == expected


@pytest.mark.parametrize(
    "value", ["n // k", "__import__('os')", "n if k else 1", "", "1 -", "n.real", "'a' * 9", "True"]
)
def test_values_of_claims_are_only_arithmetic(value: str) -> None:
    with pytest.raises(LabError, match="must be a number or arithmetic in n and k"):
        evaluate_value(value, n=8, k=2)
