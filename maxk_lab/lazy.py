"""Public names that import their module on first use, and are typed: a fast command line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any


def lazy_exports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package (PEP 562) that exports what type checkers see.

    These are the imports under its `if TYPE_CHECKING:`, each written `from module import name as
    name`, which is how a typed package says that it exports a name.
    """

    @cache
    def homes() -> dict[str, str]:
        source = Path(str(sys.modules[package].__file__)).read_text(encoding="utf-8")
        found = re.findall(r"    from (\S+) import (?:\(\s+)?(\w+) as \2\b", source)
        return {name: module for module, name in found}

    def get(name: str) -> Any:
        if name == "__all__":
            return sorted(homes())
        if name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # A package can export a module of its own, too.
        home = homes()[name]
        own = home == package
        return import_module(f"{package}.{name}") if own else getattr(import_module(home), name)

    return get, lambda: sorted(homes())


def callable_as(package: str, function: str) -> None:
    """Let a package be called: `function`, written `module:name`, is imported and called then.

    It is for a package whose name the package around it exports as a function, too: whichever of
    the two an import has put there, both can be done with it.
    """

    class CallablePackage(ModuleType):
        __doc__ = sys.modules[package].__doc__

        def __call__(self, *arguments: Any, **options: Any) -> Any:
            """Call the function of this name."""
            module, _, name = function.partition(":")
            return getattr(import_module(module), name)(*arguments, **options)

    sys.modules[package].__class__ = CallablePackage
