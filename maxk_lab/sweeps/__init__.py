"""Sweeps: a YAML file becomes a validated spec, a plan of cells, worker processes and records on disk."""

from maxk_lab.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "IDENTITY_VERSION": "identity",
        "Cell": "cells",
        "ObjectiveUnit": "cells",
        "Outcome": "execute",
        "Plan": "plan",
        "Record": "records",
        "RunDirectory": "records",
        "Skipped": "grid",
        "SweepSpec": "schema",
        "TrainingUnit": "cells",
        "Unit": "cells",
        "WeightsUnit": "cells",
        "content_hash": "identity",
        "estimate_seconds": "progress",
        "find_run": "records",
        "load_spec": "spec",
        "make_plan": "plan",
        "statuses": "progress",
    },
)
