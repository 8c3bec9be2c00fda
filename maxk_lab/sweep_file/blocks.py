"""The shape of a sweep file: the spec that it makes, or all problems and what is sound besides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from pydantic import BaseModel, ValidationError

from maxk_lab.fields import as_tuple, known_keys, message, one_of, unknown_key
from maxk_lab.removed import removed_key, removed_value
from maxk_lab.sweep_file.claims import CLAIM_KINDS
from maxk_lab.sweep_file.schema import SweepSpec, model_of
from maxk_lab.sweep_file.source import Source, TreePath
from maxk_lab.sweep_file.studies import STUDIES

Location = Sequence[int | str]
# Stand in for what is needed and not sound: they go with every setting.
_NEUTRAL = {"name": "sweep", "seeds": 1, "environment": {}}


def read_parts(source: Source) -> SweepSpec:
    """Return the spec that a sweep file makes; everything that is not of the right shape is noted.

    So that no mistake hides the next one, defaults then stand for settings that are not sound, the
    grids have only their sound entries, and studies without a sound grid are left out.
    """
    model = model_of(source.tree)
    try:
        return model.model_validate(source.tree)
    except ValidationError as error:
        note_problems(error, source, lambda location: _keys(location, model))
        tree = _sound(source, error)
    try:
        return model_of(tree).model_validate(_NEUTRAL | tree)
    except ValidationError as error:
        wrong = {finding["loc"][0] for finding in error.errors(include_url=False)}
        tree = {key: value for key, value in tree.items() if key not in wrong}
        return model_of(tree).model_validate(_NEUTRAL | tree)


def _sound(source: Source, error: ValidationError) -> dict[str, Any]:
    """Return the tree without what is not sound; `source` is told which entries of grids are."""
    tree: dict[str, Any] = deepcopy(source.tree)
    unsound: dict[str, set[int]] = {}
    for finding in error.errors(include_url=False):
        first, *inside = str(finding["loc"][0]), *finding["loc"][1:]
        block = tree.get(first)
        if not isinstance(block, dict) or not inside or finding["type"] == "missing":
            tree.pop(first, None)
        elif first in STUDIES and inside[0] == "grid" and len(inside) > 1:
            unsound.setdefault(first, set()).add(int(inside[1]))
        else:
            block.pop(inside[0], None)
    for kind in unsound.keys() & tree.keys():
        grid = as_tuple(tree[kind]["grid"])
        source.entries[kind] = [at for at in range(len(grid)) if at not in unsound[kind]]
        tree[kind]["grid"] = [grid[at] for at in source.entries[kind]]
    return tree


def note_problems(
    error: ValidationError,
    source: Source,
    keys: Callable[[Location], Iterable[str]] = lambda _: (),
    at: Location = (),
) -> None:
    """Note every finding of `error`, about the part of the file at `at`.

    `keys` gives those that are known in the block at a location, by which unknown ones are told.
    """
    for finding in error.errors(include_url=False):
        location, kind, value = (*at, *finding["loc"]), finding["type"], finding["input"]
        path = _path(location, source.tree)
        if kind == "extra_forbidden":
            study = STUDIES.get(path[0]).part("spec").Study if path[0] in STUDIES else None
            words = study.misplaced.get(path[-1]) if study else None
            words = removed_key(path) or words or unknown_key(path[-1], keys(location[:-1]))
            source.add(path, words, key=True)
        elif kind in ("union_tag_not_found", "union_tag_invalid"):
            _note_kind(value if isinstance(value, Mapping) else {}, path, source)
        elif kind != "too_short" or len(value) < finding["ctx"]["min_length"]:
            # pydantic counts sound entries alone, and has said what is wrong with the others.
            source.add(path, removed_value(path, value) or message(finding))


def _note_kind(claim: Mapping[str, Any], path: TreePath, source: Source) -> None:
    """Note a claim whose kind is none or missing, and keys of it that no kind of claim has."""
    given = claim.get("kind")
    missing = f"is missing; one of {', '.join(CLAIM_KINDS)}"
    source.add((*path, "kind"), missing if given is None else one_of(given, CLAIM_KINDS))
    known = dict.fromkeys(key for kind in CLAIM_KINDS.values() for key in known_keys(kind, ()))
    for key in claim:
        if key not in known:
            source.add((*path, key), unknown_key(key, known), key=True)


def _path(location: Location, tree: Any) -> TreePath:
    """Return the place in the file: without the names of claim kinds, and a scalar as itself."""
    path: list[str] = []
    for depth, step in enumerate(location):
        if depth == 2 and location[0] == "claims" and step in CLAIM_KINDS:
            continue
        if isinstance(step, int) and not isinstance(tree, list):
            continue
        path.append(str(step))
        known = isinstance(step, int) or (isinstance(tree, dict) and step in tree)
        tree = tree[step] if known else None
    return tuple(path)


def _keys(location: Location, model: type[BaseModel]) -> Iterable[str]:
    """Return the keys that are known in a block of a sweep file."""
    if not location:
        return SweepSpec.in_order()
    if location[0] == "claims":
        model, location = CLAIM_KINDS[str(location[2])], location[3:]
    return known_keys(model, map(str, location))
