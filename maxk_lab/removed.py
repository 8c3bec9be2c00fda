"""Removed features, each with a message about its replacement; until version 0.2."""

from __future__ import annotations

from collections.abc import Mapping

_BACKEND = "use --set execution.backend=NAME"
_PRUNE = "delete the folder cache/ of a run at any time, and a run by rm -r"
_RUNS = "maxk-lab show lists the runs"
_PROFILE = "write the settings into a YAML file and use --execution FILE"
_NO_EXECUTION = "leave it out; maxk-lab run FILE --execution FILE checks both before it starts"
_REUSE = "leave it out: a run uses no records of other runs"
_SBATCH = "sbatch experiments/slurm.sbatch SWEEP.yaml starts drivers of the run as jobs of Slurm"
_MAKE = 'make it by a function of your own, as in {name: tsp, env: "mine:make_env"}'
_ANATOMY = "use variance; its Hoeffding terms are no longer computed"
_ORDER = "use order[ALPHA_1 ... ALPHA_K], the weights of K rewards from worst to best"
_FORMS = ("median", "trimmed_mean", "cvar_lower", "l_statistic")
_PARTS_OF_VARIANCE = ("first", "cross", "baseline", "interaction")
_ANCHOR = "leave it out: the anchor is the initial policy"
_TASK = "use modular (rewards 0 and 1) or deceptive (graded)"
_REWARD = "use another one"
_WANDB = "use the environment variable WANDB_{}"

# A key of a sweep file, by its path without the indices of lists; `training.grid.with` is a mirror.
KEYS: Mapping[str, str] = {
    "training.kl.reference": _ANCHOR,
    "training.kl.reference_every": _ANCHOR,
    "training.loss.dual_clip": "leave it out: epsilon_low and epsilon_high clip the ratio",
    "training.min_gap_scale": "use weight_normalization",
    "training.reward_order": "leave it out: rewards are clipped, then given their KL penalty",
    "training.truncated": "leave it out: truncated samples count; a reward may be None",
    "environment.top_p": "the policy samples from its whole distribution; use temperature",
    **dict.fromkeys(
        (
            *("execution.partition", "execution.time", "execution.account", "execution.qos"),
            *("execution.constraint", "execution.array", "execution.signal", "execution.setup"),
            *("execution.pack", "execution.options"),
        ),
        _SBATCH,
    ),
    "tracking.project": _WANDB.format("PROJECT"),
    "tracking.entity": _WANDB.format("ENTITY"),
    "tracking.group": _WANDB.format("RUN_GROUP"),
    "tracking.tags": "leave it out; the tags are estimators, baselines and environments",
    "execution.retries": "leave it out; run with --retry-failed measures failed cells again",
    "execution.slots": "leave it out; Ray runs as many units as the cluster has cores for",
    "execution.cpus": "leave it out; each unit takes one core",
    "execution.reward_timeout": "use execution.timeout, which limits each cell",
    "figures": "draw with Altair from maxk_lab.load(RUN, over='seeds'), as docs/selection.py does",
}
# A value of a key, as `training.evaluate.reference=pyvrp`.
VALUES: Mapping[str, str] = {
    "training.k_schedule.kind=linear": "use step",
    "training.kl.type=k2": "use k3, or k1 in the reward",
    "execution.backend=slurm": _SBATCH,
    "training.evaluate.reference=pyvrp": "use exact (tsp of any size) or auto",
}
# An option, as `run --detach`.
OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(("run --backend", "plan --backend"), _BACKEND),
    "run --profile": _PROFILE,
    **dict.fromkeys(("plan --profile", "plan --execution"), _NO_EXECUTION),
    **dict.fromkeys(("run --no-reuse", "plan --no-reuse"), _REUSE),
    **dict.fromkeys(("list --sort", "list --results"), _RUNS),
    **dict.fromkeys(("show --prune", "show --dry-run", "show --yes"), _PRUNE),
    "show --check": "every verb warns of an unreadable record, whose cell counts as missing",
    "run --detach": _SBATCH,
    "report --figures": "draw with Altair from maxk_lab.load(RUN, over='seeds')",
    "report --sort": "use pandas on maxk_lab.load(RUN, over='seeds'), or sort --format csv",
    "audit --norm": "an audit takes equal norms; maxk-lab measure reads scores",
    "run --dry-run": "use maxk-lab plan; show RUN lists the cells that failed",
    "plan --shift-seeds": "use --set seeds=[...]",
    "compare --out": "use maxk-lab compare A B --format FORMAT > FILE",
    "compare --tie": "leave it out; differences below 1 % are ties",
    "bundle --with": "copy the folder of the run; report --out writes the figures",
    "bundle --json": "leave it out; the first line has the name and the size",
    "track --project": _WANDB.format("PROJECT"),
    "track --entity": _WANDB.format("ENTITY"),
    "track --mode": _WANDB.format("MODE"),
    "track --json": "leave it out; each line is the place of one run",
    "recommend --jobs": "run the sweep first: maxk-lab run SWEEP.yaml --jobs N",
    "recommend --set": "run the sweep first: maxk-lab run SWEEP.yaml --set KEY=VALUE",
    "recommend --biased": "leave it out; report has biased estimators, too",
    "plan --jobs": "plan estimates the time of one worker; divide it by the number of workers",
}
# A verb of the command line, or a verb with its first word.
VERBS: Mapping[str, str] = {
    "adapters": "docs/adapters.md has the lines; python -m maxk_lab.adapters.swift prints the path",
    "status": "use maxk-lab show RUN",
    "validate": "use maxk-lab plan FILE...",
    "list backends": "execution.backend is local or ray",
    "list profiles": _PROFILE,
    "list runs": _RUNS,
}
# A row of a catalogue, by the kind of the catalogue and the name with or without its parameter.
ROWS: Mapping[tuple[str, str], str] = {
    **{("environment", name): _MAKE for name in ("cvrptw", "flp", "mcp", "mtsp", "mtvrp")},
    ("estimator", "partitioned"): "use partitioned:none or partitioned:loo beside "
    "experiments/papers/partitioned.py",
    ("estimator", "off_policy_first_order"): "use off_policy_maxk, which is exact",
    **{("estimator", name): _ORDER for name in _FORMS},
    ("baseline", "affine[same_batch]"): "use affine[cross_fit], which is unbiased",
    ("baseline", "ladder[same_batch]"): "use ladder[cross_fit], which is unbiased",
    ("baseline", "otb_token"): "use otb_loo, one unbiased baseline per trajectory",
    **{("measure", f"variance_{term}"): _ANATOMY for term in _PARTS_OF_VARIANCE},
    ("measure", "kl"): "use effective_sample_size",
    ("measure", "ratio_std"): "use effective_sample_size",
    ("measure", "weight_concentration"): "use dead_gradient_rate",
    ("measure", "weight_std"): "use weight_min or weight_sum",
    ("measure", "own_way"): "use max@K with decoding: best",
    **{("task", name): _TASK for name in ("edit", "hidden_target")},
    **{("reward function", name): _REWARD for name in ("brevity", "edit_similarity", "finished")},
    **{("Gaussian reward", name): _REWARD for name in ("bowl", "inside_unit", "two_peaks")},
}


def removed_key(path: tuple[str, ...]) -> str | None:
    """Return the replacement of a removed key of a sweep file; None for any other key."""
    advice = KEYS.get(_key(path))
    return None if advice is None else f"was removed: {advice}"


def removed_value(path: tuple[str, ...], value: object) -> str | None:
    """Return the replacement of a removed value of a key; None for any other value."""
    advice = VALUES.get(f"{_key(path)}={value}")
    return None if advice is None else f"{value} was removed: {advice}"


def _key(path: tuple[str, ...]) -> str:
    """Return a path in the form of `KEYS`."""
    words = ".".join(step for step in path if not step.isdigit())
    return words.replace("training.grid.with.", "training.")


def removed_option(verb: str, option: str) -> str | None:
    """Return the replacement of a removed option of a verb; None for any other option."""
    advice = OPTIONS.get(f"{verb} {option}")
    return None if advice is None else f"{option} was removed: {advice}"


def removed_verb(verb: str) -> str | None:
    """Return the replacement of a removed verb; None for any other verb."""
    advice = VERBS.get(verb)
    return None if advice is None else f"maxk-lab {verb} was removed: {advice}"


def removed_row(kind: str, name: str) -> str | None:
    """Return the replacement of a removed row of a catalogue; None for any other name."""
    advice = ROWS.get((kind, name)) or ROWS.get((kind, name.partition("[")[0]))
    return None if advice is None else f"{kind} {name!r} was removed: {advice}"
