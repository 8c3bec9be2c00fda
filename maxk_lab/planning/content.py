"""The content of what a sweep only names, such as a reward function of the user's own.

A name stays when the code or the weights behind it change. So the resolved spec keeps, for all that
is not the lab's own, the hash of what is there, and the id of a cell holds those that it rests on.
Nothing is imported to tell.
"""

from __future__ import annotations

import ast
import hashlib
import sysconfig
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxk_lab.catalogue import Catalogue
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.errors import LabError
from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS
from maxk_lab.installed import NoModuleError, is_function_path, name_and_version, place_of
from maxk_lab.planning.identity import Content
from maxk_lab.policies.catalogue import POLICIES, PRETRAINED_FOLDER, folder_hash

if TYPE_CHECKING:
    from maxk_lab.sweep_file.schema import SweepSpec
    from maxk_lab.sweep_file.variation import Variant

OURS = __name__.partition(".")[0]
# Folders in which everything is installed.
_SITES = ("site-packages", "dist-packages")
# The axes of a grid whose values are rows of a catalogue.
_AXES: Mapping[str, Catalogue[Any]] = {"estimator": ESTIMATORS, "baseline": BASELINES}
# What is named, by its key in the content: a row of a catalogue, or a function or folder by itself.
_Names = dict[str, tuple[Catalogue[Any] | None, str]]


def content_of(spec: SweepSpec) -> Content:
    """Return the content of all that a validated spec names and that is not the lab's own.

    Each entry has the SHA-256 of a model's files, or of the source of code, which for that of a
    plugin comes with the package and its version.
    """
    from maxk_lab.sweep_file.variation import variants

    names: _Names = {}
    for variant in variants(spec.environment, spec.policy, spec.vary):
        if variant.refusal is None:
            place = {"environment": variant.environment, "policy": variant.policy}
            for study in spec.studies.values():
                names |= names_in(place | {"study": study.model_dump(mode="json")})
    return _resolved(names)


def named_content(content: Content, told: Mapping[str, Any]) -> Content:
    """Return the entries of what a unit names in all that its worker is told."""
    folder = model_folder(told["policy"])
    # Where the folder lies tells nothing.
    return {
        PRETRAINED_FOLDER if key == folder else key: content[key]
        for key in names_in(told)
        if key in content
    }


def was_sound(variant: Variant, content: Content) -> bool:
    """Return whether a variant ran, though the folder of its model is here no more."""
    refused = variant.refusal or ""
    return refused.startswith(PRETRAINED_FOLDER) and model_folder(variant.policy) in content


def model_folder(policy: Mapping[str, Any]) -> str:
    """Return the folder of the model that a policy begins with; empty where there is none."""
    return str(policy.get(PRETRAINED_FOLDER) or "")


def changed_since(spec: SweepSpec) -> list[str]:
    """Return the functions, rows and models whose content differs from that in a resolved spec.

    Those that are not installed here are left out.
    """
    try:
        content = content_of(spec) if spec.content else {}
    except (LabError, OSError):
        return []
    return [key for key, then in spec.content.items() if content.get(key, then) != then]


def check_content(unit: Mapping[str, Any], cells: Iterable[Mapping[str, Any]]) -> None:
    """Raise `LabError` where something that a unit and its cells name has changed since the plan.

    What has been measured with it would bear the name of what it no longer is.
    """
    planned: dict[str, Mapping[str, str]] = dict(unit.get("content", {}))
    for cell in cells:
        planned |= cell.get("content", {})
    now = _resolved(names_in(unit, cells)) if planned else {}
    folder = model_folder(unit["policy"])
    for key, there in planned.items():
        is_model = key == PRETRAINED_FOLDER
        if now.get(folder if is_model else key) != there:
            what = f"the files of {folder}" if is_model else f"code of {key}"
            raise LabError(
                f"{what} changed while the run was at work: the same command measures it anew"
            )


def texts_in(told: Any) -> Iterator[str]:
    """Yield every text in plain values, those of keys, too."""
    if isinstance(told, str):
        yield told
    elif isinstance(told, Iterable):
        for one in told.items() if isinstance(told, Mapping) else told:
            yield from texts_in(one)


def function_paths(told: Any) -> Iterator[str]:
    """Yield every text in what a worker is told that may be the path of a function."""
    return filter(is_function_path, texts_in(told))


def named_on_axes(told: Any) -> _Names:
    """Return the estimators and baselines named anywhere, without parameters, by their keys."""
    rows: _Names = {}
    for key, value in told.items() if isinstance(told, Mapping) else ():
        catalogue = _AXES.get(key)
        for one in value if isinstance(value, list | tuple) else (value,):
            if catalogue is not None and isinstance(one, str):
                name = one.partition("[")[0].strip()
                own = is_function_path(name)
                rows[f"{catalogue.kind} {name}"] = None if own else catalogue, name
            else:
                rows |= named_on_axes(one)
    return rows


def names_in(told: Mapping[str, Any], cells: Iterable[Any] = ()) -> _Names:
    """Return the rows, functions and folder that a unit and its cells name, by their keys."""
    environment, policy = told["environment"], told["policy"]
    names: _Names = {path: (None, path) for path in function_paths([told, *cells])}
    rows: list[tuple[Catalogue[Any], str]] = []
    if environment["name"] in ENVIRONMENTS:
        row = ENVIRONMENTS.get(environment["name"])
        rows += [(ENVIRONMENTS, row.name), (POLICIES, policy.get("name", row.policies[0]))]
        rows += row.named(environment)
    names |= {f"{catalogue.kind} {name}": (catalogue, name) for catalogue, name in rows}
    folder = model_folder(policy)
    for one in (told, *cells):
        names |= named_on_axes(one)
    return names | ({folder: (None, folder)} if folder else {})


def _resolved(names: _Names) -> Content:
    """Return the content of these; what is the lab's own has none."""
    content: dict[str, Mapping[str, str]] = {}
    for key, (catalogue, name) in names.items():
        if catalogue is not None:
            entry = _of_row(catalogue, name)
        elif is_function_path(name):
            entry = _of_source([name.partition(":")[0]])
        else:
            entry = {"sha256": folder_hash(name)}
        if entry:
            content[key] = entry
    return content


def _of_row(catalogue: Catalogue[Any], name: str) -> Mapping[str, str]:
    point = catalogue.origin(name)
    if point is None:
        return {}
    package, version = name_and_version(point)
    code = _of_source([point.module, catalogue.get(name).implementation.partition(":")[0]])
    return {"package": package, "version": version, **code}


def _of_source(modules: Iterable[str]) -> Mapping[str, str]:
    files = sorted(source_files(modules).items())
    texts = ((name, path.read_bytes().replace(b"\r\n", b"\n")) for name, path in files)
    lines = "".join(f"{name} {hashlib.sha256(text).hexdigest()}\n" for name, text in texts)
    return {"sha256": hashlib.sha256(lines.encode()).hexdigest()} if files else {}


def source_files(modules: Iterable[str]) -> dict[str, Path]:
    """Return the files of the top-level packages of modules, by their names from the folder there.

    With those of the user's own come all that they import from the same folder. There are none of
    the lab, of Python itself, and of what is not there.
    """
    files: dict[str, Path] = {}
    queue = [(module.partition(".")[0], _folder_of(module)) for module in modules]
    seen = {OURS}
    for first, folder in queue:
        if folder is None or first in seen or _folder_of(first) != folder:
            continue
        seen.add(first)
        alone, place, file = folder.name in _SITES, folder / first, folder / f"{first}.py"
        # A folder without an __init__ is the package only where no module has its name.
        is_module = file.is_file() and not (place / "__init__.py").is_file()
        for path in [file] if is_module else place.rglob("*.py"):
            files[path.relative_to(folder).as_posix()] = path
            queue += [(one, folder) for one in (() if alone else _imports(path) - seen)]
    return files


def _imports(path: Path) -> set[str]:
    """Return the top-level packages that a file imports by name."""
    names: set[str] = set()
    with warnings.catch_warnings(), suppress(SyntaxError, ValueError, RecursionError):
        warnings.simplefilter("ignore")  # such as of a backslash; its import shows them
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    return names


def _folder_of(module: str) -> Path | None:
    """Return the folder that a top-level package lies in; None for those of Python itself."""
    try:
        spec = place_of(module.partition(".")[0])
    except (NoModuleError, ValueError, ImportError):
        return None
    inside = spec.submodule_search_locations
    place = next(iter(inside), None) if inside is not None else spec.origin
    if not place or not Path(place).exists():
        return None
    folder = Path(place).absolute().parent
    return None if str(folder) in map(sysconfig.get_path, ("stdlib", "platstdlib")) else folder
