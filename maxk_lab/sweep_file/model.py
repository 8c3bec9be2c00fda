"""The shape of a sweep file: strict frozen models, whose JSON schema editors can read."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, create_model

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import shown
from maxk_lab.fields import Model, OneOrMore, Seed, distinct
from maxk_lab.policies.catalogue import POLICIES
from maxk_lab.sweep_file.claims import Claim
from maxk_lab.sweep_file.execution import Execution
from maxk_lab.sweep_file.fields import check_text
from maxk_lab.sweep_file.place import Place, place_fields
from maxk_lab.sweep_file.studies import STUDIES

WandbMode = Literal["offline", "online", "disabled"]
WANDB_MODES: tuple[str, ...] = get_args(WandbMode)
# Meanings and examples of the keys.
KEYS = Path(__file__).with_name("keys.yaml")
# The most cells of a sweep; every seed has at least one.
MOST_SEEDS = 1_000_000

_FOLDER = (
    "[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?",
    "names the folder of results: at most 100 letters, digits, '.', '_' and '-', beginning with a "
    "letter or digit and not ending with '.'",
)
_FolderName = Annotated[str, AfterValidator(lambda name: check_text(name, *_FOLDER))]


class Tracking(Model):
    """Weights & Biases: WANDB_PROJECT, WANDB_ENTITY and WANDB_RUN_GROUP set the destination."""

    wandb: WandbMode = "offline"


# Without this block nothing is written for W&B.
NO_TRACKING = Tracking(wandb="disabled")


def list_seeds(seeds: Any) -> Any:
    """Return `seeds` as a tuple; a number n means 0 … n − 1. Raises `ValueError` for another value.

    The entries of a list are validated later.
    """
    if isinstance(seeds, list | tuple):
        return tuple(seeds)
    if type(seeds) is int and 1 <= seeds <= MOST_SEEDS:
        return tuple(range(seeds))
    got = "nothing" if seeds is None else shown(seeds)
    hint = f"; for the one seed {got} write [{got}]" if type(seeds) is int and seeds >= 0 else ""
    raise ValueError(
        f"must be how many seeds (1 to {MOST_SEEDS:,}: from 0 on) or a list of them, "
        f"got {got}{hint}"
    )


Seeds = Annotated[
    tuple[Seed, ...],
    BeforeValidator(list_seeds),
    Field(min_length=1),
    AfterValidator(distinct),
    WithJsonSchema({"type": ["integer", "array"], "items": {"type": "integer"}}),
]


class Sweep(Place):
    """A sweep file, all defaults filled in.

    `vary` lists values of settings of environment and policy, by keys such as `environment.arms`.
    The block of a study is a field of its kind, as `sweep_model` adds it. `content` holds the
    hashes of the code and files that the sweep names; planning fills it in.
    """

    name: _FolderName
    description: str = ""
    seeds: Seeds
    # Validated by the settings of each value.
    vary: dict[str, OneOrMore[Any]] = Field(default_factory=dict)
    tracking: Tracking = NO_TRACKING
    execution: Execution = Execution()
    claims: Annotated[tuple[Claim, ...], Field(strict=False)] = ()
    content: dict[str, dict[str, str]] = Field(default_factory=dict)

    @classmethod
    def in_order(cls) -> list[str]:
        """Return the keys of a sweep file in order, with every kind of study."""
        before = ("name", "description", "seeds", "environment", "policy", "vary")
        rest = [key for key in Sweep.model_fields if key not in before]
        return [*before, *STUDIES.names(), *rest]

    @property
    def studies(self) -> dict[str, Any]:
        """The studies of the sweep by kind, in the order of the catalogue."""
        fields = type(self).model_fields
        return {kind: getattr(self, kind) for kind in STUDIES.names() if kind in fields}

    # A kind without a block is None; a type checker still reports a misspelt field.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in STUDIES:
                return None
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")


def sweep_model(
    kinds: Collection[str] | None = None, environment: str | None = None
) -> type[Sweep]:
    """Return the model of a sweep file with these kinds of study in an environment.

    Without kinds every study is optional, as in the JSON schema.
    """
    needed = None if kinds is None else tuple(name for name in STUDIES.names() if name in kinds)
    return _sweep_model(needed, environment, ENVIRONMENTS.names(), POLICIES.names())


@lru_cache(maxsize=32)
def _sweep_model(
    kinds: tuple[str, ...] | None, environment: str | None, *catalogues: tuple[str, ...]
) -> type[Sweep]:
    fields = place_fields(environment)
    for kind in STUDIES.names() if kinds is None else kinds:
        row = STUDIES.get(kind)
        study = row.model(row.block)
        fields[kind] = (study | None, None) if kinds is None else (study, ...)
    return create_model("Sweep", __base__=Sweep, **fields)


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a sweep file, for editors."""
    schema = sweep_model().model_json_schema()
    for path, (meaning, example) in yaml.safe_load(KEYS.read_text(encoding="utf-8")).items():
        *blocks, key = path.split(".")
        fields = schema["properties"]
        for block in blocks:
            model = re.search(r"#/\$defs/(\w+)", str(fields.get(block)))
            fields = schema["$defs"][model[1]]["properties"] if model else {}
        if key in fields:
            fields[key] |= {"description": meaning} | ({"examples": [example]} if example else {})
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return schema
