"""The parts of a sweep file, each validated once, under its path, and the spec that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from maxk_lab.findings import known_keys, message, models_in, one_of, unknown_key
from maxk_lab.sweeps.spec.claims.regions import Where
from maxk_lab.sweeps.spec.claims.shapes import CLAIM_KINDS, Claim
from maxk_lab.sweeps.spec.fields import AnyStudy
from maxk_lab.sweeps.spec.figures import Figure
from maxk_lab.sweeps.spec.schema import SweepSpec
from maxk_lab.sweeps.spec.source import Source, TreePath, entry_path
from maxk_lab.sweeps.studies import STUDIES

LISTS: dict[str, TypeAdapter[Any]] = {"figures": TypeAdapter(Figure), "claims": TypeAdapter(Claim)}


@dataclass(frozen=True)
class Block:
    """The block of a study in a sweep file, as far as it is of the right shape.

    `entries` holds the sound entries of its grid, each with its place; `study` is None where
    anything in the block is not sound.
    """

    kind: str
    written: Any
    entries: tuple[tuple[TreePath, Any], ...]
    study: Any | None


@dataclass(frozen=True)
class Parts:
    """The sound parts of a sweep file: blocks, lists, and the spec where nothing is wrong."""

    blocks: dict[str, Block]
    lists: dict[str, tuple[Any, ...]]
    spec: SweepSpec | None


def read_parts(source: Source) -> Parts:
    """Return the parts of a sweep file; everything that is not of the right shape is noted."""
    tree = source.tree
    blocks = {name: _read_block(name, source) for name in STUDIES.names() if name in tree}
    lists = {name: _read_list(name, source) for name in LISTS if name in tree}
    rest = {key: value for key, value in tree.items() if key not in (*STUDIES.names(), *LISTS)}
    sound = {name: block.study for name, block in blocks.items() if block.study is not None}
    found = {name: values for name, values in lists.items() if values is not None}
    # An attribute of the spec, but no key of the file.
    if "studies" in rest:
        source.add(("studies",), unknown_key("studies", SweepSpec.keys()), key=True)
    spec = _valid(SweepSpec.model_validate, {**rest, "studies": sound, **found}, (), source)
    whole = len(sound) == len(blocks) and len(found) == len(lists)
    return Parts(blocks, {name: found.get(name, ()) for name in LISTS}, spec if whole else None)


def _read_block(name: str, source: Source) -> Block:
    model: type[AnyStudy] = STUDIES.get(name).part("schema").Study
    written = source.tree[name]
    if not isinstance(written, Mapping) or "grid" not in written:
        return Block(name, written, (), _valid(model.model_validate, written, (name,), source))
    entry_model = next(models_in(model.model_fields["grid"].annotation))
    grid = written["grid"]
    entries = [
        _valid(entry_model.model_validate, entry, (name, "grid", number), source)
        for number, entry in enumerate(grid if isinstance(grid, list) else [grid])
    ]
    # An entry that is not sound must not hide what is wrong with the rest of the block.
    stand_ins = tuple(entry_model.model_construct() if e is None else e for e in entries)
    study = _valid(model.model_validate, {**written, "grid": stand_ins}, (name,), source)
    found = tuple(
        (entry_path(source, name, number), entry)
        for number, entry in enumerate(entries)
        if entry is not None
    )
    return Block(name, written, found, study if len(found) == len(entries) else None)


def _read_list(name: str, source: Source) -> tuple[Any, ...] | None:
    """Return the entries of a list; None where one of them, or the list, is not sound."""
    written, validate = source.tree[name], LISTS[name].validate_python
    if not isinstance(written, list):
        _valid(TypeAdapter(tuple[()]).validate_python, written, (name,), source)
        return None
    found = [_valid(validate, entry, (name, i), source) for i, entry in enumerate(written)]
    return None if None in found else tuple(found)


def _valid(
    validate: Callable[[Any], Any], value: Any, at: Sequence[int | str], source: Source
) -> Any:
    """Return `value` as validated, or None; everything that is wrong with it is noted."""
    try:
        return validate(value)
    except ValidationError as error:
        note_problems(error, source, at)
        return None


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
