"""The training study: Max@K curves of policies trained with each estimator."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maxk_lab.report.parts import ReportParts
    from maxk_lab.studies.training import (
        checks,
        claims,
        figures,
        payload,
        plan,
        rows,
        schema,
        section,
        worker,
    )
    from maxk_lab.sweeps.parts import Parts
    from maxk_lab.tracking.payload import PayloadPart

    _parts: Parts = (schema, plan, checks, worker)
    _reported: ReportParts = (rows, section, figures, claims)
    _tracked: PayloadPart = payload
