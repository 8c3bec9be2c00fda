"""The weights study: the weights that estimators give to groups of rewards."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maxk_lab.studies.weights import checks, plan, schema, worker
    from maxk_lab.sweeps.parts import Parts

    _run: Parts = (schema, plan, checks, worker)

    from maxk_lab.report.parts import ReportParts
    from maxk_lab.studies.weights import claims, figures, measured, payload, rows, section
    from maxk_lab.tracking.payload import PayloadPart

    _told: tuple[ReportParts, PayloadPart] = ((rows, measured, section, figures, claims), payload)
