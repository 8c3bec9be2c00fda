"""Report: finished records → tables, figures and verdicts on claims. Never writes or changes a record."""

from maxk_lab.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Summary": "model",
        "SummaryRow": "model",
        "TrainingRow": "training_model",
        "ObjectiveRow": "objective_rows",
        "WeightsRow": "weights_rows",
        "ProxyRow": "model",
        "ClaimVerdict": "model",
        "FORMATS": "tables",
        "render": "tables",
        "write_report": "write",
    },
)
