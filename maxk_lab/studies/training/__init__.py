"""The training study: Max@K curves of policies trained with each estimator."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maxk_lab.studies.training import checks, plan, schema, worker
    from maxk_lab.sweeps.parts import Parts

    _parts: Parts = (schema, plan, checks, worker)
