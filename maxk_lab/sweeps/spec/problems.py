"""The findings of pydantic about a sweep file, at the place where each can be mended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from maxk_lab.findings import known_keys, message, one_of, unknown_key
from maxk_lab.sweeps.spec.claims.regions import Where
from maxk_lab.sweeps.spec.claims.shapes import CLAIM_KINDS
from maxk_lab.sweeps.spec.fields import AnyStudy
from maxk_lab.sweeps.spec.schema import SweepSpec
from maxk_lab.sweeps.spec.source import Source, TreePath
from maxk_lab.sweeps.studies import STUDIES


def note_problems(error: ValidationError, source: Source, at: Sequence[int | str] = ()) -> None:
    """Add every finding of `error`, about the part of the file at `at`, to those of `source`."""
    for finding in error.errors(include_url=False):
        location, kind = (*at, *finding["loc"]), finding["type"]
        path = _path(location, source.tree)
        if kind == "extra_forbidden":
            source.add(path, _unknown(location, path), key=True)
        elif kind in ("union_tag_not_found", "union_tag_invalid"):
            given = finding["input"].get("kind") if isinstance(finding["input"], Mapping) else None
            source.add(
                (*path, "kind"),
                one_of(given, CLAIM_KINDS) if given is not None else _missing(CLAIM_KINDS),
            )
            _note_unknown_to_all(finding["input"], path, source)
        elif kind != "too_short" or len(finding["input"]) < finding["ctx"]["min_length"]:
            # pydantic counts sound entries alone, and has said what is wrong with the others.
            source.add(path, message(finding))


def _note_unknown_to_all(claim: Any, path: TreePath, source: Source) -> None:
    """Note the keys that no kind of claim has: one of them may be the misspelt `kind`."""
    known = dict.fromkeys(key for kind in CLAIM_KINDS.values() for key in known_keys(kind, ()))
    for key in claim if isinstance(claim, Mapping) else ():
        if key not in known:
            source.add((*path, key), unknown_key(key, known), key=True)


def _missing(words: Iterable[str]) -> str:
    return f"is missing; one of {', '.join(words)}"


def _path(location: Sequence[int | str], tree: Any) -> TreePath:
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


def _unknown(location: Sequence[int | str], path: TreePath) -> str:
    """Return what to say of a key that nothing reads."""
    first, *inside, key = path if len(path) > 1 else ("", *path)
    if not first:
        return unknown_key(key, SweepSpec.keys())
    if first == "claims":
        claim: type[BaseModel] = CLAIM_KINDS[str(location[2])] if len(path) == 3 else Where
        return unknown_key(key, known_keys(claim, ()))
    if first not in STUDIES:
        return unknown_key(key, known_keys(SweepSpec, path[:-1]))
    study: type[AnyStudy] = STUDIES.get(first).part("schema").Study
    return study.misplaced.get(key) or unknown_key(key, known_keys(study, inside))
