"""Check the advantage functions and metrics of public packages, and write docs/board.md.

    python benchmarks/board.py              # all of board.yaml
    python benchmarks/board.py verl TRL     # these projects, printed and not written

A function comes from the source file of its pinned wheel, with the definitions there that it
needs. It runs in a process with torch and NumPy only: other imports are silent stand-ins.
"""

from __future__ import annotations
import __future__

import argparse
import ast
import builtins
import json
import os
import re
import subprocess
import sys
import types
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from jinja2 import Environment, FileSystemLoader

ROOT = Path(__file__).parents[1]
README = ROOT / "docs/templates/README.md"
PAGE, TABLE = ROOT / "docs/board.md", ROOT / "benchmarks/board.yaml"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "maxk-lab/board"
ALLOWED = {"torch", "numpy", *sys.stdlib_module_names}
SECONDS = 300.0
KINDS = ("right", "right in direction", "biased")
# Factors beside our weights, which carry 1/n, and beside a trainer's mean over samples.
FACTORS = {"n": "1", "n - 1": "(1 - 1/n)", "1": "1/n", "n^2/(n - 1)": "n/(n - 1)"}
FACTORS |= {"n sqrt(n/(n - 1))": "sqrt(n/(n - 1))"}
# What to change, for readers of the page, by how the advice of the check begins.
CHANGES = {
    "do not divide by the spread": "for a gradient without bias, leave the division by the "
    "deviation out",
    "do not divide by the mean": "use it for rewards of 0 and 1, and leave the division out "
    "elsewhere",
}
# The laws behind each column of the page, and those that get a line of their own.
MARKS = {
    "ties": ("equal rewards have equal weights",),
    "one sample": ("a group of one has weight 0",),
    "n = 2": ("weights are finite", "groups of equal rewards have finite weights"),
    "negative": ("a higher reward has no lower weight",),
    "level": ("a shift of the rewards changes nothing",),
    "order": ("a second call gives the same weights", "the order of samples does not matter"),
    "rounding": (
        "rewards equal up to rounding count as equal",
        "rewards in float32 have the same weights",
        "rewards near 10,000 are as exact as rewards near 0",
    ),
    "other groups": ("groups of a batch do not mix",),
}
REMARKS = {
    "a higher reward has no lower weight": "a higher reward can have a lower weight",
    "a group of one has weight 0": "a group of one has a weight other than 0",
    "rewards equal up to rounding count as equal": "rewards equal up to rounding have weights",
    "rewards near 10,000 are as exact as rewards near 0": "rewards near 10,000 lose precision",
    "whole numbers are treated as floats": "whole numbers are truncated",
    "the order of samples does not matter": "the order of samples matters",
    "a second call gives the same weights": "two calls differ",
}
Entry = dict[str, Any]


class StandIn:
    """What is no part of the arithmetic: it takes any call, and decorates without effect."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        """Return the definition of this name in another file of the entry, else the stand-in."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self._source.value(name) if name in self._source.definitions else self

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Return a decorated function or class as it is."""
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else self

    def __getitem__(self, key: Any) -> StandIn:
        """Return the stand-in, as a generic type would."""
        return self

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        """Be no base of a class."""
        return ()


class Source:
    """The definitions of files of a wheel, executed when something needs them."""

    def __init__(self, archive: Path, files: list[str]) -> None:
        self.definitions: dict[str, ast.stmt] = {}
        self.imports: dict[str, ast.stmt] = {}
        self.space: dict[str, Any] = {"__name__": "wheel"}
        self.space["__builtins__"] = {**vars(builtins), "__import__": self._import}
        with zipfile.ZipFile(archive) as content:
            for file in files:
                path = next(name for name in content.namelist() if f"/{name}".endswith(f"/{file}"))
                for node in ast.walk(ast.parse(content.read(path))):
                    if isinstance(node, ast.Import | ast.ImportFrom):
                        for alias in node.names:
                            name = alias.asname or alias.name.partition(".")[0]
                            self.imports.setdefault(name, node)
                for node in ast.parse(content.read(path)).body:
                    for name in [getattr(node, "name", ""), *_assigned(node)]:
                        self.definitions.setdefault(name, node)

    def _import(self, name: str, *arguments: Any) -> Any:
        allowed = name.partition(".")[0] in ALLOWED
        return __import__(name, *arguments) if allowed else StandIn(self)

    def need(self, tree: ast.AST) -> None:
        """Execute the definitions and imports that code refers to."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                self.value(node.id)

    def value(self, name: str) -> Any:
        """Return the value of a name of the files; None if they do not define it."""
        node = self.definitions.get(name) or self.imports.get(name)
        if name not in self.space and node is not None:
            self.space[name] = None  # it may refer to itself
            self.need(node)
            self.run([_undecorated(node)])
        return self.space.get(name)

    def run(self, body: list[ast.stmt]) -> None:
        """Execute statements; annotations are not evaluated."""
        tree = ast.fix_missing_locations(ast.Module(body, []))
        flags = __future__.annotations.compiler_flag
        exec(compile(tree, "<wheel>", "exec", flags, dont_inherit=True), self.space)

    def function(self, path: str) -> Callable[..., Any]:
        """Return the function or class at `f`, `Class.method` or `f.inner`."""
        node = self._node(path)
        self.need(node)
        self.run([node])
        function: Callable[..., Any] = self.space[node.name]
        return function

    def slice(
        self, path: str, first: str, last: str, number: int = 0, result: str = ""
    ) -> Callable[..., Any]:
        """Return the statements of a function from one that assigns `first` to one of `last`.

        It takes the variables by name, and returns `result`, or `last`.
        """
        for block in _blocks(self._node(path)):
            start = next((i for i, node in enumerate(block) if first in _assigned(node)), None)
            ends = [i for i, node in enumerate(block) if last in _assigned(node)]
            ends = [i for i in ends if start is not None and i >= start]
            if ends:
                body = block[start : ends[number] + 1]
                break
        self.need(ast.Module(body, []))
        code = compile(ast.fix_missing_locations(ast.Module(body, [])), "<wheel>", "exec")

        def sliced(**variables: Any) -> Any:
            space = self.space | variables
            exec(code, space)
            return space[result or last]

        return sliced

    def _node(self, path: str) -> Any:
        name, *inner = path.split(".")
        node: Any = self.definitions[name]
        for step in inner:
            node = next(each for each in ast.walk(node) if getattr(each, "name", "") == step)
        return _undecorated(node)


def _undecorated(node: Any) -> Any:
    if hasattr(node, "decorator_list"):
        node.decorator_list = []
    return node


def _assigned(node: ast.AST) -> set[str]:
    """Return the names that a statement itself assigns."""
    targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
    parts = [
        inner for target in targets if isinstance(target, ast.AST) for inner in ast.walk(target)
    ]
    return {name.id for name in parts if isinstance(name, ast.Name)}


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements in a function, the outer ones first."""
    for inner in ast.walk(node):
        for field in ("body", "orelse"):
            block = getattr(inner, field, None)
            if isinstance(block, list):
                yield block


def wheel(package: str, version: str) -> Path:
    """Return a wheel in the cache, downloaded by pip if it is not there yet."""
    pattern = f"{package.replace('-', '_')}-{version}-*.whl"
    if not list(CACHE.glob(pattern)):
        CACHE.mkdir(parents=True, exist_ok=True)
        options = ["--no-deps", "--only-binary=:all:", "--ignore-requires-python", "--quiet"]
        command = [sys.executable, "-m", "pip", "download", *options, "-d", str(CACHE)]
        subprocess.run([*command, f"{package}=={version}"], check=True)
    return next(CACHE.glob(pattern))


def load(entry: Entry) -> Callable[..., Any]:
    """Return the function of an entry, as one that `check` can call."""
    archive = wheel(entry["package"], entry["version"])
    source = Source(archive, [entry["file"], *entry.get("also", [])])
    source.space |= {name: eval(value) for name, value in entry.get("names", {}).items()}
    if "slice" in entry:
        function = source.slice(entry["function"], *entry["slice"])
    else:
        function = source.function(entry["function"])
    if "call" not in entry:
        return function
    names = {"f": function, "torch": torch, "np": np, "space": types.SimpleNamespace}
    code = compile(entry["call"], TABLE.name, "eval")

    def call(rewards: torch.Tensor, k: int) -> Any:
        return eval(code, names | {"r": rewards, "n": len(rewards), "k": k})

    return call


def check_project(project: str) -> Iterator[Entry]:
    """Yield the entries of a project with their verdicts."""
    from maxk_lab.own.check import check
    from maxk_lab.own.functions import Caller

    for entry in yaml.safe_load(TABLE.read_text())["entries"]:
        if entry["project"] == project:
            function, k, metric = load(entry), entry.get("k", 1), entry.get("metric", False)
            names = {"signature", "binary", "metric", "values"} & {*entry}
            verdict = asdict(check(function, k=k, **{name: entry[name] for name in names}))
            entry |= {"verdict": verdict, "kind": kind(verdict, metric)}
            if "at" in entry:
                group = torch.tensor(entry["at"], dtype=torch.float64)
                signature = "metric" if metric else entry.get("signature", "rewards")
                caller = Caller(function, k, signature, entry.get("values"))
                entry["result"] = caller.weigh(group).tolist()
            yield entry


def kind(verdict: Entry, metric: bool) -> str:
    """Return the class of a verdict: right, right in direction, biased, or does not run."""
    if "does not run" in verdict["verdict"]:
        return "does not run"
    if not verdict["objective"]:
        return "biased"
    exact = metric or verdict["factor"] in ("n", "")
    return "right" if exact else "right in direction"


def wrong(entry: Entry) -> str:
    """Return what differs from the entry's `expect` and `gives`, else nothing."""
    verdict, name = entry["verdict"], f"{entry['project']} {entry['version']} {entry['name']}"
    if entry.get("expect", "") not in verdict["verdict"] + verdict["equals"]:
        return f"{name}: expected {entry['expect']!r}, got {verdict['verdict']!r}"
    if "gives" in entry and not np.allclose(entry["result"], entry["gives"], atol=5e-3):
        return f"{name}: expected {entry['gives']}, got {entry['result']}"
    return ""


def main() -> int:
    """Check, print, and write the page; return 1 for a wrong verdict or a project without one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("projects", nargs="*")
    parser.add_argument("--child", action="store_true", help="print the results as JSON")
    arguments = parser.parse_args()
    if arguments.child:
        output, sys.stdout = sys.stdout, sys.stderr  # functions may print
        for entry in check_project(arguments.projects[0]):
            print(json.dumps(entry), file=output)
        return 0
    table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    projects = dict.fromkeys(entry["project"] for entry in table["entries"])
    entries, problems = list[Entry](), list[str]()
    for project in arguments.projects or projects:
        command = [sys.executable, __file__, "--child", project]
        try:
            done = subprocess.run(
                command, check=True, capture_output=True, text=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            problems.append(f"{project}: no result within {SECONDS:.0f} s")
            continue
        except subprocess.CalledProcessError as error:
            problems.append(f"{project}: {error.stderr[-2000:]}")
            continue
        for line in done.stdout.splitlines():
            entries.append(json.loads(line))
            last = entries[-1]
            print(f"{project} {last['version']} {last['name']}: {last['verdict']['verdict']}")
    problems += filter(None, map(wrong, entries))
    print("\n".join(problems))
    if not arguments.projects and not problems:
        environment = Environment(
            loader=FileSystemLoader(TABLE.parent), trim_blocks=True, lstrip_blocks=True
        )
        entries = [entry | columns(entry) for entry in entries]
        page = environment.get_template("board.md.j2").render(
            summary=summary(entries),
            entries=entries,
            examples=examples(entries),
            date=date.today(),
            missing=table["not checked"],
            kinds=[(kind.capitalize(), kind) for kind in KINDS],
            marks=[*MARKS],
        )
        PAGE.write_text(page + "\n", encoding="utf-8")
        counts = summary(entries).removesuffix(".")
        text = re.sub(r"\d+ functions of \d+ projects: .*", counts, README.read_text("utf-8"))
        README.write_text(text, encoding="utf-8")
        subprocess.run([sys.executable, ROOT / "docs/fill.py"], check=True)
    return int(bool(problems))


def summary(entries: list[Entry]) -> str:
    """Return the counts of the page in a sentence."""
    counts = Counter(entry["kind"] for entry in entries)
    projects = len({entry["project"] for entry in entries})
    numbers = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS)
    return f"{len(entries)} functions of {projects} projects: {numbers}."


def columns(entry: Entry) -> Entry:
    """Return what the page shows of an entry beside its verdict."""
    verdict = entry["verdict"]
    broken = {law["name"]: law["detail"] for law in verdict["laws"] if not law["holds"]}
    factor = FACTORS.get(verdict["factor"], "a factor of n")
    equals = f"`{verdict['equals']}`" if verdict["equals"] else ""
    equals += f" times {factor}" if equals and factor != "1" else ""
    if verdict["verdict"].startswith("on rewards of 0 and 1"):
        equals += " for rewards of 0 and 1"
    size = ""
    for bias in verdict["bias"][-1:]:
        low, high = (f"{end / bias['n']:.3g}" for end in bias["factor"])
        size = f"{low} to {high} times ∇J_{verdict['k']}"
        size += f", cosine {bias['cosine']:.4f}, at n = {bias['n']}"
        size = size if low != high else "see the example"
    change = verdict["change"]
    for cause, text in CHANGES.items():
        change = text if change.startswith(cause) else change
    marks = ["no" if any(law in broken for law in laws) else "yes" for laws in MARKS.values()]
    laws = [law for law in REMARKS if law in broken and ": it raises" not in broken[law]]
    remarks = [f"{REMARKS[law]}, {broken[law]}" for law in laws]
    if "at" in entry and not entry.get("metric"):
        weights = [round(weight, 3) for weight in entry["result"]]
        remarks.insert(0, f"the rewards {entry['at']} get the weights {weights}")
    page = {"size": size, "factor": factor, "equals": equals, "marks": marks}
    return page | {"remarks": remarks, "change": change}


def examples(entries: list[Entry]) -> dict[tuple[str, str], list[Entry]]:
    """Return the biased functions by their counterexample and what to change."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        if entry["kind"] == "biased" and not entry.get("metric"):
            key = entry["verdict"]["example"], entry["change"]
            groups.setdefault(key, []).append(entry)
    return groups


if __name__ == "__main__":
    sys.exit(main())
