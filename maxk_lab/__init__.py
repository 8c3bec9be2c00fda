"""maxk-lab: which Max@K gradient estimator and which baseline to use, measured with evidence."""

from typing import TYPE_CHECKING

from maxk_lab.lazy import lazy_exports

__version__ = "0.1.0"

if TYPE_CHECKING:
    from maxk_lab.api import Run as Run
    from maxk_lab.api import RunReport as RunReport
    from maxk_lab.api import measure as measure
    from maxk_lab.api import plan as plan
    from maxk_lab.api import report as report
    from maxk_lab.api import run as run
    from maxk_lab.errors import LabError as LabError
    from maxk_lab.errors import LabWarning as LabWarning
    from maxk_lab.errors import MistakeError as MistakeError
    from maxk_lab.errors import RefusedError as RefusedError
    from maxk_lab.errors import SpecError as SpecError
    from maxk_lab.estimators.by_name import advantages as advantages
    from maxk_lab.files import StorageError as StorageError
    from maxk_lab.own.audit import audit as audit
    from maxk_lab.own.check import check as check
    from maxk_lab.own.sketch import GradientSketch as GradientSketch
    from maxk_lab.results.compare import compare as compare
    from maxk_lab.results.frame import load as load
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "api": "Run RunReport measure plan report run",
            "errors": "LabError LabWarning MistakeError RefusedError SpecError",
            "estimators.by_name": "advantages",
            "files": "StorageError",
            "own.audit": "audit",
            "own.check": "check",
            "own.sketch": "GradientSketch",
            "results.compare": "compare",
            "results.frame": "load",
        },
    )
