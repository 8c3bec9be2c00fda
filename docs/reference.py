"""Tables of the reference pages: verbs, keys, Python names, methods and columns, from the code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import maxk_lab

# The sign of each bound in a JSON schema.
SIGNS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def code(text: object) -> str:
    """Return a text as inline code; nothing for an empty one."""
    return f"`{text}`" if text not in (None, "") else ""


def verbs() -> str:
    """Return a section for each verb: its text, examples, arguments and options."""
    from typer.main import get_command

    from maxk_lab.cli import app
    from maxk_lab.cli.application import PANELS, load

    sections = [f"## Options of every verb\n\n{_parameters(get_command(app))}"]
    for panel, lines in PANELS.items():
        for verb in lines:
            command = load(verb)
            text, _, examples = inspect.cleandoc(command.help).partition("\b")
            text, examples = (
                re.sub(r"\[/?bold\]", "", chunk).strip() for chunk in (text, examples)
            )
            shown = f"\n\n```text\n{examples}\n```" if examples else ""
            sections.append(f"## {verb}\n\n*{panel}.* {text}{shown}\n\n{_parameters(command)}")
    return "\n\n".join(sections)


def _parameters(command: Any) -> str:
    """Return a table of the arguments and options of a verb."""
    rows = []
    for parameter in command.params:
        kind = str(parameter.type_descriptor.annotation).replace("'", "")
        kind = re.sub(r"(?:<class )?(?:\w+\.)*(\w+)>?", r"\1", kind)
        kind = "flag" if getattr(parameter, "is_bool_flag", False) else kind
        default = "" if callable(parameter.default) else parameter.default
        name = ", ".join(parameter.opts)
        rows.append((code(name), code(parameter.metavar), kind, code(default), parameter.help))
    return table(("name", "value", "type", "default", "meaning"), rows)


def python() -> str:
    """Return a section for each public name of the package: signature and docstring."""
    adapters = __import__("maxk_lab.adapters", fromlist=["adapters"])
    names = [(maxk_lab, name) for name in maxk_lab.__all__]
    names += [(adapters, name) for name in adapters.__all__]
    return "\n\n".join(f"## {name}\n\n{_documented(module, name)}" for module, name in names)


def _documented(module: Any, name: str) -> str:
    thing, lines = getattr(module, name), []
    if not (inspect.isclass(thing) and issubclass(thing, Exception)):
        signature = str(inspect.signature(thing)).replace("'", "").replace(", *,", ",\n    *,")
        lines.append(f"```python\n{module.__name__}.{name}{signature}\n```")
    lines.append(inspect.getdoc(thing) or "")
    if inspect.isclass(thing) and not issubclass(thing, Exception):
        methods = [(key, value) for key, value in vars(thing).items() if not key.startswith("_")]
        lines += [
            f"### {name}.{key}\n\n{inspect.getdoc(value)}"
            for key, value in methods
            if (inspect.isfunction(value) or isinstance(value, property)) and inspect.getdoc(value)
        ]
    return "\n\n".join(lines)


def methods(catalogue: str) -> str:
    """Return a table of estimators or baselines: formula, estimand, bias, limits and source."""
    from maxk_lab.estimators import catalogue as rows

    return table(
        ("name", "weights", "objective", "bias", "runs at", "source"),
        (
            (
                code(f"{row.name}[{row.parameter.name}]" if row.parameter else row.name),
                latex(row.formula),
                code(row.objective),
                row.biased or f"unbiased if {row.condition}",
                code(row.constraint),
                row.citation,
            )
            for row in getattr(rows, catalogue)
        ),
    )


def latex(formula: str) -> str:
    """Return a formula of the catalogue in LaTeX, or as it is if it contains a sentence."""
    if re.search(r"[a-z]{2,}[ ,;]+[a-z]{2,}\b(?!_)", formula):
        return code(formula)
    text = re.sub(r"(sum)_(\S+)", r"\\\1_{\2}", formula.replace("_-i", "_{-i}"))
    text = text.replace("!=", r"\neq ").replace("<=", r"\le ")
    text = re.sub(r"(?<![\\A-Za-z])(alpha|lambda|tau|rho)(?![a-z])", r"\\\1", text)
    text = re.sub(r"(?<![\\A-Za-z])([a-z]{3,}(?:_[a-z]{3,})?)", r"\\mathrm{\1}", text)
    return f"${text.replace('logit_proxy', 'logit proxy').replace('grad_norm', 'grad norm')}$"


def measures() -> str:
    """Return a table of the measures: name, meaning, unit and what its interval is about."""
    from maxk_lab.statistics.measures import MEASURES

    rows = ((code(m.name), m.meaning, m.unit, m.question, m.citation) for m in MEASURES)
    return table(("measure", "meaning", "unit", "interval about", "source"), rows)


def columns() -> str:
    """Return the tables of columns of estimates, comparisons and claims."""
    from maxk_lab.reports.tables import Tables

    return inspect.getdoc(Tables) or ""


def keys() -> str:
    """Return a table of the keys of each block of a sweep file, from its JSON schema."""
    from maxk_lab.sweep_file.model import json_schema

    schema = json_schema()
    return "\n\n".join(_blocks(schema, schema["$defs"], ""))


def _blocks(block: dict[str, Any], models: dict[str, Any], path: str) -> Iterator[str]:
    rows, inner = [], []
    for key, field in block["properties"].items():
        name = f"{path}{key}"
        model = next(iter(re.findall(r"#/\$defs/(\w+)", str(field))), None)
        if model and key not in ("environment", "policy"):
            inner.append((models[model], f"{name}."))
        default = field.get("default", "")
        default = "" if isinstance(default, dict) else code(default)
        default = "required" if key in block.get("required", ()) else default
        example = next(iter(field.get("examples", ())), "")
        rows.append(
            (code(name), _type(field), default, field.get("description", ""), code(example))
        )
    title = code(path.rstrip(".")) or "Top level"
    yield f"## {title}\n\n" + table(("key", "type", "default", "meaning", "example"), rows)
    for model, prefix in inner:
        if prefix.split(".")[-2] not in ("with", "of", "over", "along"):
            yield from _blocks(model, models, prefix)


def _type(field: dict[str, Any]) -> str:
    """Return a type of a JSON schema in words."""
    if "anyOf" in field:
        kinds = list(dict.fromkeys(_type(kind) for kind in field["anyOf"]))
        return " or ".join(kind for kind in kinds if kind != "null")
    if "enum" in field:
        return " \\| ".join(code(choice) for choice in field["enum"])
    if "$ref" in field or field.get("type") == "object" or "discriminator" in field:
        return "block"
    kind = field.get("type", "any")
    if kind == "array":
        return f"list of {_type(field.get('items', {}))}"
    bounds = [
        f"{sign} {field[key]:g}"
        for key, sign in SIGNS.items()
        if abs(field.get(key, 10**9)) < 10**9
    ]
    return " ".join([" or ".join(kind) if isinstance(kind, list) else kind, *bounds])


def settings(catalogue: str) -> str:
    """Return a table of the settings of every environment or policy."""
    from maxk_lab.environments.catalogue import ENVIRONMENTS
    from maxk_lab.policies.catalogue import POLICIES

    rows = []
    for row in {"environments": ENVIRONMENTS, "policies": POLICIES}[catalogue]:
        rows += [(code(row.name), "", "", row.meaning)]
        rows += [
            ("", code(s.name), f"{s.type_name}, {code(s.default)}", s.meaning)
            for s in row.settings.each()
        ]
    return table((catalogue, "setting", "type, default", "meaning"), rows)
