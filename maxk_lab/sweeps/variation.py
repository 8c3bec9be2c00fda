"""What a sweep varies: parameters of its environment and of the policy, every combination of their values a variant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from maxk_lab.catalogue import Parameter, nearest
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError
from maxk_lab.sweeps.fields import as_tuple
from maxk_lab.sweeps.source import Source, TreePath

Resolved = tuple[dict[str, Any], dict[str, Any]]
Vary = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Variant:
    """One combination: the varied values by key, the environment and policy they give, and why these cannot run."""

    setting: dict[str, Any]
    environment: dict[str, Any]
    policy: dict[str, Any]
    refusal: str | None = None


def variants(environment: Mapping[str, Any], policy: Mapping[str, Any], vary: Vary) -> Iterator[Variant]:
    """Every combination of parsed values, the last key running fastest; the environment as it is where nothing varies."""
    # What is refused with nothing varied was sound when the run was made: a reward function that is not at hand where
    # the run is reported. It says nothing of the combinations.
    always = _refusal(dict(environment), dict(policy)) if vary else None
    for values in product(*vary.values()):
        setting = dict(zip(vary, values, strict=True))
        blocks = {"environment": dict(environment), "policy": dict(policy)}
        for key, value in setting.items():
            block, _, name = key.partition(".")
            parameter = parameters_of(environment["name"]).get(key)
            # At its default an optional parameter stays out, here as in a sweep that does not vary it.
            if parameter is not None and parameter.optional and value == parameter.parse(parameter.default):
                blocks[block].pop(name, None)
            else:
                blocks[block][name] = value
        refused = _refusal(**blocks) if vary else None
        yield Variant(
            setting, blocks["environment"], blocks["policy"], None if refused == always else refused
        )


def parameters_of(environment: str) -> dict[str, Parameter]:
    """The parameters of an environment and its policy, by keys such as `policy.mean`; none of an unknown one."""
    if environment not in ENVIRONMENTS:
        return {}
    row = ENVIRONMENTS.get(environment)
    blocks = {"environment": row.parameters, "policy": row.policy_parameters}
    return {f"{block}.{p.name}": p for block, parameters in blocks.items() for p in parameters}


def resolve_vary(source: Source, resolved: Resolved) -> dict[str, tuple[Any, ...]] | None:
    """`vary` with every value parsed; None if it has problems, which are noted."""
    written = source.tree.get("vary", {})
    if not isinstance(written, Mapping):
        return None
    before = len(source.problems)
    known = parameters_of(resolved[0]["name"])
    parsed: dict[str, tuple[Any, ...]] = {}
    for key, values in written.items():
        path: TreePath = ("vary", key)
        if key not in known:
            hint = nearest(key, known)
            also = f" (did you mean {hint}?)" if hint else ""
            source.add(path, f"{resolved[0]['name']} has no {key}{also}; known: {', '.join(known)}", key=True)
        elif known[key].many:
            source.add(path, f"{known[key].name} is a list; a sweep varies single values", key=True)
        else:
            parsed[key] = _parse(known[key], values, path, source)
    if len(source.problems) > before or not all(parsed.values()):
        return None
    found = list(variants(*resolved, parsed))
    if parsed and all(variant.refusal is not None for variant in found):
        reason = next(variant.refusal for variant in found)
        source.add(("vary",), f"none of its {len(found)} combinations can run: {reason}")
        return None
    return parsed


def _parse(parameter: Parameter, values: Any, path: TreePath, source: Source) -> tuple[Any, ...]:
    parsed: list[Any] = []
    for number, value in enumerate(as_tuple(values)):
        at = (*path, str(number)) if isinstance(values, list) else path
        try:
            found = parameter.parse(value)
        except LabError as error:
            source.add(at, str(error))
            continue
        if found in parsed:
            source.add(at, f"must be distinct, got {found} more than once")
        parsed.append(found)
    return tuple(parsed)


def _refusal(environment: dict[str, Any], policy: dict[str, Any]) -> str | None:
    if environment["name"] not in ENVIRONMENTS:
        return None
    parameters = {name: value for name, value in environment.items() if name != "name"}
    return ENVIRONMENTS.get(environment["name"]).refusal(parameters, policy)
