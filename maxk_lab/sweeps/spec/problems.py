"""What pydantic finds wrong with a sweep file, in the words and at the place that help to mend it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from maxk_lab.catalogue import nearest
from maxk_lab.studies.training.schema import (
    KL,
    DataFile,
    Evaluation,
    KSchedule,
    Loss,
    Overrides,
    TrainingGrid,
    TrainingStudy,
)
from maxk_lab.sweeps.spec.claims.shapes import CLAIM_KINDS, Where
from maxk_lab.sweeps.spec.fields import Grid
from maxk_lab.sweeps.spec.figures import Figure
from maxk_lab.sweeps.spec.schema import (
    Behaviour,
    GradientStudy,
    ObjectiveGrid,
    ObjectiveStudy,
    SweepSpec,
    Tracking,
    WarmUp,
    WeightsStudy,
)
from maxk_lab.sweeps.spec.source import Source, TreePath

_MODELS: dict[TreePath, type[BaseModel]] = {
    (): SweepSpec,
    ("gradient",): GradientStudy,
    ("gradient", "warmup"): WarmUp,
    ("gradient", "behaviour"): Behaviour,
    ("gradient", "grid"): Grid,
    ("training",): TrainingStudy,
    ("training", "kl"): KL,
    ("training", "loss"): Loss,
    ("training", "evaluate"): Evaluation,
    ("training", "k_schedule"): KSchedule,
    ("training", "evaluate", "data"): DataFile,
    ("training", "grid"): TrainingGrid,
    ("training", "grid", "with"): Overrides,
    ("training", "grid", "with", "kl"): KL,
    ("training", "grid", "with", "loss"): Loss,
    ("training", "grid", "with", "k_schedule"): KSchedule,
    ("objective",): ObjectiveStudy,
    ("objective", "grid"): ObjectiveGrid,
    ("weights",): WeightsStudy,
    ("weights", "grid"): Grid,
    ("tracking",): Tracking,
}
_WORDS = {
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "finite_number": "must be a finite number",
    "string_type": "must be a text",
    "string_too_short": "must not be empty",
    "tuple_type": "must be a list",
    "model_type": "must be a mapping of keys to values",
    "model_attributes_type": "must be a mapping of keys to values",
}
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("greater than", "gt"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}
# A study, and a claim, that multistart has no place in.
NOT_IID = (
    "is a setting of training studies: multistart forces the first actions, so that its samples are not i.i.d. and no claim "
    "of unbiasedness can be made of them"
)


def note_problems(error: ValidationError, source: Source) -> None:
    """Add every finding of `error` to the problems of `source`."""
    for finding in error.errors(include_url=False):
        path, kind = _path(finding["loc"], source.tree), finding["type"]
        if kind == "too_short" and len(finding["input"]) >= finding["ctx"]["min_length"]:
            continue  # pydantic counts sound entries alone, and has said what is wrong with the others
        if kind == "extra_forbidden" and path[-1] == "start" and path[0] in ("gradient", "weights"):
            source.add(path, NOT_IID, key=True)
        elif kind == "extra_forbidden":
            source.add(path, unknown_key(path[-1], _known_keys(finding["loc"], path)), key=True)
        elif kind in ("union_tag_not_found", "union_tag_invalid"):
            given = finding["input"].get("kind") if isinstance(finding["input"], Mapping) else None
            source.add(
                (*path, "kind"),
                _one_of(given, CLAIM_KINDS) if given is not None else _missing(CLAIM_KINDS),
            )
        else:
            source.add(path, _message(finding))


def unknown_key(key: str, known: Iterable[str]) -> str:
    """What to say of a key that nothing reads."""
    known = list(known)
    hint = nearest(key, known)
    return f"unknown key {key!r}" + (
        f" (did you mean {hint}?)" if hint else f"; known: {', '.join(known)}"
    )


def _message(finding: Mapping[str, Any]) -> str:
    kind, given, context = finding["type"], finding["input"], finding.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind == "value_error":
        return str(context["error"])
    if kind == "too_short":
        least = context["min_length"]
        return (
            "must not be empty"
            if least == 1
            else f"must have at least {least} entries, got {len(given)}"
        )
    if kind == "literal_error":
        return _one_of(
            given,
            [word.strip("' ") for word in context["expected"].replace(" or ", ",").split(",")],
        )
    if kind in _WORDS:
        return f"{_WORDS[kind]}, got {_shown(given)}"
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        return f"must be {words} {context[bound]:g}, got {_shown(given)}"
    return f"{finding['msg']}, got {_shown(given)}"


def _one_of(given: Any, words: Iterable[str]) -> str:
    words = list(words)
    hint = nearest(str(given), words)
    return f"must be one of {', '.join(words)}, got {_shown(given)}" + (
        f" (did you mean {hint}?)" if hint else ""
    )


def _missing(words: Iterable[str]) -> str:
    return f"is missing; one of {', '.join(words)}"


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)


def _path(location: Sequence[int | str], tree: Any) -> TreePath:
    """Where pydantic's location is in the file: without the names of claim kinds, and a scalar as itself."""
    path: list[str] = []
    for depth, step in enumerate(location):
        if depth == 2 and location[0] == "claims" and step in CLAIM_KINDS:
            continue
        if isinstance(step, int) and not isinstance(tree, list):
            continue
        path.append(str(step))
        tree = (
            tree[step]
            if isinstance(step, int)
            else tree.get(step)
            if isinstance(tree, dict)
            else None
        )
    return tuple(path)


def _known_keys(location: Sequence[int | str], path: TreePath) -> list[str]:
    if location[0] == "claims":
        model: type[BaseModel] = CLAIM_KINDS[str(location[2])] if len(path) == 3 else Where
    elif location[0] == "figures":
        model = Figure
    else:
        # An entry of a list of grids is of the shape of a single one.
        model = _MODELS[tuple(step for step in path[:-1] if not step.isdigit())]
    return [found.alias or name for name, found in model.model_fields.items()]
