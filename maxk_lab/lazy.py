"""Public names that import their module only when they are used, so that the command line stays fast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose public names live in the submodules `homes[name]` (PEP 562)."""

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name] if homes[name].startswith("maxk_lab.") else f"{package}.{homes[name]}"
        return getattr(import_module(home), name)

    return get, lambda: sorted(homes)
