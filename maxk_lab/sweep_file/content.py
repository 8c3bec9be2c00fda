"""The content behind names in a sweep, such as a reward function of the user.

A name stays when its code or weights change. So the resolved sweep has the hash of the content, and
the id of a cell includes the hashes of its content. Nothing is imported for this.
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
from maxk_lab.policies.catalogue import POLICIES, PRETRAINED_FOLDER, folder_hash
from maxk_lab.sweep_file.vary import variants

if TYPE_CHECKING:
    from maxk_lab.sweep_file.model import Sweep
    from maxk_lab.sweep_file.vary import Variant

# The hash of code or files behind each name; for a plugin with its package and version.
Content = Mapping[str, Mapping[str, str]]
# A row of a catalogue, or a function or folder without a catalogue, by its key in the content.
Names = dict[str, tuple[Catalogue[Any] | None, str]]
# The axes of a grid whose values are rows of a catalogue.
_AXES: Mapping[str, Catalogue[Any]] = {"estimator": ESTIMATORS, "baseline": BASELINES}
# The folders of installed packages.
_SITES = ("site-packages", "dist-packages")


def content_of(spec: Sweep) -> Content:
    """Return the content of everything outside this package that a validated sweep names."""
    names: Names = {}
    blocks = [study.model_dump(mode="json") for study in spec.studies.values()]
    for variant in variants(spec, spec.vary):
        if variant.refusal is None:
            place = {"environment": variant.environment, "policy": variant.policy}
            names |= names_in(place, blocks)
    return _hashes(names)


def changed_since(spec: Sweep) -> list[str]:
    """The names in a resolved sweep whose content has changed here; absent names are left out."""
    try:
        current = content_of(spec) if spec.content else {}
    except (LabError, OSError):
        return []
    return [key for key, entry in spec.content.items() if current.get(key, entry) != entry]


def named_content(content: Content, settings: Mapping[str, Any]) -> Content:
    """Return the content of the names in a unit's settings, without the path of its model."""
    folder = model_folder(settings["policy"])
    return {
        PRETRAINED_FOLDER if key == folder else key: content[key]
        for key in names_in(settings)
        if key in content
    }


def check_content(unit: Mapping[str, Any], cells: Iterable[Mapping[str, Any]]) -> None:
    """Raise `LabError` if content that a unit and its cells name has changed since the plan."""
    planned: dict[str, Mapping[str, str]] = dict(unit.get("content", {}))
    for cell in cells:
        planned |= cell.get("content", {})
    current = _hashes(names_in(unit, cells)) if planned else {}
    folder = model_folder(unit["policy"])
    for key, entry in planned.items():
        is_model = key == PRETRAINED_FOLDER
        if current.get(folder if is_model else key) != entry:
            what = f"the files of {folder}" if is_model else f"code of {key}"
            raise LabError(
                f"{what} changed while the run was at work: the same command measures it again"
            )


def model_missing(variant: Variant, content: Content) -> bool:
    """Return whether a variant is refused only because the folder of its model is missing here."""
    refusal = variant.refusal or ""
    return refusal.startswith(PRETRAINED_FOLDER) and model_folder(variant.policy) in content


def model_folder(policy: Mapping[str, Any]) -> str:
    """Return the folder of the model that a policy begins with, or an empty text."""
    return str(policy.get(PRETRAINED_FOLDER) or "")


def names_in(unit: Mapping[str, Any], cells: Iterable[Any] = ()) -> Names:
    """Return the rows, functions and model folder that a unit and its cells name, by key."""
    environment, policy = unit["environment"], unit["policy"]
    names: Names = {
        path: (None, path) for path in filter(is_function_path, texts_in([unit, *cells]))
    }
    if environment["name"] in ENVIRONMENTS:
        row = ENVIRONMENTS.get(environment["name"])
        rows: list[tuple[Catalogue[Any], str]] = [(ENVIRONMENTS, row.name)]
        rows += [(POLICIES, policy.get("name", row.policies[0])), *row.named(environment)]
        names |= {f"{catalogue.kind} {name}": (catalogue, name) for catalogue, name in rows}
    for block in (unit, *cells):
        names |= rows_on_axes(block)
    folder = model_folder(policy)
    return names | ({folder: (None, folder)} if folder else {})


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text in a plain value, keys of mappings too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Iterable):
        for inner in value.items() if isinstance(value, Mapping) else value:
            yield from texts_in(inner)


def files_in(value: Any) -> Iterator[str]:
    """Yield the paths of the files that a resolved sweep names."""
    if isinstance(value, Mapping):
        if value.keys() == {"path", "sha256"}:
            yield str(value["path"])
        else:
            for inner in value.values():
                yield from files_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from files_in(inner)


def rows_on_axes(value: Any) -> Names:
    """Return the estimators and baselines that a plain value names, without parameters."""
    rows: Names = {}
    for key, inner in value.items() if isinstance(value, Mapping) else ():
        catalogue = _AXES.get(key)
        for entry in inner if isinstance(inner, list | tuple) else (inner,):
            if catalogue is not None and isinstance(entry, str):
                name = entry.partition("[")[0].strip()
                row = None if is_function_path(name) else catalogue
                rows[f"{catalogue.kind} {name}"] = row, name
            else:
                rows |= rows_on_axes(entry)
    return rows


def _hashes(names: Names) -> Content:
    """Return the content of these names; rows of this package have none."""
    content: dict[str, Mapping[str, str]] = {}
    for key, (catalogue, name) in names.items():
        entry: Mapping[str, str] = {}
        if catalogue is None and is_function_path(name):
            entry = _source_hash([name.partition(":")[0]])
        elif catalogue is None:
            entry = {"sha256": folder_hash(name)}
        elif (point := catalogue.origin(name)) is not None:
            package, version = name_and_version(point)
            modules = [point.module, catalogue.get(name).implementation.partition(":")[0]]
            entry = {"package": package, "version": version, **_source_hash(modules)}
        if entry:
            content[key] = entry
    return content


def _source_hash(modules: Iterable[str]) -> Mapping[str, str]:
    files = sorted(source_files(modules).items())
    texts = ((name, path.read_bytes().replace(b"\r\n", b"\n")) for name, path in files)
    lines = "".join(f"{name} {hashlib.sha256(text).hexdigest()}\n" for name, text in texts)
    return {"sha256": hashlib.sha256(lines.encode()).hexdigest()} if files else {}


def source_files(modules: Iterable[str]) -> dict[str, Path]:
    """Return the source files of modules, by their names from the folder of the package.

    An installed package gives its own files. A user's module also gives the files that it imports
    from its folder. This package, Python's modules and absent modules give none.
    """
    files: dict[str, Path] = {}
    queue = [(module.partition(".")[0], _folder_of(module)) for module in modules]
    seen = {__name__.partition(".")[0]}
    for first, folder in queue:
        if folder is None or first in seen or _folder_of(first) != folder:
            continue
        seen.add(first)
        package, file = folder / first, folder / f"{first}.py"
        # A folder without `__init__` is the package only if no module has its name.
        is_module = file.is_file() and not (package / "__init__.py").is_file()
        for path in [file] if is_module else package.rglob("*.py"):
            files[path.relative_to(folder).as_posix()] = path
            if folder.name not in _SITES:
                queue += [(name, folder) for name in _imports(path) - seen]
    return files


def _imports(path: Path) -> set[str]:
    """Return the top-level packages that a file imports by name."""
    names: set[str] = set()
    with warnings.catch_warnings(), suppress(SyntaxError, ValueError, RecursionError):
        warnings.simplefilter("ignore")  # the import itself warns of a backslash
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    return names


def _folder_of(module: str) -> Path | None:
    """Return the folder of a top-level package; None for Python's own and absent packages."""
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
