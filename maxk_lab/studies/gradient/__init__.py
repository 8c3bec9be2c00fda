"""The gradient study: bias, variance and signal-to-noise ratio of gradient estimates."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maxk_lab.report.parts import RecommendPart, ReportParts
    from maxk_lab.studies.gradient import (
        checks,
        claims,
        figures,
        payload,
        plan,
        recommend,
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
    _recommending: RecommendPart = recommend
