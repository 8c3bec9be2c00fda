"""The content of what a sweep only names, such as a reward function of the user's own.

A name stays when the code or the weights behind it change. So the resolved spec keeps, for all that
is not the lab's own, the hash of what is there, and the id of a cell holds those that it rests on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from maxk_lab.catalogue import Catalogue
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.lookup import is_function_path
from maxk_lab.errors import LabError
from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS
from maxk_lab.installed import name_and_version
from maxk_lab.policies.catalogue import POLICIES, PRETRAINED_FOLDER
from maxk_lab.policies.model_folder import folder_hash
from maxk_lab.sweeps.plan.identity import Content
from maxk_lab.sweeps.plan.sources import package_modules, source_hash
from maxk_lab.sweeps.studies import STUDIES

if TYPE_CHECKING:
    from maxk_lab.sweeps.spec.schema import SweepSpec
    from maxk_lab.sweeps.spec.variation import Variant

# The axes of a grid whose values are rows of a catalogue.
_AXES: Mapping[str, Catalogue[Any]] = {"estimator": ESTIMATORS, "baseline": BASELINES}


def content_of(spec: SweepSpec) -> Content:
    """Return the content of all that a validated spec names and that is not the lab's own.

    Each entry has the SHA-256 of a model's files, or of the source of code, which for that of a
    plugin comes with the package and its version.
    """
    from maxk_lab.sweeps.spec.variation import variants

    found: dict[str, Mapping[str, str]] = {}
    for variant in variants(spec.environment, spec.policy, spec.vary):
        if variant.refusal is None:
            place = {"environment": variant.environment, "policy": variant.policy}
            for kind, study in spec.studies.items():
                told = place | {"study": study.model_dump(mode="json")}
                found |= _resolved(_named(kind, told), known=found)
    return found


def named_content(content: Content, study: str, told: Mapping[str, Any]) -> Content:
    """Return the entries of what a unit of this kind names in all that its worker is told."""
    found = {key: content[key] for key in _named(study, told) if key in content}
    folder = model_folder(told["policy"])
    # Where the folder lies tells nothing.
    return {PRETRAINED_FOLDER if key == folder else key: one for key, one in found.items()}


def was_sound(variant: Variant, content: Content) -> bool:
    """Return whether a variant ran, though the folder of its model is here no more."""
    refused = variant.refusal or ""
    return refused.startswith(PRETRAINED_FOLDER) and model_folder(variant.policy) in content


def model_folder(policy: Mapping[str, Any]) -> str:
    """Return the folder of the model that a policy begins with; empty where there is none."""
    return str(policy.get(PRETRAINED_FOLDER) or "")


def check_content(study: str, unit: Mapping[str, Any], cells: Iterable[Mapping[str, Any]]) -> None:
    """Raise `LabError` where something that a unit and its cells name has changed since the plan.

    What has been measured with it would bear the name of what it no longer is.
    """
    planned: dict[str, Mapping[str, str]] = dict(unit.get("content", {}))
    names = _named(study, unit)
    for cell in cells:
        planned |= cell.get("content", {})
        names |= named_on_axes(cell)
    if not planned:
        return
    now = _resolved(names, known={})
    folder = model_folder(unit["policy"])
    for key, there in planned.items():
        is_model = key == PRETRAINED_FOLDER
        if now.get(folder if is_model else key) != there:
            what = f"the files of {folder}" if is_model else f"code of {key}"
            raise LabError(
                f"{what} changed while the run was at work: the same command measures it anew"
            )


def function_paths(told: Any) -> Iterator[str]:
    """Yield every text in what a worker is told that may be the path of a function."""
    if isinstance(told, str) and is_function_path(told):
        yield told
    inside = told.values() if isinstance(told, Mapping) else told
    for one in inside if isinstance(inside, Iterable) and not isinstance(told, str) else ():
        yield from function_paths(one)


_Names = dict[str, tuple[Catalogue[Any] | None, str]]


def _named(study: str, told: Mapping[str, Any]) -> _Names:
    """The rows, functions and the folder that are named, by their keys in the content."""
    environment, policy = told["environment"], told["policy"]
    found: _Names = {path: (None, path) for path in function_paths(told)}
    rows: list[tuple[Catalogue[Any], str]] = [(STUDIES, study)]
    if environment["name"] in ENVIRONMENTS:
        row = ENVIRONMENTS.get(environment["name"])
        rows += [(ENVIRONMENTS, row.name), (POLICIES, policy.get("name", row.policies[0]))]
        rows += row.named(environment)
    found |= {f"{catalogue.kind} {name}": (catalogue, name) for catalogue, name in rows}
    folder = model_folder(policy)
    return found | named_on_axes(told) | ({folder: (None, folder)} if folder else {})


def named_on_axes(told: Any) -> dict[str, tuple[Catalogue[Any], str]]:
    """Return the estimators and baselines named anywhere, without parameters, by their keys."""
    found: dict[str, tuple[Catalogue[Any], str]] = {}
    for key, value in told.items() if isinstance(told, Mapping) else ():
        catalogue = _AXES.get(key)
        for one in value if isinstance(value, list | tuple) else (value,):
            if catalogue is not None and isinstance(one, str):
                name = one.partition("[")[0].strip()
                found[f"{catalogue.kind} {name}"] = catalogue, name
            else:
                found |= named_on_axes(one)
    return found


def _resolved(names: _Names, known: Content) -> dict[str, Mapping[str, str]]:
    """Return the content of what is not known yet; what is the lab's own has none."""
    found: dict[str, Mapping[str, str]] = {}
    for key, (catalogue, name) in names.items():
        if key in known:
            continue
        if catalogue is not None:
            there = _of_row(catalogue, name)
        elif is_function_path(name):
            there = _of_source([name.partition(":")[0]])
        else:
            there = {"sha256": folder_hash(name)}
        if there:
            found[key] = there
    return found


def _of_row(catalogue: Catalogue[Any], name: str) -> Mapping[str, str]:
    point = catalogue.origin(name)
    if point is None:
        return {}
    # The code of a row is a function in a module, or a whole package.
    module, _, function = catalogue.get(name).implementation.partition(":")
    modules = [module] if function else package_modules(module)
    package, version = name_and_version(point)
    return {"package": package, "version": version, **_of_source([point.module, *modules])}


def _of_source(modules: Iterable[str]) -> Mapping[str, str]:
    found = source_hash(modules)
    return {} if found is None else {"sha256": found}
