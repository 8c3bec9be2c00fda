"""What pydantic finds wrong with a sweep file, in the words and at the place that help to mend it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from maxk_lab.findings import known_keys, message, one_of, unknown_key
from maxk_lab.sweeps.spec.claims.shapes import CLAIM_KINDS, Where
from maxk_lab.sweeps.spec.schema import SweepSpec
from maxk_lab.sweeps.spec.source import Source, TreePath

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
                one_of(given, CLAIM_KINDS) if given is not None else _missing(CLAIM_KINDS),
            )
        else:
            source.add(path, message(finding))


def _missing(words: Iterable[str]) -> str:
    return f"is missing; one of {', '.join(words)}"


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
        return known_keys(model, ())
    return known_keys(SweepSpec, path[:-1])
