"""The words for what pydantic finds wrong with a value, which help to mend it. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from maxk_lab.catalogue import did_you_mean
from maxk_lab.errors import shown

_WORDS = {
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "finite_number": "must be a finite number",
    "string_type": "must be a text",
    "string_too_short": "must not be empty",
    "tuple_type": "must be a list",
    "model_type": "must be a mapping of keys to values",
    "model_attributes_type": "must be a mapping of keys to values",
}
# Keys by which other programs call what has another name here.
MEANT = {"type": "name", "class": "name"}
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("greater than", "gt"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


def findings(error: ValidationError, model: type[BaseModel]) -> Iterator[str]:
    """Yield one sentence for everything that is wrong with a mapping given for `model`."""
    for finding in error.errors(include_url=False):
        if not finding["loc"]:  # it is about the mapping as a whole
            yield message(finding)
            continue
        *block, key = map(str, finding["loc"])
        if finding["type"] == "extra_forbidden":
            yield unknown_key(key, known_keys(model, block))
        else:
            yield f"{'.'.join((*block, key))} {message(finding)}"


def message(finding: Mapping[str, Any]) -> str:
    """Return what is wrong with the value of one finding, other than of an unknown key."""
    kind, given, context = finding["type"], finding["input"], finding.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind == "value_error":
        return str(context["error"])
    if kind == "too_short":
        least = context["min_length"]
        if least == 1:
            return "must not be empty"
        return f"must have at least {least} entries, got {len(given)}"
    if kind == "literal_error":
        words = context["expected"].replace(" or ", ",").split(",")
        return one_of(given, [word.strip("' ") for word in words])
    if kind in _WORDS:
        return f"{_WORDS[kind]}, got {_shown(given)}"
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        return f"must be {words} {context[bound]:g}, got {_shown(given)}"
    return f"{finding['msg']}, got {_shown(given)}"


def one_of(given: Any, words: Iterable[str]) -> str:
    """Return the sentence for a value that is none of `words`, with the nearest of them."""
    words = list(words)
    also = did_you_mean(str(given), words)
    return f"must be one of {', '.join(words)}, got {_shown(given)}{also}"


def unknown_key(key: str, known: Iterable[str]) -> str:
    """Return the sentence for a key that nothing reads."""
    known = list(known)
    meant = MEANT.get(key)
    also = did_you_mean(meant if meant in known else key, known) or f"; known: {', '.join(known)}"
    return f"unknown key {shown(key)}{also}"


def known_keys(model: type[BaseModel], block: Iterable[str]) -> list[str]:
    """Return the keys of the block at a path within `model`; an entry of a list is a block, too."""
    for step in block:
        if not step.isdigit():
            fields = {found.alias or name: found for name, found in model.model_fields.items()}
            model = next(models_in(fields[step].annotation))
    return [found.alias or name for name, found in model.model_fields.items()]


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in an annotation such as `tuple[Model, ...]` or `Model | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def _shown(value: Any) -> str:
    return "nothing" if value is None else shown(value)
