"""The shape of a sweep file: frozen models, every key known, every number strict."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, create_model

from maxk_lab.errors import shown
from maxk_lab.fields import Different, Model, OneOrMore, Seed, distinct
from maxk_lab.sweep_file.claims import Claim
from maxk_lab.sweep_file.execution import Execution
from maxk_lab.sweep_file.fields import AnyStudy, matching
from maxk_lab.sweep_file.studies import STUDIES

WandbMode = Literal["offline", "online", "disabled"]
WANDB_MODES: tuple[str, ...] = get_args(WandbMode)
# The most characters that W&B takes in a tag.
MOST_OF_TAG = 64
# A sweep may have no more cells than these, and every seed has one at least.
MOST_SEEDS = 1_000_000


_FOLDER_NAME = matching(
    "[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?",
    "names the folder of results: at most 100 letters, digits, '.', '_' and '-', beginning with a "
    "letter or digit and not ending with '.'",
)
# What W&B takes as a name.
_Name = Annotated[str, Field(min_length=1, max_length=128)]
_OfPath = Annotated[_Name, matching(r"[^/\\#?%:]*", r"must have none of / \ # ? % :")]
_Tag = Annotated[str, Field(min_length=1, max_length=MOST_OF_TAG)]


class Tracking(Model):
    """The place where the finished records are tracked.

    `entity` is a user or team of W&B, that of the API key unless given; `group` groups the runs of
    the sweep, by its name unless given; `tags` come to those that every run has.
    """

    wandb: WandbMode = "offline"
    project: _OfPath = "maxk-lab"
    entity: _OfPath | None = None
    group: _Name | None = None
    tags: Different[_Tag] = ()


# Of a sweep without the block: who does not ask for W&B gets no folders of it.
NOT_ASKED_FOR = Tracking(wandb="disabled")


def listed(seeds: Any) -> Any:
    """Return `seeds` as a tuple, a number n as 0 … n − 1. Raises `ValueError` for no such number.

    Entries of a list stay as they are, for validation to name what is wrong with them.
    """
    if isinstance(seeds, list | tuple):
        return tuple(seeds)
    if type(seeds) is int and 1 <= seeds <= MOST_SEEDS:
        return tuple(range(seeds))
    given = "nothing" if seeds is None else shown(seeds)
    one = type(seeds) is int and seeds >= 0
    hint = f"; for the one seed {given} write [{given}]" if one else ""
    raise ValueError(
        f"must be how many seeds (1 to {MOST_SEEDS:,}: from 0 on) or a list of them, got "
        f"{given}{hint}"
    )


Seeds = Annotated[
    tuple[Seed, ...], BeforeValidator(listed), Field(min_length=1), AfterValidator(distinct)
]


class SweepSpec(Model):
    """A whole sweep file. `environment` and `policy` hold every parameter, defaults too.

    `vary` lists values of their parameters, by keys such as `environment.arms`. The block of a
    study is a field of its kind, as `model_of` adds them. `content` is that of what the sweep
    names.
    """

    name: Annotated[str, _FOLDER_NAME]
    description: str = ""
    seeds: Seeds
    environment: dict[str, Any]
    policy: dict[str, Any] = Field(default_factory=dict)
    # Values are parsed by the parameter that they are of, which says best what is wrong with them.
    vary: dict[str, OneOrMore[Any]] = Field(default_factory=dict)
    tracking: Tracking = NOT_ASKED_FOR
    execution: Execution = Execution()
    claims: Annotated[tuple[Claim, ...], Field(strict=False)] = ()
    # Filled in when a sweep file is resolved, whatever it says there.
    content: dict[str, dict[str, str]] = Field(default_factory=dict)

    @classmethod
    def in_order(cls) -> list[str]:
        """Return the keys of a sweep file in their order, with every kind of study."""
        before = ("name", "description", "seeds", "environment", "policy", "vary")
        rest = [key for key in SweepSpec.model_fields if key not in before]
        return [*before, *STUDIES.names(), *rest]

    @property
    def studies(self) -> dict[str, Any]:
        """The studies of the sweep by their kind, in the order of the catalogue."""
        fields = type(self).model_fields
        return {kind: getattr(self, kind) for kind in STUDIES.names() if kind in fields}

    # Any kind of study may be asked for, None where the sweep has none; a type checker is to see a
    # misspelt field.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in STUDIES:
                return None
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")


def model_of(tree: Mapping[str, Any]) -> type[SweepSpec]:
    """Return the model of a sweep file that has a block of the same kinds as `tree`."""
    kinds = (row for row in STUDIES if row.name in tree)
    return _with_studies(tuple((row.name, row.part("spec").Study) for row in kinds))


@cache
def _with_studies(studies: tuple[tuple[str, type[AnyStudy]], ...]) -> type[SweepSpec]:
    fields: Any = {kind: (study, ...) for kind, study in studies}
    return create_model("SweepSpec", __base__=SweepSpec, **fields)
