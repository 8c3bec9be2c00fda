"""docs/surface.csv lists all that a user can write, and what became of what is no longer there.

A verb, an option, a key of a sweep file, a row of a catalogue or a public name that comes or goes
has its line changed in the same commit, so that nothing goes unnoticed and without a reason.
"""

from __future__ import annotations

import csv
import inspect
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from pydantic import BaseModel
from typer.main import get_command

import maxk_lab
from maxk_lab.catalogue import Catalogue
from maxk_lab.cli import app
from maxk_lab.cli.application import load
from maxk_lab.environments.catalogue import ENVIRONMENTS
from maxk_lab.environments.exact_rows import GAUSSIAN_REWARDS
from maxk_lab.environments.language.tasks import REWARDS, TASKS
from maxk_lab.estimators.catalogue import BASELINES, ESTIMATORS
from maxk_lab.fields import models_in
from maxk_lab.policies.catalogue import POLICIES
from maxk_lab.report.formats.render import CATALOGUE as REPORT_FORMATS
from maxk_lab.results.compare.document import FORMATS as COMPARISON_FORMATS
from maxk_lab.statistics.measures import MEASURES
from maxk_lab.sweeps.backends import BACKENDS
from maxk_lab.sweeps.spec.claims import CLAIM_KINDS
from maxk_lab.sweeps.spec.environment import NAME
from maxk_lab.sweeps.spec.layers import BLOCK, PROFILES
from maxk_lab.sweeps.spec.schema import SweepSpec
from maxk_lab.sweeps.spec.variation import CHECKPOINT
from maxk_lab.sweeps.studies import STUDIES

Line = tuple[str, str]
TABLE = Path(__file__).parents[1] / "docs/surface.csv"
STATUS = re.compile(r"kept|gone: \S.+|moved to (?P<new>\S.*)")
# Every catalogue whose rows a user can name, by what a row is.
CATALOGUES: dict[str, Catalogue] = {
    **{one.kind: one for one in (ESTIMATORS, BASELINES, ENVIRONMENTS, POLICIES, TASKS, REWARDS)},
    **{one.kind: one for one in (GAUSSIAN_REWARDS, STUDIES, BACKENDS, MEASURES)},
    "report format": REPORT_FORMATS,
}


def verbs() -> Iterator[Line]:
    """Yield the program's own options, then every verb with its arguments and options."""
    program = get_command(app)
    yield from (("option", " ".join(one.opts)) for one in program.params)
    for verb in program.commands:
        yield "verb", verb
        for one in load(verb).params:
            spelt = " ".join([*one.opts, *one.secondary_opts])
            yield one.param_type_name, f"{verb} {spelt}"


def keys_of(model: type[BaseModel], above: str = "") -> Iterator[Line]:
    """Yield the keys of a block of a sweep file, and those of the blocks in it."""
    for name, field in model.model_fields.items():
        key = above + (field.alias or name)
        yield "key", key
        for block in models_in(field.annotation):
            kind = next((kind for kind, one in CLAIM_KINDS.items() if one is block), "")
            yield from keys_of(block, f"{key}[{kind}]." if kind else f"{key}.")


def keys() -> Iterator[Line]:
    """Yield the keys of a sweep file, and those of a user's configuration."""
    yield from keys_of(SweepSpec)
    for kind in STUDIES:
        yield "key", kind.name
        yield from keys_of(kind.part("spec").Study, f"{kind.name}.")
    yield from (("key", key) for key in (NAME, "policy.name", CHECKPOINT))
    yield from (("configuration key", key) for key in (BLOCK, PROFILES))


def rows() -> Iterator[Line]:
    """Yield the rows of every catalogue that a user can name, each with its parameters."""
    yield from (("comparison format", name) for name in COMPARISON_FORMATS)
    for kind, catalogue in CATALOGUES.items():
        # Those that installed packages add are not ours to list.
        for row in (row for row in catalogue if catalogue.origin(row.name) is None):
            yield kind, row.name
            some = (
                row.settings.each()
                if hasattr(row, "settings")
                else (getattr(row, "parameter", None),)
            )
            yield from (("parameter", f"{kind} {row.name}: {one.name}") for one in some if one)


def names() -> Iterator[Line]:
    """Yield what packages export; of `maxk_lab` itself what functions take and objects have."""
    for name in maxk_lab.__all__:
        yield "name", f"maxk_lab.{name}"
        # As an attribute it may be the package of the same name instead.
        thing = maxk_lab.__getattr__(name)
        if inspect.isclass(thing):
            parts = {*dir(thing), *getattr(thing, "__dataclass_fields__", ())} - {*dir(Exception)}
            public = sorted(part for part in parts if not part.startswith("_"))
            yield from (("name", f"maxk_lab.{name}.{part}") for part in public)
        else:
            for parameter in inspect.signature(thing).parameters:
                yield "name", f"maxk_lab.{name}({parameter})"
    for module in pkgutil.iter_modules(maxk_lab.__path__, "maxk_lab."):
        exported = getattr(import_module(module.name), "__all__", ())
        yield from (("name", f"{module.name}.{name}") for name in exported)


def problems(table: list[list[str]], present: set[Line]) -> Iterator[str]:
    """Yield what is wrong with the lines of the table, given all that is present."""
    listed = Counter((kind, name) for kind, name, _ in table)
    yield from (f"add: {kind},{name},kept" for kind, name in sorted(present - set(listed)))
    yield from (f"listed more than once: {','.join(line)}" for line in listed - Counter({*listed}))
    for kind, name, status in table:
        match = STATUS.fullmatch(status)
        if match is None:
            said = f"must be kept, moved to NAME or gone: REASON, got {status!r}"
        elif (status == "kept") != ((kind, name) in present):
            said = f"is {status!r}, and it is {'not ' * (status == 'kept')}there"
        elif match["new"] and match["new"] not in {name for _, name in present}:
            said = f"nothing is called {match['new']}"
        else:
            continue
        yield f"{kind},{name},{status}: {said}"


def test_the_table_lists_everything_that_a_user_can_write() -> None:
    heading, *table = csv.reader(TABLE.read_text(encoding="utf-8").splitlines())
    assert heading == ["kind", "name", "status"]
    assert not list(problems(table, {*verbs(), *keys(), *rows(), *names()}))
