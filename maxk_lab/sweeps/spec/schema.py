"""The shape of a sweep file: frozen models, every key known, every number strict."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SerializeAsAny, StringConstraints

from maxk_lab.errors import shown
from maxk_lab.fields import Model, OneOrMore
from maxk_lab.sweeps.spec.claims.shapes import Claim
from maxk_lab.sweeps.spec.execution import Execution
from maxk_lab.sweeps.spec.fields import AnyStudy
from maxk_lab.sweeps.spec.figures import Figure
from maxk_lab.sweeps.spec.text.seeds import Seeds
from maxk_lab.sweeps.studies import STUDIES

WANDB_MODES = ("offline", "online", "disabled")


def _wandb_mode(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(
            f"must be one of {', '.join(WANDB_MODES)}; YAML reads on, off, yes and no as true and "
            f"false, write {'online or offline' if value else 'disabled'} instead"
        )
    return value


def folder_name(name: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name) is None or name.endswith("."):
        raise ValueError(
            "names the folder of results: at most 100 letters, digits, '.', '_' and '-', "
            f"beginning with a letter or digit and not ending with '.', got {shown(name)}"
        )
    return name


def _is_mapping(value: Any) -> Any:
    if not isinstance(value, dict):
        given = "nothing" if value is None else shown(value)
        raise ValueError(f"must be a mapping of keys to values, got {given}")
    return value


class Tracking(Model):
    """The place where the finished records are tracked."""

    wandb: Annotated[Literal["offline", "online", "disabled"], BeforeValidator(_wandb_mode)] = (
        "offline"
    )
    project: Annotated[str, StringConstraints(min_length=1)] = "maxk-lab"


Parameters = Annotated[dict[str, Any], BeforeValidator(_is_mapping)]


class SweepSpec(Model):
    """A whole sweep file. `environment` and `policy` hold every parameter, defaults too.

    `vary` lists values of their parameters, by keys such as `environment.arms`. `studies` holds one
    study or several by their kind; in the file each is a block of its own, and `spec.gradient` is
    the study of that kind, None where there is none. `content` is that of what the sweep names.
    """

    name: Annotated[str, AfterValidator(folder_name)]
    description: str = ""
    seeds: Seeds
    environment: Parameters
    policy: Parameters = Field(default_factory=dict)
    # Values are parsed by the parameter that they are of, which says best what is wrong with them.
    vary: Annotated[dict[str, OneOrMore[Any]], BeforeValidator(_is_mapping)] = Field(
        default_factory=dict
    )
    studies: dict[str, SerializeAsAny[AnyStudy]] = Field(default_factory=dict)
    tracking: Tracking = Tracking()
    execution: Execution = Execution()
    figures: tuple[Figure, ...] = ()
    claims: tuple[Claim, ...] = ()
    # Filled in when a sweep file is resolved, whatever it says there.
    content: dict[str, dict[str, str]] = Field(default_factory=dict)

    @classmethod
    def keys(cls) -> list[str]:
        """Return the keys of a sweep file: the fields, with the kinds in place of `studies`."""
        keys = list(cls.model_fields)
        at = keys.index("studies")
        return [*keys[:at], *STUDIES.names(), *keys[at + 1 :]]

    def study(self, kind: str) -> Any:
        """Return the study of a kind, None where the sweep has none."""
        return self.studies.get(kind)

    # Any kind of study may be asked for, but a type checker is to see a misspelt field.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in STUDIES:
                return self.study(name)
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
