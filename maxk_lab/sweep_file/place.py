"""The environment and the policy of a sweep: unions of the settings of their catalogue rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache, reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    PlainSerializer,
    Tag,
    ValidationInfo,
    WrapValidator,
    create_model,
)

from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError
from maxk_lab.fields import Model
from maxk_lab.files import resolved_file
from maxk_lab.policies.catalogue import POLICIES
from maxk_lab.settings import Setting
from maxk_lab.sweep_file.text import Location

Block = Mapping[str, Any]
# The validation of a run on disk: blocks stay unchanged, also if their rows are not installed.
RECORDED = {"recorded": True}
_Checkpoint = Annotated[
    dict[str, str] | None,
    BeforeValidator(lambda file: None if file is None else resolved_file(file, "checkpoint")),
]
_AS_IT_IS = PlainSerializer(lambda block: block)


class Place(Model):
    """An environment and a policy, each as the settings of its row, all defaults filled in.

    Settings that are newer than the first records are left out at their defaults. The policy's name
    is left out if it is the environment's first policy.
    """

    environment: dict[str, Any]
    policy: dict[str, Any] = Field(default_factory=dict)


def place_fields(environment: object) -> dict[str, Any]:
    """Return the fields of a `Place` in the environment of this name, for `create_model`.

    In an unknown environment the policy may have the settings of any policy.
    """
    name = environment if isinstance(environment, str) and environment in ENVIRONMENTS else ""
    policy = _policy_type(name, POLICIES.names())
    default = Field(default_factory=dict, validate_default=True)
    return {
        "environment": (_environment_type(ENVIRONMENTS.names()), ...),
        "policy": (policy, default),
    }


def place_model(environment: object) -> type[Place]:
    """Return the model of a place in the environment of this name."""
    return _place_model(environment, ENVIRONMENTS.names(), POLICIES.names())


@lru_cache(maxsize=32)
def _place_model(environment: object, *catalogues: tuple[str, ...]) -> type[Place]:
    return create_model("Place", __base__=Place, **place_fields(environment))


def read_place(environment: Block, policy: Block) -> Place:
    """Validate an environment and its policy. Raises `ValidationError`."""
    model = place_model(environment["name"])
    return model.model_validate({"environment": environment, "policy": policy})


@lru_cache(maxsize=4)
def _environment_type(names: tuple[str, ...]) -> Any:
    def member(name: str) -> Any:
        fields: Any = {"name": (Literal[name], ...)}
        return create_model(name, __base__=ENVIRONMENTS.get(name).settings, **fields)

    members = map(member, names)
    union: Any = Annotated[reduce(or_, members), Field(discriminator="name")]
    return Annotated[union, WrapValidator(_resolve), _AS_IT_IS]


@lru_cache(maxsize=32)
def _policy_type(environment: str, policies: tuple[str, ...]) -> Any:
    if not environment:
        keys: Any = {key: (Any, None) for row in POLICIES for key in row.settings.model_fields}
        keys |= {"name": (Any, None), "checkpoint": (Any, None)}
        model = create_model("AnyPolicy", __base__=Model, **keys)
        return Annotated[model, WrapValidator(_keep), _AS_IT_IS]
    row = ENVIRONMENTS.get(environment)

    def member(name: str) -> Any:
        fields: Any = {"name": (Literal[name] | None, None), "checkpoint": (_Checkpoint, None)}
        settings = row.settings_of({"name": name})
        return Annotated[create_model(name, __base__=settings, **fields), Tag(name)]

    def tag(block: Any) -> str | None:
        policy = block if isinstance(block, Mapping) else {}
        try:
            row.policy_row(policy)
        except LabError:  # `findings` reports it
            return None
        return str(policy.get("name", row.policies[0]))

    def resolve(block: Any, handler: Any, info: ValidationInfo) -> dict[str, Any]:
        if info.context == RECORDED:
            return dict(block)
        model: Any = handler(block)
        written = model.model_dump(include={"name", "checkpoint"}, exclude_none=True)
        settings = model.without_later(model.model_dump(exclude={"name", "checkpoint"}))
        checkpoint = {key: written.pop(key) for key in ("checkpoint",) if key in written}
        resolved: dict[str, Any] = row.written(written | settings)
        return resolved | checkpoint

    members = [*map(member, row.accepted_policies)]
    # pydantic rejects a union of one type.
    union: Any = reduce(or_, members)
    union = Annotated[union, Discriminator(tag)] if members[1:] else union
    return Annotated[union, WrapValidator(resolve), _AS_IT_IS]


def _keep(block: Any, handler: Any, info: ValidationInfo) -> dict[str, Any]:
    return dict(block if info.context == RECORDED else handler(block))


def _resolve(block: Any, handler: Any, info: ValidationInfo) -> dict[str, Any]:
    if info.context == RECORDED:
        return dict(block)
    model = handler(block)
    settings: dict[str, Any] = model.without_later(model.model_dump())
    return {"name": model.name} | settings


def refusal(environment: Block, policy: Block) -> str | None:
    """Return why a resolved environment and policy cannot run, or None.

    Also None if they are not installed, as on a machine that only reports a run.
    """
    if not _installed(environment, policy):
        return None
    parameters = {name: value for name, value in environment.items() if name != "name"}
    settings = {name: value for name, value in policy.items() if name != "checkpoint"}
    try:
        return ENVIRONMENTS.get(environment["name"]).refusal(parameters, settings)
    except LabError as error:
        return str(error)


def culprit(reason: str, environment: Block, policy: Block) -> Location:
    """Return the location of a refusal: the value that it quotes, or the first key in it."""
    places: dict[tuple[int | str, ...], Any] = {}
    for block, settings in (("environment", environment), ("policy", policy)):
        for name, value in settings.items():
            entries = enumerate(value) if isinstance(value, list) else ()
            places |= {(block, name): value}
            places |= {(block, name, number): entry for number, entry in entries}
    for path, value in places.items():
        quoted = repr(value) if value and (isinstance(value, str) or len(path) > 2) else ""
        if path[1] != "name" and quoted and quoted in reason:
            return path
    names = {path[1]: path for path in reversed(places) if len(path) == 2}
    words = (word for word in re.findall(r"\w+", reason) if word in names)
    return names.get(next(words, ""), ("environment",))


def _installed(environment: Block, policy: Block) -> bool:
    return environment["name"] in ENVIRONMENTS and (
        "name" not in policy or policy["name"] in POLICIES
    )


def settings_by_key(environment: str, policy: Block) -> dict[str, Setting]:
    """Return the settings of an environment and its policy, by keys as `policy.mean`.

    Empty if either is not installed. Raises `LabError` for a policy that does not fit.
    """
    if not _installed({"name": environment}, policy):
        return {}
    row = ENVIRONMENTS.get(environment)
    blocks = {"environment": row.settings, "policy": row.settings_of(policy)}
    return {
        f"{block}.{each.name}": each for block, model in blocks.items() for each in model.each()
    }


def moved(environment: Block, policy: Block, key: str, value: Any) -> tuple[Block, Block]:
    """Return a resolved environment and policy with another value of the setting at `key`.

    Raises `LabError` for a value that the setting or the environment refuses. Also raises for the
    default of a later setting, because the default means that the setting is absent.
    """
    block, _, name = key.partition(".")
    blocks = {"environment": dict(environment), "policy": dict(policy)}
    setting = settings_by_key(environment["name"], policy).get(key)
    if setting is None:
        raise LabError(f"{environment['name']} has no {key}")
    blocks[block][name] = parsed = setting.parse(value)
    if setting.later and parsed == setting.default:
        raise LabError(f"{name} = {value} stands for none being given: {setting.meaning}")
    if (reason := refusal(**blocks)) is not None:
        raise LabError(reason)
    return blocks["environment"], blocks["policy"]
