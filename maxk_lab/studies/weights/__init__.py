"""The weights study: the weights that estimators give to groups of rewards."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maxk_lab.studies.weights import checks, plan, schema, worker
    from maxk_lab.sweeps.parts import Parts

    _parts: Parts = (schema, plan, checks, worker)
