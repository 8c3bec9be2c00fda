"""Report: finished records → tables, figures and verdicts on claims. Changes no record."""

from typing import TYPE_CHECKING

from maxk_lab.lazy import callable_as, lazy_exports

if TYPE_CHECKING:
    from maxk_lab.report.formats.render import FORMATS as FORMATS
    from maxk_lab.report.formats.render import render as render
    from maxk_lab.report.model import ClaimVerdict as ClaimVerdict
    from maxk_lab.report.model import Summary as Summary
    from maxk_lab.report.write import write_report as write_report
    from maxk_lab.studies.gradient.pool import ProxyRow as ProxyRow
    from maxk_lab.studies.gradient.pool import SummaryRow as SummaryRow
    from maxk_lab.studies.objective.pool import ObjectiveRow as ObjectiveRow
    from maxk_lab.studies.training.row import TrainingRow as TrainingRow
    from maxk_lab.studies.weights.pool import WeightsRow as WeightsRow
else:
    __getattr__, __dir__ = lazy_exports(__name__)
    # `maxk_lab.report(run)` is a function to users, and this room has its name.
    callable_as(__name__, "maxk_lab.api.reporting:report")
