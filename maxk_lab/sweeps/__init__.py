"""Sweeps: a YAML file becomes a validated spec, a plan of cells, worker processes and records on disk."""

from maxk_lab.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "IDENTITY_VERSION": "plan.identity",
        "Cell": "plan.cells",
        "ObjectiveUnit": "plan.cells",
        "Outcome": "run.execute",
        "Plan": "plan.plan",
        "Record": "run.records",
        "RunDirectory": "run.records",
        "Skipped": "plan.grid",
        "SweepSpec": "spec.schema",
        "TrainingUnit": "plan.cells",
        "Unit": "plan.cells",
        "WeightsUnit": "plan.cells",
        "content_hash": "plan.identity",
        "estimate_seconds": "run.progress",
        "find_run": "run.records",
        "load_spec": "spec.load",
        "make_plan": "plan.plan",
        "statuses": "run.progress",
    },
)
