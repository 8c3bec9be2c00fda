"""The gradient study: bias, variance and signal-to-noise ratio of gradient estimates."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maxk_lab.studies.gradient import checks, kept, plan, schema, worker
    from maxk_lab.sweeps.parts import Kept, Parts

    _run: Parts = (schema, plan, checks, worker)
    _kept: Kept = kept

    from maxk_lab.report.parts import RecommendPart, ReportParts
    from maxk_lab.studies.gradient import (
        claims,
        figures,
        measured,
        payload,
        recommend,
        rows,
        section,
    )
    from maxk_lab.tracking.payload import PayloadPart

    _told: tuple[ReportParts, PayloadPart] = ((rows, measured, section, figures, claims), payload)
    _recommending: RecommendPart = recommend
