"""Report: finished records → tables, figures and verdicts on claims. Never writes or changes a record."""

from maxk_lab.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Summary": "model",
        "SummaryRow": "model",
        "TrainingRow": "maxk_lab.studies.training.rows.model",
        "ObjectiveRow": "maxk_lab.studies.objective.rows",
        "WeightsRow": "maxk_lab.studies.weights.rows",
        "ProxyRow": "model",
        "ClaimVerdict": "model",
        "FORMATS": "formats.render",
        "render": "formats.render",
        "write_report": "write",
    },
)
