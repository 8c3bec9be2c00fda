"""Field types and models of settings and records, and messages for pydantic's errors.

This module does not import torch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import core_schema

from maxk_lab.catalogue import MOST, did_you_mean
from maxk_lab.errors import LONGEST, LabError, shortened, shown

Item = TypeVar("Item")
# The largest group of samples that share their weights.
MOST_SAMPLES = 2**16


def as_tuple(value: Any) -> Any:
    """Turn a list into a tuple, which is frozen, and a scalar into a tuple of one."""
    if isinstance(value, list | tuple):
        return tuple(value)
    return (value,)


def distinct(values: tuple[Item, ...]) -> tuple[Item, ...]:
    """Return `values`. Raises `ValueError` if one of them is repeated."""
    repeated = [value for value, count in Counter(values).items() if count > 1]
    if repeated:
        listed = ", ".join(map(str, sorted(repeated)))  # type: ignore[type-var]
        raise ValueError(f"must be distinct, got {shortened(listed, LONGEST)} more than once")
    return values


Seed = Annotated[int, Field(ge=0, lt=2**63)]
WholeNumber = Annotated[int, Field(ge=0, le=MOST)]
AtLeastOne = Annotated[int, Field(ge=1, le=MOST)]
# Counts of samples, instances or groups in memory at once, a limit of memory.
MOST_IN_MEMORY = 10**7
Samples = Annotated[int, Field(ge=1, le=MOST_IN_MEMORY)]
TwoSamples = Annotated[int, Field(ge=2, le=MOST_IN_MEMORY)]
# An n or a K: estimators use as many numbers as a group has samples.
GroupSize = Annotated[int, Field(ge=1, le=MOST_SAMPLES)]
Finite = Annotated[float, Field(ge=-MOST, le=MOST, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, le=MOST, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, le=MOST, allow_inf_nan=False)]
# Measured numbers: a report sums their fourth powers, so they are bounded.
_MOST_MEASURED = 1e75
Count = Annotated[int, Field(ge=0, lt=2**63)]
Number = Annotated[float, Field(ge=-_MOST_MEASURED, le=_MOST_MEASURED, allow_inf_nan=False)]
Size = Annotated[float, Field(ge=0, le=_MOST_MEASURED, allow_inf_nan=False)]
# Undefined is None in JSON.
Numbers = list[Number | None]
Sizes = list[Size | None]


class Listed:
    """The annotation of a list that may also be written as its single value."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Turn a list into a tuple, and a scalar into a tuple of one."""
        return core_schema.no_info_before_validator_function(as_tuple, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        """Return the schema of the list, or of its entry."""
        listed = handler(schema)
        return {"anyOf": [listed.get("items", {}), listed]}


OneOrMore = Annotated[tuple[Item, ...], Listed(), Field(min_length=1)]
Different = Annotated[tuple[Item, ...], Listed(), AfterValidator(distinct)]


def start_of(written: Any) -> Any:
    """Return the canonical spelling of a start: `forced` is RL4CO's multistart."""
    return "multistart" if written == "forced" else written


def start_words(recorded: Any) -> Any:
    """Return the spelling of a start in sweep files: `forced` for the recorded `multistart`."""
    return "forced" if recorded == "multistart" else recorded


Start = Annotated[Literal["iid", "multistart", "forced"], AfterValidator(start_of)]

# The treatment of a group with equal rewards: it counts, is dropped or is replaced.
Selection = Literal["none", "drop_equal", "resample_equal"]


def check_lengths(length: int, parts: Mapping[str, Sequence[Any]]) -> None:
    """Raise `ValueError` for the first part of a record with another length."""
    for name, entries in parts.items():
        if len(entries) != length:
            raise ValueError(f"{name} has {len(entries)} entries where there must be {length}")


class Model(BaseModel):
    """A block of settings: frozen, with known keys only and strict numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """Return the block for a `mapping`, with defaults.

        Raises one `LabError` with all problems.
        """
        try:
            return cls.model_validate(dict(mapping))
        except ValidationError as error:
            raise LabError("; ".join(findings(error, cls))) from None


class Recorded(BaseModel):
    """A part of a finished record, for reading: unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)
    # The formulas of its numbers for `show`: each with its function and its source.
    formulas: ClassVar[Mapping[str, Mapping[str, str]]] = {}

    @property
    def shown(self) -> Mapping[str, Any]:
        """Return the numbers in its lists that `show` prints, by the key of the list."""
        return {}

    def check(self, cell: Mapping[str, Any]) -> None:
        """Raise `ValueError` if the content cannot belong to the cell."""

    @classmethod
    def of(cls, record: Any) -> Self:
        """Return the content of a finished record. Raises `LabError` for missing parts."""
        content = getattr(record, "content", None)
        if isinstance(content, cls):
            return content
        try:
            return cls.model_validate(record.metrics)
        except ValidationError as error:
            problems = list(findings(error, cls))
            more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
            raise LabError(
                f"the record of cell {record.cell['id']} "
                f"does not hold what a {record.cell['study']} "
                f"study measures: {'; '.join(problems[:3])}{more}; run it again with --force"
            ) from None


_WORDS = {
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "finite_number": "must be a finite number",
    "byte_size": "must be a size such as 4GB, 512MB or 8GiB",
    "byte_size_unit": "must be a size such as 4GB, 512MB or 8GiB",
    "string_type": "must be a text",
    "string_too_short": "must not be empty",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "model_attributes_type": "must be a mapping of keys to values",
}
# Keys of other programs that have another name here.
SYNONYMS = {"type": "name", "class": "name"}
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("greater than", "gt"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


def findings(error: ValidationError, model: type[BaseModel]) -> Iterator[str]:
    """Yield one sentence for every problem of a mapping for `model`."""
    for finding in error.errors(include_url=False):
        if not finding["loc"]:  # about the mapping as a whole
            yield message(finding)
            continue
        *block, key = map(str, finding["loc"])
        if finding["type"] == "extra_forbidden":
            yield unknown_key(key, trace(model, finding["loc"][:-1])[1])
        else:
            yield f"{'.'.join((*block, key))} {message(finding)}"


def message(finding: Mapping[str, Any]) -> str:
    """Return the problem of the value in one finding, except an unknown key."""
    kind, value, context = finding["type"], finding["input"], finding.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind == "value_error":
        return str(context["error"])
    if kind == "too_short":
        least = context["min_length"]
        many = f"must have at least {least} entries, got {len(value)}"
        return "must not be empty" if least == 1 else many
    if kind == "literal_error":
        words = context["expected"].replace(" or ", ",").split(",")
        return one_of(value, [word.strip("' ") for word in words])
    if kind in _WORDS:
        return f"{_WORDS[kind]}, got {_shown(value)}"
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        return f"must be {words} {context[bound]:g}, got {_shown(value)}"
    return f"{finding['msg'].replace('String should', 'must')}, got {_shown(value)}"


def one_of(value: Any, words: Iterable[str]) -> str:
    """Return the sentence for a value that is not one of `words`, with the nearest of them."""
    words = list(words)
    also = did_you_mean(str(value), words)
    return f"must be one of {', '.join(words)}, got {_shown(value)}{also}"


def unknown_key(key: str, keys: Iterable[str]) -> str:
    """Return the sentence for an unknown key, with the nearest of `keys`."""
    keys = list(keys)
    synonym = SYNONYMS.get(key)
    also = did_you_mean(synonym if synonym in keys else key, keys) or f"; known: {', '.join(keys)}"
    return f"unknown key {shown(key)}{also}"


def trace(
    model: type[BaseModel], location: Iterable[int | str]
) -> tuple[list[int | str], list[str]]:
    """Return a location within `model` as written, and the keys of the block there.

    Tags of unions, which are the names of their models, are omitted.
    """
    members, written = [model], list[int | str]()
    for step in location:
        if tagged := [member for member in members[1:] and members if member.__name__ == step]:
            members = tagged
            continue
        written.append(step)
        if isinstance(step, str):
            fields = {key: field for member in members for key, field in _fields(member).items()}
            members = [*models_in(fields[step].annotation)] if step in fields else []
    return written, [key for member in members for key in _fields(member)]


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in an annotation such as `tuple[Model, ...]` or `Model | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models_in(argument)


def _shown(value: Any) -> str:
    return "nothing" if value is None else shown(value)
