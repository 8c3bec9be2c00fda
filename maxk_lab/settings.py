"""Settings of catalogue rows: fields of pydantic models that are checked, listed and varied.

This module does not import torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from maxk_lab.catalogue import MOST
from maxk_lab.errors import LabError
from maxk_lab.fields import Model, message
from maxk_lab.files import placed, resolved_file

# The types of settings by their names in JSON schemas.
_TYPES = {"integer": int, "number": float, "string": str, "boolean": bool} | {
    "array": list,
    "object": dict,
}
# No setting is infinite or undefined.
_FINITE = ConfigDict(allow_inf_nan=False)


def setting(
    default: Any, meaning: str = "", *, later: bool = False, spelling: str = "", **field: Any
) -> Any:
    """Return a field of a `Settings` model with its default, and its meaning for `list`.

    A `later` setting is newer than the identity of cells. At its default it is left out of a
    resolved sweep, so that older cells keep their ids and seeds. `spelling` is the name of its type
    for users, if Python's name would not do. `field` is as in `pydantic.Field`.
    """
    extra: Any = {"later": later, "spelling": spelling}
    return Field(default, description=meaning, json_schema_extra=extra, **field)


def number(
    default: float, meaning: str = "", *, low: float = -MOST, high: float = MOST, **field: Any
) -> Any:
    """Return a field that is a number from `low` to `high`; `field` is as in `setting`."""
    return setting(default, meaning, ge=low, le=high, **field)


def _a_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


# A single entry need not be in a list.
Texts = Annotated[list[str], BeforeValidator(_a_list)]
Numbers = Annotated[list[Annotated[float, Field(ge=-MOST, le=MOST)]], BeforeValidator(_a_list)]


def _a_file(value: Any) -> Any:
    return value if value == "" else resolved_file(value, "it")


def _a_folder(value: Any) -> Any:
    with suppress(LabError):  # the policy reports what the folder lacks
        return placed(value) if value and isinstance(value, str) else value
    return value


# The path of a user's file; a resolved sweep has {"path", "sha256"}.
File = Annotated[Any, BeforeValidator(_a_file)]
Folder = Annotated[str, BeforeValidator(_a_folder)]


@dataclass(frozen=True)
class Setting:
    """A setting of its own: `kind` is its pydantic type with bounds.

    Its values may be texts, as in `affine[0.5]`, unless it is `strict`.
    """

    name: str
    kind: Any
    default: Any
    meaning: str = ""
    later: bool = False
    spelling: str = ""
    strict: bool = False

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.kind, config=_FINITE)

    def parse(self, value: Any) -> Any:
        """Return `value` in the setting's type. Raises `LabError` with the allowed values."""
        # Python treats True as a number.
        strict = self.strict or not isinstance(value, str)
        try:
            return self._adapter.validate_python(value, strict=strict)
        except ValidationError as error:
            finding = error.errors(include_url=False)[0]
            raise LabError(f"{self.name} {message(finding)}") from None

    @cached_property
    def _schema(self) -> dict[str, Any]:
        return self._adapter.json_schema()

    @property
    def type(self) -> Any:
        """Return the plain type, such as `float` or `list`."""
        return _TYPES.get(self._schema.get("type", ""), Any)

    @property
    def type_name(self) -> str:
        """Return the type's name for users, e.g. `int` or `list of str`."""
        if self.spelling:
            return self.spelling
        of = f" of {_TYPES[self._schema['items']['type']].__name__}" if self.type is list else ""
        return f"{self.type.__name__}{of}"

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the allowed words; none if any word is allowed."""
        only = [self._schema["const"]] if "const" in self._schema else []
        return tuple(self._schema.get("enum", only))

    @property
    def low(self) -> float | None:
        """Return the smallest allowed value; None without a bound."""
        return _unless_default(self._schema.get("minimum"))

    @property
    def high(self) -> float | None:
        """Return the largest allowed value; None without a bound."""
        return _unless_default(self._schema.get("maximum"))


def _unless_default(bound: float | None) -> float | None:
    return None if bound is None or abs(bound) == MOST else bound


def without_defaults(settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return `settings` without those that equal `defaults`.

    Settings that are newer than the first records are left out of the identity at their defaults,
    so that older cells keep their ids and seeds.
    """
    return {
        name: value
        for name, value in settings.items()
        if name not in defaults or value != defaults[name]
    }


class Settings(Model):
    """The settings of a row by their names in a sweep file; every setting has a default.

    Values are read strictly: a text is not a number, and unknown keys are errors.
    """

    model_config = ConfigDict(**_FINITE, validate_default=True)

    @classmethod
    @cache  # cached, because every value of a sweep needs it
    def each(cls) -> tuple[Setting, ...]:
        """Return the settings in the order of their definition."""
        settings = []
        for name, field in cls.model_fields.items():
            extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
            kind: Any = field.annotation
            for constraint in field.metadata:
                kind = Annotated[kind, constraint]
            each = Setting(
                name,
                kind,
                field.get_default(),
                meaning=field.description or "",
                later=bool(extra.get("later")),
                spelling=str(extra.get("spelling", "")),
                strict=True,
            )
            settings.append(each)
        return tuple(settings)

    @classmethod
    def defaults(cls, *, later: bool = True) -> dict[str, Any]:
        """Return every setting at its default; without `later` settings if `later` is False."""
        values = cls().model_dump()
        return {each.name: values[each.name] for each in cls.each() if later or not each.later}

    @classmethod
    def without_later(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return `settings` without the later settings that are at their defaults."""
        return without_defaults(
            settings, {each.name: each.default for each in cls.each() if each.later}
        )
