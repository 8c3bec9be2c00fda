"""Public names that import their module on first use, and are typed: a fast command line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
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
        return getattr(import_module(homes()[name]), name)

    return get, lambda: sorted(homes())
