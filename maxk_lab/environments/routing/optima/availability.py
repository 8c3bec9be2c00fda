"""Which references for the optimality gap an environment has. Imports no torch, no RL4CO and no solver."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from maxk_lab.catalogue import did_you_mean
from maxk_lab.environments.catalogue import ENVIRONMENTS

# What a study may ask for.
REFERENCES = ("auto", "none", "exact", "pyvrp")
# Held–Karp fills a table of n² 2ⁿ numbers an instance, so that up to here it takes a moment.
HELD_KARP_CITIES = 12
# One route from the depot and back, at most one visit each: mixed-integer programs of a size that HiGHS proves optimal.
ONE_TOUR = ("tsp", "op", "pctsp", "spctsp")
# What PyVRP can state in full. Not sdvrp (it splits no delivery) and not pctsp (it knows no least prize).
PYVRP = ("tsp", "cvrp", "cvrptw", "pdp")
NEEDS_PYVRP = "the reference pyvrp needs the optional extra: pip install 'maxk-lab[solvers]'"


def reference_refusal(environment: str, parameters: Mapping[str, Any], kind: str) -> str | None:
    """Why `evaluate.reference: kind` cannot be had for this environment with these parameters; None where it can.

    `auto` and `none` can always be had. With an evaluation set of the user's own, whose size only the file tells, this may
    still allow an `exact` that is then refused when the file is read.
    """
    if kind not in REFERENCES:
        also = did_you_mean(kind, REFERENCES)
        return f"evaluate.reference must be one of {', '.join(REFERENCES)}, got {kind!r}{also}"
    row = ENVIRONMENTS.get(environment)
    if kind == "exact" and environment not in ONE_TOUR and not row.enumerable(parameters):
        return (
            f"evaluate.reference: {environment} with these parameters has no exact optimum here (it has where trajectories "
            f"can be enumerated, {row.exact_when}; {', '.join(ONE_TOUR)} have of any size)"
        )
    if kind == "pyvrp":
        if environment not in PYVRP:
            return f"evaluate.reference: pyvrp solves {', '.join(PYVRP)}, not {environment}"
        if find_spec("pyvrp") is None:
            return NEEDS_PYVRP
    return None
