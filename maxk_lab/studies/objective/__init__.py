"""The objective study: the exact objective along one parameter, and where it is largest."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maxk_lab.studies.objective import checks, plan, schema, worker
    from maxk_lab.sweeps.parts import Parts

    _parts: Parts = (schema, plan, checks, worker)
