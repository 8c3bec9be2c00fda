"""Sweeps: a YAML file becomes a validated spec, a plan of cells, worker processes and records."""

from typing import TYPE_CHECKING

from maxk_lab.lazy import lazy_exports

if TYPE_CHECKING:
    from maxk_lab.studies.objective.spec import ObjectiveUnit as ObjectiveUnit
    from maxk_lab.studies.training.grid import TrainingUnit as TrainingUnit
    from maxk_lab.studies.weights.spec import WeightsUnit as WeightsUnit
    from maxk_lab.sweeps.plan.cells import Cell as Cell
    from maxk_lab.sweeps.plan.cells import Unit as Unit
    from maxk_lab.sweeps.plan.grid import Skipped as Skipped
    from maxk_lab.sweeps.plan.identity import IDENTITY_VERSION as IDENTITY_VERSION
    from maxk_lab.sweeps.plan.identity import content_hash as content_hash
    from maxk_lab.sweeps.plan.plan import Plan as Plan
    from maxk_lab.sweeps.plan.plan import make_plan as make_plan
    from maxk_lab.sweeps.run.bundle import find_run as find_run
    from maxk_lab.sweeps.run.execute import Outcome as Outcome
    from maxk_lab.sweeps.run.progress import statuses as statuses
    from maxk_lab.sweeps.run.records import Record as Record
    from maxk_lab.sweeps.run.records import RunDirectory as RunDirectory
    from maxk_lab.sweeps.spec.load import load_spec as load_spec
    from maxk_lab.sweeps.spec.schema import SweepSpec as SweepSpec
else:
    __getattr__, __dir__ = lazy_exports(__name__)
