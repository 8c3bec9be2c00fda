"""The training study: Max@K curves of policies trained with each estimator."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maxk_lab.studies.training import checks, kept, plan, schema, worker
    from maxk_lab.sweeps.parts import Kept, Parts

    _run: Parts = (schema, plan, checks, worker)
    _kept: Kept = kept

    from maxk_lab.report.parts import ReportParts
    from maxk_lab.studies.training import claims, figures, measured, payload, rows, section
    from maxk_lab.tracking.payload import PayloadPart

    _told: tuple[ReportParts, PayloadPart] = ((rows, measured, section, figures, claims), payload)
