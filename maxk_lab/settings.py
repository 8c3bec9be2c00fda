"""Settings of catalogue rows: fields of pydantic models that the lab checks, lists and varies.

Imports no torch.
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

# The types of settings by their names in JSON's schemas.
_TYPES = {"integer": int, "number": float, "string": str, "boolean": bool} | {
    "array": list,
    "object": dict,
}
# No setting is infinite, and none is undefined.
_FINITE = ConfigDict(allow_inf_nan=False)


def setting(
    default: Any, meaning: str = "", *, later: bool = False, spelling: str = "", **field: Any
) -> Any:
    """Return a field of a `Settings` model: its default, and its meaning in a line of `list`.

    A setting that came `later` than the identity of cells is left out of a resolved sweep at its
    default, so that older cells keep their ids and seeds. `spelling` names its type to who writes a
    sweep, where Python's name would not say it. `field` is as in `pydantic.Field`.
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


# One entry need not be in a list.
Texts = Annotated[list[str], BeforeValidator(_a_list)]
Numbers = Annotated[list[Annotated[float, Field(ge=-MOST, le=MOST)]], BeforeValidator(_a_list)]


def _a_file(value: Any) -> Any:
    return value if value == "" else resolved_file(value, "it")


def _a_folder(value: Any) -> Any:
    with suppress(LabError):  # the policy says what the folder lacks
        return placed(value) if value and isinstance(value, str) else value
    return value


# The path of a file of the user's own; a resolved sweep has {"path", "sha256"}.
File = Annotated[Any, BeforeValidator(_a_file)]
Folder = Annotated[str, BeforeValidator(_a_folder)]


@dataclass(frozen=True)
class Setting:
    """One setting, by itself: `kind` is its type as pydantic takes it, with its bounds.

    Its values may be given as texts, as in `affine[0.5]`, unless it is `strict`.
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
        """Return `value` in the setting's type. Raises `LabError` that says what is allowed."""
        # Python calls True a number.
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
        """Return the type as a sweep's writer knows it, e.g. `int` or `list of str`."""
        if self.spelling:
            return self.spelling
        of = f" of {_TYPES[self._schema['items']['type']].__name__}" if self.type is list else ""
        return f"{self.type.__name__}{of}"

    @property
    def choices(self) -> tuple[str, ...]:
        """Return the words that it may be; none where it may be any."""
        only = [self._schema["const"]] if "const" in self._schema else []
        return tuple(self._schema.get("enum", only))

    @property
    def low(self) -> float | None:
        """Return the least that it may be; None where nothing says so."""
        return _told(self._schema.get("minimum"))

    @property
    def high(self) -> float | None:
        """Return the most that it may be; None where nothing says so."""
        return _told(self._schema.get("maximum"))


def _told(bound: float | None) -> float | None:
    return None if bound is None or abs(bound) == MOST else bound


def without_defaults(settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return `settings` without those that are as in `defaults`.

    A setting that came later than the first records is left out of the identity in this way while
    it is at its default, so that the cells that were there before it keep their ids and seeds.
    """
    return {
        name: value
        for name, value in settings.items()
        if name not in defaults or value != defaults[name]
    }


class Settings(Model):
    """The settings of a row, by their names in a sweep file; every one has a default.

    What a sweep gives is read strictly: no text is a number, and nothing unknown is passed over.
    """

    model_config = ConfigDict(**_FINITE, validate_default=True)

    @classmethod
    @cache  # every value of a sweep asks
    def each(cls) -> tuple[Setting, ...]:
        """Return the settings one by one, in the order in which they stand."""
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
        """Return every setting at its default; without those that came `later`, if so wanted."""
        values = cls().model_dump()
        return {each.name: values[each.name] for each in cls.each() if later or not each.later}

    @classmethod
    def without_later(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return `settings` without those that came later than the first records, at defaults."""
        return without_defaults(
            settings, {each.name: each.default for each in cls.each() if each.later}
        )
